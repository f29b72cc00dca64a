/** @module Metrics: what is counted besides the loss. */
import { isInteger } from "../ir/dtype.ts";
import { sameShape, type TensorType } from "../ir/shape.ts";
import type { Tensor } from "../tensor/index.ts";

/**
 * A metric of a model's output and the target: one value per example (float or bool; any shape that begins with the
 * batch). What is reported is the mean over all examples, exact for bool whatever the batches and the number of workers.
 */
export type Metric = (output: Tensor, target: Tensor) => Tensor;

/** Metrics by the names they are reported under. */
export type Metrics = { readonly [name: string]: Metric };

/** Whether the largest of the outputs `[rows…, classes]` is at the integer label `[rows…]`. */
export const accuracy: Metric = (output, target) => output.argMax(-1).eq(target.cast("i32"));

/** Whether the sign of logits says the same as probabilities (or 0 and 1) of the same shape, cut at one half. */
export const binaryAccuracy: Metric = (logits, target) => logits.gt(0).eq(target.gt(0.5));

/** Accuracy where output and target are those of a classification, else nothing. */
export function defaultMetrics(output: TensorType, target: TensorType): Metrics {
  return isInteger(target.dtype) && sameShape(output.shape.slice(0, -1), target.shape) ? { accuracy } : {};
}

/** A name for people: accuracies as percentages. */
export function formatMetric(name: string, value: number): string {
  return /accuracy$/i.test(name) ? `${name} ${(100 * value).toFixed(2)} %` : `${name} ${formatNumber(value)}`;
}

/** Four significant digits, with an exponent only where it helps. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(3) : value.toFixed(4);
}
