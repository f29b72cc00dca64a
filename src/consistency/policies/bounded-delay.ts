/**
 * @module Bounded delay (Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014): a task begins when all
 * tasks more than `delay` before it have finished, those of its own worker too; so a worker has several tasks under way, and does not
 * wait until its update has arrived. See `TaskGraph` for tasks with dependencies of their own.
 */
import { type Policy, plainWorker } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The bounded-delay policy: 0 is sequential, more overlaps computation and messages. */
export const boundedDelay = (delay: number): Policy => ({
  spec: `bounded-delay:${delay}`,
  worker: { ...plainWorker, outstanding: delay + 1 },
  merging: "sum",
  mayBegin: ({ begun }, { slowest }) => begun - slowest <= delay,
});

registerPolicy({
  name: "bounded-delay",
  doc: "a task begins when all tasks more than DELAY before it are done; a worker has up to DELAY + 1 under way",
  numbers: [{ name: "DELAY", doc: "tasks that need not be done" }],
  make: (delay) => boundedDelay(delay as number),
});
