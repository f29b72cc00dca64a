/** @module The log of a run in its folder: from which versions of the shards each clock was computed, and what became of the pushes. */
import { appendFileSync } from "node:fs";
import { HeddleError } from "../util/errors.ts";
import { type Entry, isEntry } from "./requests.ts";

/** The gradients of a worker's clock are from these versions of the shards: the numbers of entries that they had applied. */
export interface Begin {
  readonly worker: number;
  readonly clock: number;
  readonly versions: readonly number[];
}

/** A log that was read. */
export interface UpdateLog {
  readonly workers: number;
  readonly servers: number;
  readonly policy: string;
  /** The number of filters of pushes. */
  readonly filters: number;
  readonly begins: readonly Begin[];
  readonly entries: readonly Entry[];
}

/** The name of the file in the folder of a run. */
export const updateLogFile = "updates.jsonl";

/** A line of the file. */
export type LogLine =
  | { readonly workers: number; readonly servers: number; readonly policy: string; readonly filters?: number }
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

/** Reads a log; of a clock that a worker did again, in a new life, the last counts. @throws HeddleError `log` for one with gaps */
export function parseUpdateLog(text: string): UpdateLog {
  const begins = new Map<string, Begin>();
  const entries: Entry[] = [];
  let [workers, servers, filters] = [0, 0, 0];
  let policy = "bsp";
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const value = readLine(line);
    if (Number.isSafeInteger(value["workers"]) && Number.isSafeInteger(value["servers"])) {
      [workers, servers, filters] = [value["workers"], value["servers"], value["filters"] ?? 0].map(Number) as [
        number,
        number,
        number,
      ];
      policy = String(value["policy"] ?? policy);
    }
    const { begin, entry, index } = value as Partial<{ begin: Begin; entry: unknown; index: number }>;
    if (begin !== undefined && !isBegin(begin, servers))
      throw new HeddleError("log", "the log of updates has a malformed begin of a clock");
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
  return { workers, servers, policy, filters, begins: [...begins.values()], entries };
}

function isBegin({ worker, clock, versions }: Begin, servers: number): boolean {
  const numbers = Array.isArray(versions) ? [worker, clock, ...versions] : [];
  return numbers.length === 2 + servers && numbers.every((value) => Number.isSafeInteger(value) && value >= 0);
}

function readLine(line: string): { readonly [field: string]: unknown } {
  try {
    return (JSON.parse(line) ?? {}) as { readonly [field: string]: unknown };
  } catch {
    throw new HeddleError("log", "the log of updates has a malformed line");
  }
}
