/** @module How many samples the next step takes. */
import { checkInteger } from "../../util/options.ts";

/** What a step told: enough to estimate how noisy its gradient was. */
export interface StepNoise {
  /** Samples of each worker, and of all together. */
  readonly small: number;
  readonly large: number;
  /** The mean of the squared lengths of the workers' gradients. */
  readonly smallSquared: number;
  /** The squared length of the mean gradient. */
  readonly largeSquared: number;
}

/** The sizes of batches over a training. */
export interface BatchSizes {
  /** Samples of a step, counted from 0. */
  at(step: number): number;
  /** Takes what a step told. Absent: the sizes do not depend on it. */
  take?(noise: StepNoise): void;
}

/** The same size in each step. @throws HeddleError `option` */
export function fixed(size: number): BatchSizes {
  checkInteger("fixed", "size", size, 1);
  return { at: () => size };
}
