/**
 * @module Messages from a worker process to the launcher that started it.
 *
 * Messages go over Node's IPC channel, and only if `HEDDLE_LAUNCHER` names the parent process: a script started by hand, by another
 * launcher or by a test runner may have a channel, too, but its other end does not know these messages.
 */

import { rmSync } from "node:fs";
import { basename, isAbsolute } from "node:path";
import { inspect } from "node:util";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { explainScriptError, withWrittenFiles } from "./script-error.ts";

/** The closed table of messages from a worker. */
export type WorkerMessage =
  | ProgressMessage
  | DoingMessage
  | JoinMessage
  | GivenPlanMessage
  | TemporaryMessage
  | ErrorMessage
  | PlanMessage
  | ElasticMessage;

/** The worker has begun this step. */
export interface ProgressMessage {
  readonly type: "progress";
  readonly step: number;
}

/** What the worker begins before its first step, such as `reading data`; empty for what nothing is known of. */
export interface DoingMessage {
  readonly type: "doing";
  readonly what: string;
}

/** The worker is joining the others, or begins what it does alone on its mesh. */
export interface JoinMessage {
  readonly type: "join";
}

/** The worker uses the given plan. */
export interface GivenPlanMessage {
  readonly type: "givenPlan";
}

/** A file that is half written (`done: false`), or is no longer: the launcher removes what a killed worker leaves. */
export interface TemporaryMessage {
  readonly type: "temporary";
  /** An absolute path, whose last part contains `.tmp`. */
  readonly path: string;
  readonly done: boolean;
}

/** The plan that the worker made instead of running. */
export interface PlanMessage {
  readonly type: "plan";
  readonly text: string;
}

/** What a worker of an elastic run says of its place; `elastic/membership.ts` has the meanings. */
export type ElasticMessage =
  | { readonly type: "broken"; readonly epoch: number; readonly reason: string }
  | { readonly type: "ready" | "holds" | "trained" }
  | { readonly type: "training"; readonly call: number; readonly unit: number };

/** The worker ends with this error. */
export interface ErrorMessage {
  readonly type: "error";
  readonly message: string;
  /** The full error, with its causes; absent if the message is enough. */
  readonly stack?: string;
  /** The code of a `HeddleError`. */
  readonly code?: string;
  /** The collective in which the error occurred. */
  readonly during?: string;
  /** The rank that the error is about. */
  readonly peer?: number;
  /** The step of the training that the message names. */
  readonly step?: number;
}

/** Sends a message to the launcher, if there is one. Never throws and never waits. */
export function reportToLauncher(message: WorkerMessage): void {
  if (message.type === "temporary") trackTemporary(message);
  send(message);
}

/** Sends a plan to the launcher, which prints it; without a launcher prints it here. Resolves when the plan is sent. */
export function deliverPlan(text: string): Promise<void> {
  return new Promise((resolve) => {
    if (!send({ type: "plan", text }, () => resolve())) process.stdout.write(text, () => resolve());
  });
}

/** Checks a message from the channel; undefined for anything that is not in the table. */
export function parseWorkerMessage(value: unknown): WorkerMessage | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const message = value as Partial<Record<string, unknown>>;
  switch (message["type"]) {
    case "progress":
      return Number.isSafeInteger(message["step"]) ? (value as ProgressMessage) : undefined;
    case "doing":
      return typeof message["what"] === "string" ? { type: "doing", what: message["what"].slice(0, 100) } : undefined;
    case "join":
    case "givenPlan":
    case "ready":
    case "holds":
    case "trained":
      return { type: message["type"] };
    case "broken":
      return Number.isSafeInteger(message["epoch"]) && typeof message["reason"] === "string"
        ? (value as ElasticMessage)
        : undefined;
    case "training":
      return [message["call"], message["unit"]].every((number) => Number.isSafeInteger(number) && Number(number) > 0)
        ? (value as ElasticMessage)
        : undefined;
    case "temporary":
      return isTemporaryPath(message["path"]) && typeof message["done"] === "boolean"
        ? (value as TemporaryMessage)
        : undefined;
    case "plan":
      return typeof message["text"] === "string" ? (value as PlanMessage) : undefined;
    case "error": {
      const optional = [message["stack"], message["code"], message["during"]];
      const numbers = [message["peer"], message["step"]];
      const valid =
        optional.every((part) => part === undefined || typeof part === "string") &&
        numbers.every((part) => part === undefined || Number.isSafeInteger(part));
      return typeof message["message"] === "string" && valid ? (value as ErrorMessage) : undefined;
    }
    default:
      return undefined;
  }
}

/** Only files with a temporary name are ever removed for a worker. */
function isTemporaryPath(path: unknown): path is string {
  return typeof path === "string" && isAbsolute(path) && basename(path).includes(".tmp");
}

/** Ranks that ended with status 0 while this process runs, as reported by the launcher. */
const endedPeers: number[] = [];

/**
 * Calls back when another rank of the run ends with status 0, or immediately if one has. Returns a function that stops listening.
 * The channel keeps messages that arrive while nobody listens.
 */
export function onPeerEnded(callback: (rank: number) => void): () => void {
  const receive = (value: unknown): void => {
    const { type, rank } = (typeof value === "object" ? (value ?? {}) : {}) as { type?: unknown; rank?: unknown };
    if (type !== "peerEnded" || !Number.isSafeInteger(rank)) return;
    endedPeers.push(rank as number);
    callback(rank as number);
  };
  const [endedBefore] = endedPeers;
  if (endedBefore !== undefined) callback(endedBefore);
  process.on("message", receive);
  return () => process.off("message", receive);
}

/** A worker's place in an epoch of an elastic run. */
export interface MembershipMessage {
  readonly type: "membership";
  readonly epoch: number;
  readonly rank: number;
  readonly size: number;
}

/** Calls back for every epoch that the launcher announces. */
export function onMembership(callback: (membership: MembershipMessage) => void): void {
  process.on("message", (value: unknown) => {
    const { type, ...place } = (typeof value === "object" ? (value ?? {}) : {}) as Partial<MembershipMessage>;
    const { epoch, rank, size } = place;
    if (type === "membership" && [epoch, rank, size].every(Number.isSafeInteger)) callback(value as MembershipMessage);
  });
  // Listening must not keep a finished script alive.
  process.channel?.unref();
}

/**
 * Ties this process to its launcher: it ends when the launcher is gone, and sends uncaught errors to the launcher, which prints
 * the errors of all workers, root cause first. Called once, before the user's script. Returns
 * whether there is a launcher.
 */
export function connectToLauncher(): boolean {
  const { channel } = process;
  if (!hasLauncher() || channel === undefined || channel === null) return false;
  process.on("disconnect", () => {
    removeTemporaries();
    removeRunDirectory();
    process.exit(1);
  });
  // Nobody reads the output any more, as with `| head`: the script ends like other programs.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE" && stream.listenerCount("error") === 1) process.exit(brokenPipe);
      if (stream.listenerCount("error") === 1) throw error;
    });
  }
  process.on("uncaughtException", handOverError);
  process.on("uncaughtExceptionMonitor", (error) => {
    // If the stack does not begin with the position, only Node's own report shows where a module has a syntax error.
    if (
      error instanceof SyntaxError &&
      /^SyntaxError/.test(error.stack ?? "") &&
      !/\n +at (?!.*node:internal)/.test(error.stack ?? "")
    ) {
      process.off("uncaughtException", handOverError);
    }
  });
  send({ type: "doing", what: "in its script, before train or connect" });
  // Listening must not keep a finished script alive.
  channel.unref();
  return true;
}

/** Whether the other end of the channel is Heddle's launcher. */
const hasLauncher = (): boolean => process.send !== undefined && readEnvironment().launcher === process.ppid;

/** The message for an error. */
export function errorMessage(error: unknown): ErrorMessage {
  const message = withWrittenFiles(error instanceof Error ? error.message || error.name : inspect(error));
  const during = property(error, "during");
  const code = property(error, "code");
  const peer = typeof error === "object" && error !== null ? (error as { rank?: unknown }).rank : undefined;
  const isHeddleError = error instanceof HeddleError || property(error, "name") === "HeddleError";
  const step = error instanceof HeddleError ? error.fault?.training?.step : undefined;
  return {
    type: "error",
    message,
    ...(isHeddleError ? {} : { stack: fullText(error) }),
    ...(code === undefined ? {} : { code }),
    ...(during === undefined ? {} : { during }),
    ...(isHeddleError && Number.isSafeInteger(peer) ? { peer: peer as number } : {}),
    ...(step === undefined ? {} : { step }),
  };
}

/** The error with its stack and causes, without Node's own frames. */
function fullText(error: unknown): string {
  // The last frame may be followed by the brace that opens the error's fields.
  return withWrittenFiles(inspect(error)).replace(/\n +at [^\n]*node:internal\/[^\n]*?( \{)?(?=\n|$)/g, "$1");
}

function property(value: unknown, name: string): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const field = (value as Record<string, unknown>)[name];
  return typeof field === "string" ? field : undefined;
}

function handOverError(error: unknown): void {
  // A script with its own handler decides what an uncaught error means.
  if (process.listenerCount("uncaughtException") > 1) return;
  const end = () => process.exit(1);
  const explained = explainScriptError(error);
  const sent = send(
    explained === undefined ? errorMessage(error) : { type: "error", message: explained },
    (failure) => {
      if (failure !== null) console.error(error);
      end();
    },
  );
  if (!sent) {
    console.error(error);
    end();
  }
  // The launcher normally reads within milliseconds; otherwise the error is shown here.
  setTimeout(() => {
    console.error(error);
    end();
  }, 500);
}

function send(message: WorkerMessage, onSent: (failure: Error | null) => void = () => {}): boolean {
  if (!hasLauncher() || !process.connected) return false;
  process.send?.(message, undefined, undefined, onSent);
  return true;
}

/** 128 + SIGPIPE, the status of a program whose output is not read to its end. */
const brokenPipe = 141;

/** Half-written files of this process, in case the launcher ends first. */
const temporaries: Set<string> = new Set();

function trackTemporary({ path, done }: TemporaryMessage): void {
  if (done) temporaries.delete(path);
  else if (isTemporaryPath(path)) temporaries.add(path);
}

function removeTemporaries(): void {
  for (const path of temporaries) rmSync(path, { recursive: true, force: true });
}

/** Removes the folder of the run, which a killed launcher could not remove. */
function removeRunDirectory(): void {
  const folder = readEnvironment().runDirectory ?? "";
  if (isAbsolute(folder) && basename(folder).startsWith("heddle-run-"))
    rmSync(folder, { recursive: true, force: true });
}
