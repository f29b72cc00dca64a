/** @module What a worker was doing when it ended, from the file of its flight recorder in the run's folder. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { loadNative } from "../executors/native/binding.ts";

/** The last known position of a worker. */
export interface Position {
  readonly step?: number | undefined;
  /** The unfinished collective, such as `allReduce sum f32 x 1663370 'gradients 0'`. */
  readonly during?: string | undefined;
}

/** Reads the flight record of a rank; empty when the record is missing or unreadable. */
export function readPosition(runDirectory: string, rank: number): Position {
  const file = join(runDirectory, `rank-${rank}.flight`);
  if (!existsSync(file)) return {};
  const native = loadNative();
  if ("error" in native) return {};
  try {
    const { step, current } = native.readFlight(file);
    // The step that was launched last when the collective started is a second number for the same.
    return { step, during: current?.description.replace(/, step \d+\)$/, ")") };
  } catch {
    // A worker may be killed while it creates the file; then the report lacks the position.
    return {};
  }
}
