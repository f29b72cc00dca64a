/**
 * @module Adaptive stale-synchronous (Zhang et al., "An Adaptive Synchronous Parallel Strategy for Distributed Machine Learning", IEEE
 * Access, 2018): each worker has a bound of its own. While the slowest worker runs one clock, a worker that takes a third of the time
 * runs three: so many clocks it may lead by, and its update lands beside the slowest worker's. The slowest has the low bound.
 */
import type { ClockTable, WorkerClock } from "../clocks.ts";
import { type Policy, plainWorker } from "../policy.ts";
import { registerPolicy } from "../registry.ts";
import { checkBounds } from "./bounds.ts";

/** The adaptive stale-synchronous policy: bounds from `low` to `high`, from measured seconds per clock. */
export function adaptiveStaleSynchronous(low: number, high: number): Policy {
  const spec = `adaptive-ssp:${low}:${high}`;
  checkBounds(spec, low, high);
  const bound = ({ seconds }: WorkerClock, { workers }: ClockTable): number => {
    const slowest = Math.max(...workers.map((other) => (Number.isNaN(other.seconds) ? 0 : other.seconds)));
    const runs = Math.round(slowest / seconds);
    // Before the first measurement, and for clocks of no time, nothing is known of the worker.
    return Number.isFinite(runs) ? Math.min(high, Math.max(low, runs)) : low;
  };
  return {
    spec,
    worker: { ...plainWorker, local: true },
    merging: "sum",
    mayBegin: (worker, clocks) => worker.begun - clocks.slowest <= bound(worker, clocks),
    until: (worker, clocks) => clocks.slowest + bound(worker, clocks),
  };
}

registerPolicy({
  name: "adaptive-ssp",
  doc: "as ssp, with a bound for each worker from LOW to HIGH by its measured speed; the slowest has LOW",
  numbers: [
    { name: "LOW", doc: "the least bound" },
    { name: "HIGH", doc: "the greatest bound" },
  ],
  make: (low, high) => adaptiveStaleSynchronous(low as number, high as number),
});
