/**
 * @module Bulk-synchronous and asynchronous clocks in turn: so many clocks in step, so many free, and again. The free clocks take up what
 * a straggler costs, the others bring all workers to the same parameters.
 */
import type { ClockTable } from "../clocks.ts";
import { byClock, eachAlone, type Policy, plainWorker, type Settled, type Update } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The policy of `bulk` bulk-synchronous clocks and `free` asynchronous ones in turn. */
export function mixed(bulk: number, free: number): Policy {
  const period = bulk + free;
  const isBulk = (clock: number): boolean => clock % period < bulk;
  return {
    spec: `mixed:${bulk}:${free}`,
    worker: plainWorker,
    merging: "mean",
    mayBegin({ begun }, { slowest }) {
      // A free clock begins when all workers have finished the last clock in step before it.
      return (isBulk(begun) ? begun : begun - (begun % period) + bulk) <= slowest;
    },
    settle<Payload>(arrived: readonly Update<Payload>[], clocks: ClockTable, merging: "sum" | "mean") {
      const inStep = byClock(
        arrived.filter(({ clock }) => isBulk(clock)),
        clocks,
        merging,
      );
      const alone = eachAlone(
        arrived.filter(({ clock }) => !isBulk(clock)),
        clocks,
        merging,
      );
      return { steps: [...inStep.steps, ...alone.steps] } satisfies Settled<Payload>;
    },
  };
}

registerPolicy({
  name: "mixed",
  doc: "BULK clocks as bsp and FREE clocks as async, in turn",
  numbers: [
    { name: "BULK", doc: "bulk-synchronous clocks", least: 1 },
    { name: "FREE", doc: "asynchronous clocks", least: 1 },
  ],
  make: (bulk, free) => mixed(bulk as number, free as number),
});
