/**
 * @module Value-bounded (Wei et al., "Managed Communication and Consistency for Fast Data-Parallel Iterative Analytics", SoCC 2015): the
 * sum of a worker's updates that not all others see stays within v / sqrt(t) when the worker begins its clock t (counted from 1). An
 * update is seen by a worker that begins a clock after it. The size of an update is its largest magnitude, as the worker told it.
 */
import { HeddleError } from "../../util/errors.ts";
import { type Policy, plainWorker } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The value-bounded policy with the bound `value` at the first clock. */
export function valueBounded(value: number): Policy {
  const spec = `vap:${value}`;
  let unseen: { readonly worker: number; readonly size: number; readonly by: Set<number> }[] = [];
  const sees = (worker: number): void => {
    for (const { by } of unseen) by.delete(worker);
    unseen = unseen.filter(({ by }) => by.size > 0);
  };
  return {
    spec,
    worker: plainWorker,
    merging: "sum",
    sized: true,
    mayBegin({ worker, begun }) {
      const sum = unseen.reduce((total, update) => total + (update.worker === worker ? update.size : 0), 0);
      return sum <= value / Math.sqrt(begun + 1);
    },
    arrived({ worker, size }, { workers }) {
      if (Number.isNaN(size))
        throw new HeddleError(
          "option",
          `policy '${spec}' needs the size of each update, and worker ${worker} told none`,
          {
            hint: "push(worker, { size }) with the largest magnitude in the update",
          },
        );
      // Who is not at work has no old copy: its next read sees all. So no two workers wait for each other.
      const working = workers.filter(({ begun, done }) => begun > done).map((other) => other.worker);
      if (!working.includes(worker)) sees(worker);
      const by = new Set(working.filter((other) => other !== worker));
      if (by.size > 0) unseen.push({ worker, size, by });
    },
    began: ({ worker }) => sees(worker),
    left: (worker) => sees(worker),
  };
}

registerPolicy({
  name: "vap",
  doc: "the sum of a worker's updates that others do not see stays within VALUE / sqrt(clock)",
  numbers: [{ name: "VALUE", doc: "the bound at the first clock", fraction: true }],
  make: (value) => valueBounded(value as number),
});
