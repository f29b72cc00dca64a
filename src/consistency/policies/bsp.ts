/** @module Bulk-synchronous: a step is the mean of one update of each live worker, and all workers read the same parameters. */
import { byClock, type Policy, plainWorker } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The bulk-synchronous policy (Valiant, "A Bridging Model for Parallel Computation", 1990). */
export const bulkSynchronous = (): Policy => ({
  spec: "bsp",
  worker: plainWorker,
  merging: "mean",
  mayBegin: ({ begun }, { slowest }) => begun <= slowest,
  settle: byClock,
});

registerPolicy({ name: "bsp", doc: "all workers wait for each other in each clock", make: bulkSynchronous });
