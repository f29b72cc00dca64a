/** @module What a worker was doing when it ended: the flight recorder's file that it leaves in the run's folder. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { loadNative } from "../runtime/native/binding.ts";

/** The last known position of a worker. */
export interface Position {
  readonly step?: number | undefined;
  /** The collective under way, such as `allReduce sum f32 x 1663370 'gradients 0'`. */
  readonly during?: string | undefined;
}

/** Reads the record of a rank; empty when there is none, or it cannot be read. */
export function readPosition(runDirectory: string, rank: number): Position {
  const file = join(runDirectory, `rank-${rank}.flight`);
  if (!existsSync(file)) return {};
  const native = loadNative();
  if ("error" in native) return {};
  try {
    const { step, current } = native.readFlight(file);
    return { step, during: current?.description };
  } catch {
    // A worker may be killed while it makes the file; the report then goes without.
    return {};
  }
}
