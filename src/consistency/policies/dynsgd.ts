/**
 * @module DynSGD (Jiang et al., "Heterogeneity-aware Distributed Parameter Servers", SIGMOD 2017): all updates of one clock together have
 * the effect of their mean. The d-th update of a clock is applied as the change of the running mean from d - 1 to d updates, so a
 * late update is damped, and what came before it is corrected.
 */
import type { ClockTable } from "../clocks.ts";
import { eachAlone, type Policy, plainWorker, type Settled, type Step, type Update } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The DynSGD policy; a worker leads the slowest by at most `staleness` clocks, which bounds the running means. */
export function dynSgd(staleness: number): Policy {
  /** For each clock the samples, in a mean's weights, and the updates so far. */
  const means = new Map<number, number>();
  return {
    spec: `dynsgd:${staleness}`,
    worker: plainWorker,
    merging: "mean",
    mayBegin: ({ begun }, { slowest }) => begun - slowest <= staleness,
    settle<Payload>(arrived: readonly Update<Payload>[], clocks: ClockTable, merging: "sum" | "mean") {
      if (merging === "sum") return eachAlone(arrived, clocks, merging);
      const steps = arrived.map((update): Step<Payload> => {
        const total = (means.get(update.clock) ?? 0) + update.samples;
        means.set(update.clock, total);
        return { parts: [{ update, weight: update.samples }], mean: { group: update.clock, scale: 1 / total } };
      });
      const closed = [...means.keys()].filter((clock) => clock < clocks.slowest);
      for (const clock of closed) means.delete(clock);
      return { steps, closed } satisfies Settled<Payload>;
    },
  };
}

registerPolicy({
  name: "dynsgd",
  doc: "as ssp, and all updates of one clock have the effect of their mean, corrected with each that comes",
  numbers: [{ name: "STALENESS", doc: "clocks that a worker may lead the slowest by", default: 10 }],
  make: (staleness) => dynSgd(staleness as number),
});
