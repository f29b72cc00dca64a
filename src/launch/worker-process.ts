/** @module One worker process: started, listened to, stopped. */

import { type ChildProcess, spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { type ElasticMessage, type ErrorMessage, parseWorkerMessage } from "../launcher-messages/launcher.ts";
import type { EnvironmentVariables } from "./environment.ts";
import type { Position } from "./flight.ts";
import { inheritedDescriptors } from "./inherited.ts";
import { copyLines, rankPrefix } from "./output.ts";

/** How a process ended. */
export interface WorkerExit {
  readonly code: number | null;
  /** The signal's name, such as `"SIGKILL"`; null for a process that ended by itself. */
  readonly signal: string | null;
  /** Time of the end, by `performance.now()`. */
  readonly at: number;
  /** Why the process could not be started. */
  readonly startError?: string;
  /** Whether the worker's host is lost, and the worker with it. */
  readonly hostLost?: boolean;
  /** What the worker was doing, if another host's launcher says so. */
  readonly position?: Position;
}

/** A worker that was started. */
export interface WorkerProcess {
  readonly rank: number;
  readonly pid: number | undefined;
  /** Resolves when the process is gone, its output is written and its messages are read. */
  readonly ended: Promise<WorkerExit>;
  /** Set when `ended` resolves. */
  exit: WorkerExit | undefined;
  /** Whether the process is gone; its last output and messages may not have been read yet. */
  readonly gone: boolean;
  /** The last step that the worker reported. */
  step: number | undefined;
  /** What the worker does before its first step. */
  doing: string | undefined;
  /** Whether the worker has joined the others, or tried to; or, alone, has asked for its mesh. */
  joined: boolean;
  /** Whether the worker uses the given plan. */
  byPlan: boolean;
  error: ErrorMessage | undefined;
  /** The text of the plan, if the worker made a plan instead of running. */
  plan: string | undefined;
  /** Whether the launcher has stopped the worker: then its end is not a failure. */
  stopping: boolean;
  /** Takes what the worker of an elastic run says of its place. */
  onElastic: (message: ElasticMessage) => void;
  kill(signal: string): void;
  /** Sends a message, unless the worker is ending. */
  send(message: object): void;
  /** Tells the worker that another rank has ended with status 0, so that it does not wait for that rank. */
  peerEnded(rank: number): void;
  /** Removes the half-written files that the worker left. */
  removeTemporaries(): void;
}

/** What carries a worker: a process of this host, or a link to another host. */
export interface WorkerCarrier {
  readonly pid: number | undefined;
  readonly gone: boolean;
  readonly ended: Promise<WorkerExit>;
  kill(signal: string): void;
  /** Sends a message, unless the worker is ending. */
  send(message: object): void;
  onMessage(take: (value: unknown) => void): void;
}

/** The command of a worker. */
export interface WorkerCommand {
  readonly rank: number;
  /** Arguments for `node`. */
  readonly arguments: readonly string[];
  readonly environment: EnvironmentVariables;
  /** Whether the worker writes directly to the terminal, as rank 0 does; the others' lines get a prefix. */
  readonly inheritOutput: boolean;
  readonly inheritInput: boolean;
  /** Whether the worker's output goes to the error stream, so that the launcher's output is the plan or the profile alone. */
  readonly outputToErrors: boolean;
  /** Takes the worker's output and messages instead of this process, which has its terminal elsewhere. */
  readonly relay?: WorkerRelay;
}

/** Takes what a worker says. */
export interface WorkerRelay {
  output(stream: "out" | "err", bytes: Uint8Array): void;
  message(value: unknown): void;
}

/** How long to wait for the pipes of a process that is gone (a child process may hold them open). */
const drainMilliseconds = 300;

/** Starts a worker. It shares the launcher's process group, as a shell expects of a job. */
export function startWorker(command: WorkerCommand): WorkerProcess {
  const output = command.inheritOutput && command.relay === undefined ? "inherit" : "pipe";
  const errorStream = 2;
  const child = spawn(process.execPath, command.arguments, {
    env: command.environment,
    stdio: [
      command.inheritInput ? "inherit" : "ignore",
      command.outputToErrors && command.relay === undefined ? errorStream : output,
      output,
      "ipc",
      ...inheritedDescriptors(command.environment),
    ],
  });
  const carrier: WorkerCarrier = {
    pid: child.pid,
    get gone() {
      return child.exitCode !== null || child.signalCode !== null || child.pid === undefined;
    },
    ended: whenEnded(child, copyOutput(child, command)),
    kill: (signal) => void child.kill(signal as NodeJS.Signals),
    send: (message) => {
      if (child.connected) child.send(message, () => {});
    },
    onMessage: (take) => void child.on("message", take),
  };
  if (command.relay !== undefined) carrier.onMessage(command.relay.message);
  return carriedWorker(command.rank, carrier);
}

/** A worker by what carries it. */
export function carriedWorker(rank: number, carrier: WorkerCarrier): WorkerProcess {
  const temporaries = new Set<string>();
  const worker: WorkerProcess = {
    rank,
    pid: carrier.pid,
    ended: carrier.ended.then((exit) => {
      worker.exit = exit;
      return exit;
    }),
    exit: undefined,
    get gone() {
      return carrier.gone;
    },
    step: undefined,
    doing: "starting",
    joined: false,
    byPlan: false,
    error: undefined,
    plan: undefined,
    stopping: false,
    onElastic: () => {},
    kill: (signal) => carrier.kill(signal),
    send: (message) => carrier.send(message),
    peerEnded: (peer) => carrier.send({ type: "peerEnded", rank: peer }),
    removeTemporaries: () => {
      for (const path of temporaries) rmSync(path, { recursive: true, force: true });
      temporaries.clear();
    },
  };
  carrier.onMessage((value) => receive(worker, temporaries, value));
  return worker;
}

function receive(worker: WorkerProcess, temporaries: Set<string>, value: unknown): void {
  const message = parseWorkerMessage(value);
  switch (message?.type) {
    case "progress":
      worker.step = message.step;
      worker.doing = undefined;
      break;
    case "doing":
      worker.doing = message.what === "" ? undefined : message.what;
      break;
    case "join":
      worker.joined = true;
      break;
    case "givenPlan":
      worker.byPlan = true;
      break;
    case "temporary":
      if (message.done) temporaries.delete(message.path);
      else temporaries.add(message.path);
      break;
    case "plan":
      worker.plan ??= message.text;
      break;
    case "error":
      worker.error ??= message;
      break;
    case "broken":
    case "ready":
    case "holds":
    case "trained":
    case "training":
      worker.onElastic(message);
      break;
  }
}

function copyOutput(child: ChildProcess, { rank, outputToErrors, relay }: WorkerCommand): Promise<unknown> {
  if (relay !== undefined) {
    const ends = [child.stdout, child.stderr].map((stream, index) => {
      stream?.on("data", (bytes: Buffer) => relay.output(index === 0 ? "out" : "err", bytes));
      return new Promise((resolve) => stream?.once("close", resolve));
    });
    return Promise.all(ends);
  }
  const copies: Promise<void>[] = [];
  const out = outputToErrors ? process.stderr : process.stdout;
  if (child.stdout !== null) copies.push(copyLines(child.stdout, out, rankPrefix(rank, out)));
  if (child.stderr !== null) copies.push(copyLines(child.stderr, process.stderr, rankPrefix(rank, process.stderr)));
  return Promise.all(copies);
}

async function whenEnded(child: ChildProcess, copied: Promise<unknown>): Promise<WorkerExit> {
  const disconnected = new Promise<void>((resolve) => child.once("disconnect", resolve));
  const exit = await new Promise<WorkerExit>((resolve) => {
    const now = () => performance.now();
    child.once("exit", (code, signal) => resolve({ code, signal, at: now() }));
    child.once("error", (error) => resolve({ code: 1, signal: null, at: now(), startError: error.message }));
  });
  if (exit.startError === undefined) await withinDrainTime(Promise.all([copied, disconnected]));
  child.stdout?.destroy();
  child.stderr?.destroy();
  return exit;
}

async function withinDrainTime(work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, drainMilliseconds);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}
