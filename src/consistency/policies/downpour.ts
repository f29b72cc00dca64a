/**
 * @module Downpour (Dean et al., "Large Scale Distributed Deep Networks", 2012): a worker pulls after every so many local steps and pushes
 * the sum of its gradients after every so many, apart from each other; between pulls it applies its own gradients to its copy.
 */
import { type Policy, plainWorker } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The Downpour policy. No worker waits for another. */
export const downpour = (fetchEvery: number, pushEvery: number): Policy => ({
  spec: `downpour:${fetchEvery}:${pushEvery}`,
  worker: { ...plainWorker, fetchEvery, pushEvery, local: true },
  merging: "sum",
  mayBegin: () => true,
  // Apart from pushes, the worker's local steps say when it fetches, not its clock.
  ...(fetchEvery !== pushEvery && { until: () => Infinity }),
});

registerPolicy({
  name: "downpour",
  doc: "workers take local steps, and fetch and push after so many of them; no worker waits",
  numbers: [
    { name: "FETCH", doc: "local steps between two pulls", least: 1 },
    { name: "PUSH", doc: "local steps between two pushes", least: 1 },
  ],
  make: (fetchEvery, pushEvery) => downpour(fetchEvery as number, pushEvery as number),
});
