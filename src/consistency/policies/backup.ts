/**
 * @module Backup workers (Chen et al., "Revisiting Distributed Synchronous SGD", 2016): bulk-synchronous steps that take the first
 * updates and do not wait for the last ones; a late update is dropped, and its worker goes on with the step of now. The number of backup
 * workers is fixed, or chosen for each step from measured times (Xu, Neglia et al., "Dynamic backup workers for parallel machine
 * learning", 2021).
 */
import type { ClockTable } from "../clocks.ts";
import { type Policy, plainWorker, type Settled, type Step, together, type Update } from "../policy.ts";
import { registerPolicy } from "../registry.ts";

/** The policy that does not wait for the last `backups` workers of a step. */
export const backupWorkers = (backups: number): Policy => ({
  ...firstOfStep(`backup:${backups}`, ({ size }) => size - backups),
  backups,
});

/**
 * The policy that waits for as many workers as make the progress per second greatest. `noise` is the variance of one worker's update
 * divided by the squared length of its mean: the progress of a step of k updates is that of a share `1 / (1 + noise / k)` of a step
 * without noise, and it takes as long as the k-th fastest worker.
 */
export const dynamicBackupWorkers = (noise: number): Policy =>
  firstOfStep(`dynamic-backup:${noise}`, ({ workers, size }) => {
    const seconds = workers.map((worker) => worker.seconds).sort((left, right) => left - right);
    // Before every worker was measured, all are waited for.
    if (!seconds.every((time) => time > 0)) return size;
    const rates = seconds.map((time, index) => 1 / (1 + noise / (index + 1)) / time);
    return rates.indexOf(Math.max(...rates)) + 1;
  });

function firstOfStep(spec: string, wanted: (clocks: ClockTable) => number): Policy {
  let step = -1;
  return {
    spec,
    worker: plainWorker,
    merging: "mean",
    mayBegin: ({ begun }) => begun <= step,
    skipsTo: () => step,
    settle<Payload>(arrived: readonly Update<Payload>[], clocks: ClockTable, merging: "sum" | "mean") {
      // A policy that begins in the middle of a training starts with the slowest worker.
      if (step < 0) step = clocks.slowest;
      const steps: Step<Payload>[] = [];
      for (;;) {
        const own = arrived.filter(({ clock }) => clock === step);
        const done = clocks.workers.filter((worker) => worker.done > step).length;
        if (clocks.size === 0 ? own.length === 0 : done < Math.max(1, Math.min(clocks.size, wanted(clocks)))) break;
        if (own.length > 0) steps.push(together(own, merging));
        step++;
      }
      const kept = new Set(steps.flatMap(({ parts }) => parts.map(({ update }) => update)));
      const dropped = arrived.filter((update) => update.clock < step && !kept.has(update));
      return { steps, dropped } satisfies Settled<Payload>;
    },
  };
}

registerPolicy({
  name: "backup",
  doc: "as bsp, but a step does not wait for its last BACKUPS workers, whose updates are dropped",
  numbers: [{ name: "BACKUPS", doc: "workers that are not waited for" }],
  make: (backups) => backupWorkers(backups as number),
});
registerPolicy({
  name: "dynamic-backup",
  doc: "as backup, with a number for each step that makes progress per second greatest",
  numbers: [
    { name: "NOISE", doc: "the variance of an update over the squared length of its mean", fraction: true, default: 4 },
  ],
  make: (noise) => dynamicBackupWorkers(noise as number),
});
