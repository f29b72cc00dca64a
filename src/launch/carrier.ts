/** @module What carries the messages between a launcher and an agent: the input and output of a shell, or a link that the agent opened. */
import { type ChildProcess, spawn } from "node:child_process";
import type { PassThrough } from "node:stream";
import type { Channel } from "../executors/remote/channel.ts";
import { type FromAgent, readMessages, type ToAgent, writeMessage } from "./host-messages.ts";
import { copyLines } from "./output.ts";

/** The launcher's way to an agent. */
export interface Carrier {
  /** The agent's name in errors, such as `host b`. */
  readonly name: string;
  /** What to do if the agent is lost. */
  readonly hint: string;
  send(message: ToAgent): void;
  /** Sets the receiver of messages; called once, before any message arrives. */
  onMessage(take: (message: FromAgent) => void): void;
  /** Resolves when the agent has gone: why, such as `its shell ended with status 255`, and what it said last. */
  readonly ended: Promise<{ readonly why: string; readonly said: readonly string[] }>;
  /** Lets the agent go, which has got its last message. */
  end(): void;
  kill(): void;
}

/** Starts a shell on a host, in which the agent runs. */
export function shellCarrier(host: string, [program = "", ...args]: readonly string[]): Carrier {
  // In a group of its own: Ctrl-C at a terminal must reach the workers by the launcher alone.
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], detached: true });
  const { stdin, stdout, stderr } = child as ChildProcess & Record<"stdin" | "stdout" | "stderr", PassThrough>;
  stdin.on("error", () => {});
  const said: string[] = [];
  const note = (line: string): void => {
    said.push(line);
    if (said.length > 5) said.shift();
  };
  void copyLines(stderr, { write: (text: string) => note(text.trimEnd()) } as never, "");
  return {
    name: `host ${host}`,
    hint: "does its shell start without a password, and does the host have Node and Heddle at the same paths? (--shell)",
    send: (message) => writeMessage(stdin, message),
    onMessage: (take) => readMessages(stdout, take, note),
    ended: new Promise((resolve) => {
      child.once("error", ({ message }) => resolve({ why: `its shell could not be started: ${message}`, said }));
      child.once("close", (code, signal) =>
        resolve({ why: `its shell ended with ${signal ?? `status ${code}`}`, said }),
      );
    }),
    end: () => void stdin.end(),
    kill: () => void child.kill("SIGKILL"),
  };
}

/** The way to an agent that an engine has started, and that has opened a link. */
export const channelCarrier = (name: string, channel: Channel): Carrier => ({
  name,
  hint: "the engine's own output or log may say why the process has ended",
  send: (message) => channel.send({ ...message }),
  onMessage: (take) => channel.onFrame(({ head }) => take(head as unknown as FromAgent)),
  ended: new Promise((resolve) =>
    channel.onEnd((error) => resolve({ why: error?.plain ?? "the link was ended", said: [] })),
  ),
  end: () => {},
  kill: () => channel.close("the launcher gave up"),
});
