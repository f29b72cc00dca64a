/**
 * @module Dynamic stale-synchronous (Zhao et al., "Dynamic Stale Synchronous Parallel Distributed Training for Deep Learning", ICDCS 2019):
 * up to a low bound workers run free. A fastest worker that reaches it is given extra clocks, at most up to the high bound: as many
 * as let its update arrive with the least wait before an update of the slowest worker, by measured seconds per clock.
 */
import type { ClockTable, WorkerClock } from "../clocks.ts";
import { type Policy, plainWorker } from "../policy.ts";
import { registerPolicy } from "../registry.ts";
import { checkBounds } from "./bounds.ts";

/** The dynamic stale-synchronous policy with bounds from `low` to `high`. */
export function dynamicStaleSynchronous(low: number, high: number): Policy {
  const spec = `dssp:${low}:${high}`;
  checkBounds(spec, low, high);
  /** For each worker the last clock for which extra clocks were decided, and the last clock of those. */
  const decided = new Map<number, { readonly at: number; readonly last: number }>();
  return {
    spec,
    worker: plainWorker,
    merging: "sum",
    mayBegin(worker, clocks) {
      const { begun } = worker;
      const lead = begun - clocks.slowest;
      if (lead <= low) return true;
      if (lead > high) return false;
      const known = decided.get(worker.worker);
      if (known !== undefined && begun <= known.last) return true;
      // A decision holds until the worker has waited: it is not repeated while it waits.
      if (known?.at === begun || !isFastest(worker, clocks)) return false;
      const last = begun + extraClocks(worker, clocks, high - low) - 1;
      decided.set(worker.worker, { at: begun, last });
      return begun <= last;
    },
    left: (worker) => decided.delete(worker),
  };
}

const isFastest = ({ done }: WorkerClock, { workers }: ClockTable): boolean =>
  workers.every((other) => other.done <= done);

/** The extra clocks, from 0 to `most`, after which the wait for an update of the slowest worker is least. */
function extraClocks(worker: WorkerClock, { workers, slowest, now }: ClockTable, most: number): number {
  const slow = workers.find(({ done }) => done === slowest) as WorkerClock;
  if (!(worker.seconds > 0 && slow.seconds > 0)) return 0;
  let best = 0;
  let least = Infinity;
  for (let extra = 0; extra <= most; extra++) {
    const at = now + extra * worker.seconds;
    const updates = Math.max(1, Math.ceil((at - slow.at) / slow.seconds));
    const wait = slow.at + updates * slow.seconds - at;
    if (wait < least) [best, least] = [extra, wait];
  }
  return best;
}

registerPolicy({
  name: "dssp",
  doc: "free up to a lead of LOW; then as many extra clocks, up to HIGH, as make the wait for the slowest least",
  numbers: [
    { name: "LOW", doc: "the lead up to which a worker never waits" },
    { name: "HIGH", doc: "the greatest lead" },
  ],
  make: (low, high) => dynamicStaleSynchronous(low as number, high as number),
});
