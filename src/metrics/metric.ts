/** @module What a metric is: values per example, or counts from which one number is made at the end. */
import type { Tensor } from "../functions/index.ts";

/**
 * A metric of a model's output and the target: one value per example (float or bool; any shape that begins with the
 * batch). What is reported is the mean over all examples, exact for bool whatever the batches and the number of workers.
 */
export type Metric = (output: Tensor, target: Tensor) => Tensor;

/** A metric that is no mean over examples, such as a ratio of counts. */
export interface CountedMetric {
  /** What is added up over all examples: floats or bools, `[batch, …, n]`, summed over all dims but the last. */
  readonly counts: (output: Tensor, target: Tensor) => Tensor;
  /** The number reported, from the n sums over the whole dataset. */
  readonly value: (sums: readonly number[]) => number;
}

/** Metrics by the names they are reported under. */
export type Metrics = { readonly [name: string]: Metric | CountedMetric };

/** Whether a metric is made of counts. */
export const isCounted = (metric: Metric | CountedMetric): metric is CountedMetric => typeof metric !== "function";
