/** @module Where in the user's code something was written. */
import type { Fault } from "./faults.ts";

// Frames inside these folders (src/ or dist/, bin/) are Heddle's own and never named in an error. A bundle has no such
// folder: its file holds the user's code as well.
const own = /\/(?:src|dist)\/util\/source\.[jt]s$/;
const here = import.meta.url as string | undefined;
const ownFolders =
  here !== undefined && own.test(here) ? ["..", "../../bin/"].map((folder) => new URL(folder, here).href) : [];
const deepStack = 40;

interface V8ErrorConstructor {
  stackTraceLimit: number;
  captureStackTrace(target: object, below?: unknown): void;
}
const errorConstructor = Error as unknown as V8ErrorConstructor;

/** What users call a function of Heddle: an op, a loss, a layer by its place in the model. */
export interface Speaker {
  readonly name: string;
  /** Path of a layer in the model. */
  readonly path?: string;
  /** Where the user made it, of a layer: says more than the line that applies the model. */
  readonly made?: SourcePosition | undefined;
  /** What an op within refused, in terms of what the function was given. */
  readonly says?: ((fault: Fault) => Fault) | undefined;
}

/** A stack that is formatted only when asked for (about 2 us to capture). */
export interface SourcePosition {
  readonly stack?: string;
  /** The function at work; undefined: the user's own. */
  readonly by?: Speaker | undefined;
  /** Of a node of a program that was read from text: its number, by which whoever sent the text knows it. */
  readonly mark?: number;
}

let speaker: Speaker | undefined;

/** The function of Heddle that is at work now. */
export const speakerNow = (): Speaker | undefined => speaker;

/** Runs the body of a function; what it makes is known as made by that, whatever it is made of. */
export function speakingAs<Result>(as: Speaker, body: () => Result): Result {
  const before = speaker;
  speaker = as;
  try {
    return body();
  } finally {
    speaker = before;
  }
}

/** Captures the present call stack. */
export function capturePosition(): SourcePosition {
  const position: SourcePosition = speaker === undefined ? {} : { by: speaker };
  const limit = errorConstructor.stackTraceLimit;
  errorConstructor.stackTraceLimit = deepStack;
  errorConstructor.captureStackTrace(position, capturePosition);
  errorConstructor.stackTraceLimit = limit;
  return position;
}

/** Where calls of async functions were written, by their numbers, while they run. */
const calls = new Map<number, SourcePosition>();
let nextCall = 0;
const callName = "heddleCall";
const callFrame = new RegExp(`^at (?:async )?(?:Object\\.)?${callName}(\\d+) `);

/**
 * Runs an async function that users call. Behind its first `await` a stack shows only whoever awaits the result, which may be
 * another line than the call; so its frame has a name by which the call is found.
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

/** The position that a frame of {@link called} stands for. */
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
    const place = /\(?((?:file:\/\/)?\/[^()]*?:\d+:\d+)\)?$/.exec(line)?.[1];
    if (place === undefined) continue;
    const href = place.startsWith("file:") ? place : `file://${place}`;
    if (ownFolders.some((own) => href.startsWith(own)) || href.includes("/node_modules/") || href.includes("node:"))
      continue;
    return decodeURIComponent(href.slice("file://".length));
  }
  return undefined;
}

/** Where a user looks for what failed in a run: where the layer was made, or the call was written. */
export const placeOf = (position: SourcePosition | undefined): string | undefined =>
  describePosition(position?.by?.made) ?? describePosition(position);
