/** @module What a metric is: values per example, or counts that give one number at the end. */
import type { Tensor } from "../functions/index.ts";

/**
 * A metric of a model's output and the target: one value per example (float or bool; any shape that begins with the
 * batch). The mean over all examples is reported; for bool it is exact for any batches and number of workers.
 */
export type Metric = (output: Tensor, target: Tensor) => Tensor;

/** A metric that is not a mean over examples, such as a ratio of counts. */
export interface CountedMetric {
  /** Counts to add up over all examples: floats or bools, `[batch, …, n]`, summed over all dims but the last. */
  readonly counts: (output: Tensor, target: Tensor) => Tensor;
  /** The number reported, from the n sums over the whole dataset. */
  readonly value: (sums: readonly number[]) => number;
}

/** Metrics by the names under which they are reported. */
export type Metrics = { readonly [name: string]: Metric | CountedMetric };

/** Whether a metric is made of counts. */
export const isCounted = (metric: Metric | CountedMetric): metric is CountedMetric => typeof metric !== "function";
