/** @module A schedule below which the noise does not bring the size. */
import type { BatchSizes } from "./batch-sizes.ts";
import type { NoiseSizes } from "./by-noise.ts";

/** The size of `schedule`, or of `noise` where that is larger: it grows as planned, and earlier where gradients are noisy. */
export const hybrid = (schedule: BatchSizes, noise: NoiseSizes): BatchSizes => ({
  at: (step) => (Number.isNaN(noise.noiseScale) ? schedule.at(step) : Math.max(schedule.at(step), noise.at(step))),
  take(told) {
    schedule.take?.(told);
    noise.take(told);
  },
});
