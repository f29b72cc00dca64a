/**
 * @module Stale-synchronous (Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013): a worker
 * at clock c sees all updates of clocks before c - s, and all of its own, and leads the slowest worker by at most s clocks. Its copy of
 * the parameters serves for more clocks, as long as the bound holds.
 */
import { type Policy, plainWorker } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The stale-synchronous policy. With `send`, the server sends parameters when the slowest clock advances (ESSP). */
export const staleSynchronous = (staleness: number, send = false): Policy => ({
  spec: `${send ? "essp" : "ssp"}:${staleness}`,
  worker: { ...plainWorker, local: true },
  merging: "sum",
  mayBegin: ({ begun }, { slowest }) => begun - slowest <= staleness,
  until: (_worker, { slowest }) => slowest + staleness,
  ...(send && { sends: ({ workers }) => workers.map(({ worker }) => worker) }),
});

const staleness = { name: "STALENESS", doc: "clocks that a worker may lead the slowest by" };
registerPolicy({
  name: "ssp",
  doc: "a worker leads the slowest by at most STALENESS clocks; a copy serves until it is older",
  numbers: [staleness],
  make: (most) => staleSynchronous(most as number),
});
registerPolicy({
  name: "essp",
  doc: "as ssp, and the server sends parameters to all workers when the slowest clock advances",
  numbers: [staleness],
  make: (most) => staleSynchronous(most as number, true),
});
