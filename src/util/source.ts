/** @module Where in the user's code something was written. */

// Frames inside these folders (src/ or dist/, bin/) are Heddle's own and never named in an error.
const ownFolders = ["..", "../../bin/"].map((folder) => new URL(folder, import.meta.url).href);
const deepStack = 40;

interface V8ErrorConstructor {
  stackTraceLimit: number;
  captureStackTrace(target: object, below?: unknown): void;
}
const errorConstructor = Error as unknown as V8ErrorConstructor;

/** A stack that is formatted only when asked for (about 2 us to capture). */
export interface SourcePosition {
  readonly stack?: string;
}

/** Captures the present call stack. */
export function capturePosition(): SourcePosition {
  const position: SourcePosition = {};
  const limit = errorConstructor.stackTraceLimit;
  errorConstructor.stackTraceLimit = deepStack;
  errorConstructor.captureStackTrace(position, capturePosition);
  errorConstructor.stackTraceLimit = limit;
  return position;
}

/** The innermost frame outside Heddle as `file:line:column`, or undefined. */
export function describePosition(position: SourcePosition | undefined): string | undefined {
  for (const line of position?.stack?.split("\n") ?? []) {
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
