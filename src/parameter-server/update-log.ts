/** @module The log of a run in its folder: which worker began which clock at which version, and what became of the pushes. */
import { appendFileSync } from "node:fs";
import { HeddleError } from "../util/errors.ts";
import { type Entry, isEntry } from "./requests.ts";

/** A worker has begun a clock with the parameters after so many entries. */
export interface Begin {
  readonly worker: number;
  readonly clock: number;
  readonly version: number;
}

/** A log that was read. */
export interface UpdateLog {
  readonly workers: number;
  readonly begins: readonly Begin[];
  readonly entries: readonly Entry[];
}

/** The name of the file in the folder of a run. */
export const updateLogFile = "updates.jsonl";

/** A line of the file. */
export type LogLine =
  | { readonly workers: number; readonly policy: string }
  | { readonly begin: Begin }
  | { readonly index: number; readonly entry: Entry };

/** Appends lines to a file. A disk that is full ends no training. */
export const logTo =
  (path: string) =>
  (line: LogLine): void => {
    try {
      appendFileSync(path, `${JSON.stringify(line)}\n`);
    } catch {
      // The run goes on without its log.
    }
  };

/** Reads a log; of a clock that a worker began again, in a new life, the last begin counts. @throws HeddleError `log` for one with gaps */
export function parseUpdateLog(text: string): UpdateLog {
  const begins = new Map<string, Begin>();
  const entries: Entry[] = [];
  let workers = 0;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const value = readLine(line);
    if (Number.isSafeInteger(value["workers"])) workers = Number(value["workers"]);
    const { begin, entry, index } = value as Partial<{ begin: Begin; entry: unknown; index: number }>;
    if (begin !== undefined) begins.set(`${begin.worker} ${begin.clock}`, begin);
    if (entry === undefined) continue;
    if (!isEntry(entry) || !Number.isSafeInteger(index) || (index as number) > entries.length)
      throw new HeddleError(
        "log",
        `the log of updates has a gap, or a malformed entry, after entry ${entries.length - 1}`,
      );
    entries[index as number] = entry;
  }
  if (workers === 0) throw new HeddleError("log", "the log of updates does not say how many workers there were");
  return { workers, begins: [...begins.values()], entries };
}

function readLine(line: string): { readonly [field: string]: unknown } {
  try {
    return (JSON.parse(line) ?? {}) as { readonly [field: string]: unknown };
  } catch {
    throw new HeddleError("log", "the log of updates has a malformed line");
  }
}
