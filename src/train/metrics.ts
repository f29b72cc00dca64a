/** @module The default metrics of a training, and the text form of metrics. */
import { isInteger } from "../ir/dtype.ts";
import { sameShape, type TensorType } from "../ir/shape.ts";
import { accuracy, type Metrics } from "../metrics/index.ts";

/** Accuracy if output and target are those of a classification; otherwise no metrics. */
export function defaultMetrics(output: TensorType, target: TensorType): Metrics {
  return isInteger(target.dtype) && sameShape(output.shape.slice(0, -1), target.shape) ? { accuracy } : {};
}

/** A metric as text: `"accuracy 98.77 %"`, `"margin 0.9877"`. */
export function formatMetric(name: string, value: number): string {
  return /accuracy$/i.test(name) ? `${name} ${(100 * value).toFixed(2)} %` : `${name} ${formatNumber(value)}`;
}

/** Four decimals, or an exponent for very small and very large numbers. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(3) : value.toFixed(4);
}
