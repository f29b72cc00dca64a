/**
 * @module The messages between `heddle run` and its agents: one line of JSON each over the input and output of an agent that a shell has
 * started on a host (`--hosts`), or the heads of frames on the link of an agent that an engine has started (`--with`). The secret of a run
 * passes here, never on a command line.
 */
import type { Readable, Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { OwnAddress } from "../hosts/interfaces.ts";
import type { EnvironmentVariables } from "./environment.ts";
import type { WorkerExit } from "./worker-process.ts";

/** What an agent says first. */
export interface HelloMessage {
  readonly type: "hello";
  /** Heddle's version. */
  readonly version: string;
  readonly addresses: readonly OwnAddress[];
  /** Cores that a run may use. */
  readonly cores: number;
  /** Of an agent that an engine has started: its place among the engine's processes, and its machine. */
  readonly seat?: AgentSeat;
}

/** Where an engine has started an agent. */
export interface AgentSeat {
  readonly rank: number;
  /** The host's name, for people. */
  readonly host: string;
  /** The same for all agents of one machine. */
  readonly machine: string;
  /** The processors on which the agent may run, as Linux lists them. */
  readonly processors: string;
}

/** Opens the run's store on the host of rank 0. */
export interface StoreMessage {
  readonly type: "store";
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  readonly runId: string;
  readonly choice?: string | undefined;
  readonly ports?: readonly [first: number, last: number] | undefined;
}

/** Starts a host's workers. */
export interface StartMessage {
  readonly type: "start";
  readonly folder: string;
  readonly file: string;
  readonly args: readonly string[];
  readonly outputToErrors: boolean;
  readonly workers: readonly { readonly rank: number; readonly variables: EnvironmentVariables }[];
}

/** From the launcher to an agent. */
export type ToAgent =
  | { readonly type: "open"; readonly timeout: number }
  | StoreMessage
  | StartMessage
  | { readonly type: "kill"; readonly rank: number; readonly signal: string }
  | { readonly type: "send"; readonly rank: number; readonly value: object }
  /** All workers have ended: remove what they left, but with `keep` not the records of a failed run. */
  | { readonly type: "end"; readonly keep: boolean }
  | { readonly type: "ping" };

/** From an agent to the launcher. */
export type FromAgent =
  | HelloMessage
  | { readonly type: "stored"; readonly port: number }
  | { readonly type: "failed"; readonly code: string; readonly message: string }
  | { readonly type: "output"; readonly rank: number; readonly stream: "out" | "err"; readonly data: string }
  | { readonly type: "message"; readonly rank: number; readonly value: unknown }
  | { readonly type: "ended"; readonly rank: number; readonly exit: Omit<WorkerExit, "at"> }
  | { readonly type: "records"; readonly folder: string }
  | { readonly type: "ping" };

/** The longest line: a worker's message may hold a plan. */
const longest = 2 ** 28;

/** Writes a message. */
export function writeMessage(stream: Writable, message: ToAgent | FromAgent): void {
  if (stream.writable) stream.write(`${JSON.stringify(message)}\n`);
}

/** Calls back for every message of a stream; other lines, such as a shell's greeting, go to `other`. */
export function readMessages(stream: Readable, take: (message: never) => void, other: (line: string) => void): void {
  const decoder = new StringDecoder("utf8");
  let pending = "";
  stream.on("data", (bytes: Buffer) => {
    pending += decoder.write(bytes);
    const lines = pending.split("\n");
    pending = lines.pop() ?? "";
    if (pending.length > longest) stream.destroy(new Error("a line is too long"));
    for (const line of lines) {
      const message = parsed(line);
      if (message === undefined) other(line);
      else take(message as never);
    }
  });
}

function parsed(line: string): object | undefined {
  if (!line.startsWith('{"type":"')) return undefined;
  try {
    return JSON.parse(line) as object;
  } catch {
    return undefined;
  }
}
