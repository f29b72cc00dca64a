/** @module The metrics of a training, and how they are shown. */
import { isInteger } from "../ir/dtype.ts";
import { sameShape, type TensorType } from "../ir/shape.ts";
import { accuracy, type Metrics } from "../metrics/index.ts";

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
