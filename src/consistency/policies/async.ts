/** @module Asynchronous: no worker waits, and each update is applied when it arrives. */
import { type Policy, plainWorker } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The asynchronous policy (Recht et al., "Hogwild!", 2011; Dean et al., 2012). */
export const asynchronous = (): Policy => ({
  spec: "async",
  worker: plainWorker,
  merging: "sum",
  mayBegin: () => true,
});

registerPolicy({ name: "async", doc: "no worker waits for another", make: asynchronous });
