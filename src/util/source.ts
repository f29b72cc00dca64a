/** @module Positions in the user's code. */
import type { Fault } from "./faults.ts";

// Frames inside these folders (src/ or dist/, bin/) are Heddle's own and never shown in an error. A user's bundle has no such
// folder: its file holds the user's code, too.
const sourceFile = /\/(?:(?:src|dist)\/util\/source\.[jt]s|dist\/node\/[^/]+\.js)$/;
const url = import.meta.url as string | undefined;
const folders =
  url !== undefined && sourceFile.test(url) ? ["..", "../../bin/"].map((folder) => new URL(folder, url).href) : [];
const deepStack = 40;

interface V8ErrorConstructor {
  stackTraceLimit: number;
  captureStackTrace(target: object, below?: unknown): void;
}
const errorConstructor = Error as unknown as V8ErrorConstructor;

/** A function of Heddle under the name that users know: an op, a loss, a layer by its path in the model. */
export interface Speaker {
  readonly name: string;
  /** Path of a layer in the model. */
  readonly path?: string;
  /** For a layer, the position where the user made it, which tells more than the line that applies the model. */
  readonly madeAt?: SourcePosition | undefined;
  /** Describes a fault of an inner op in terms of the function's arguments. */
  readonly says?: ((fault: Fault) => Fault) | undefined;
}

/** A stack that is formatted only when needed (about 2 us to capture). */
export interface SourcePosition {
  readonly stack?: string;
  /** The running function of Heddle; undefined: user code. */
  readonly by?: Speaker | undefined;
  /** The number of a node in a program that was read from text, by which the sender finds the node. */
  readonly mark?: number;
}

let speaker: Speaker | undefined;

/** The function of Heddle that is running now. */
export const speakerNow = (): Speaker | undefined => speaker;

/** Runs the body of a function; positions and errors inside name that function. */
export function speakingAs<Result>(newSpeaker: Speaker, body: () => Result): Result {
  const outer = speaker;
  speaker = newSpeaker;
  try {
    return body();
  } finally {
    speaker = outer;
  }
}

/** Captures the current call stack. */
export function capturePosition(): SourcePosition {
  const position: SourcePosition = speaker === undefined ? {} : { by: speaker };
  const limit = errorConstructor.stackTraceLimit;
  errorConstructor.stackTraceLimit = deepStack;
  errorConstructor.captureStackTrace(position, capturePosition);
  errorConstructor.stackTraceLimit = limit;
  return position;
}

/** Positions of running calls of async functions, by number. */
const calls = new Map<number, SourcePosition>();
let nextCall = 0;
const callName = "heddleCall";
const callFrame = new RegExp(`^at (?:async )?(?:Object\\.)?${callName}(\\d+) `);

/**
 * Runs an async function that users call. After its first `await` a stack shows only the code that awaits the result, which may be
 * another line than the call; so the frame gets a name by which the call is found.
 */
export function called<Result>(body: () => Promise<Result>): Promise<Result> {
  const number = nextCall++;
  calls.set(number, capturePosition());
  const run = async (): Promise<Result> => {
    try {
      return await body();
    } finally {
      calls.delete(number);
    }
  };
  return Object.defineProperty(run, "name", { value: `${callName}${number}` })();
}

/** The position of the call of a frame of {@link called}. */
function callOf(line: string): SourcePosition | undefined {
  const number = callFrame.exec(line.trim())?.[1];
  return number === undefined ? undefined : calls.get(Number(number));
}

/** The innermost frame outside Heddle as `file:line:column`, or undefined. */
export function describePosition(position: SourcePosition | undefined): string | undefined {
  for (const line of position?.stack?.split("\n") ?? []) {
    const call = callOf(line);
    if (call !== undefined) return describePosition(call);
    if (line.includes("node:")) continue;
    const location = /\(?((?:file:\/\/)?\/[^()]*?:\d+:\d+)\)?$/.exec(line)?.[1];
    if (location === undefined) continue;
    const href = location.startsWith("file:") ? location : `file://${location}`;
    if (folders.some((folder) => href.startsWith(folder)) || href.includes("/node_modules/") || href.includes("node:"))
      continue;
    return decodeURIComponent(href.slice("file://".length));
  }
  return undefined;
}

/** The position to report for a failure in a run: where the layer was made, or where the call is. */
export const placeOf = (position: SourcePosition | undefined): string | undefined =>
  describePosition(position?.by?.madeAt) ?? describePosition(position);
