/** @module Metrics that are means over examples. */

import { and, arange, concat, logSoftmax, not, ones, or, select, type Tensor } from "../functions/index.ts";
import { rowsById, toIndices } from "../functions/indices.ts";
import { widened } from "../functions/wide.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import { checkTensor } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import type { CountedMetric, Metric } from "./metric.ts";

/** A metric's values of two tensors; errors of what it is made of name it. */
const told = (name: string, output: Tensor, target: Tensor, body: () => Tensor): Tensor =>
  within(name, () => {
    checkTensor(name, output);
    checkTensor(name, target);
    return body();
  });

/** Whether the largest of the outputs `[rows…, classes]` is at the integer label `[rows…]`; the first of ties, NaN first. */
export const accuracy: Metric = (output, target) =>
  told("accuracy", output, target, () => output.argMax(-1).eq(toIndices(target)));

/** Whether the sign of logits says the same as probabilities (or 0 and 1) of the same shape, cut at one half; NaN says nothing that is right. */
export const binaryAccuracy: Metric = (output, target) =>
  told("binaryAccuracy", output, target, () => and(output.gt(0).eq(target.gt(0.5)), output.eq(output)));

/** Labels with a dim at the end. */
const column = (labels: Tensor): Tensor => labels.reshape([...labels.shape, 1]);

/**
 * Whether the integer label is among the `k` largest of the outputs `[rows…, classes]`: of ties the first ones are, and NaN
 * is before all numbers, so that `topK(1)` is {@link accuracy}. (Of ties scikit-learn's `top_k_accuracy_score` takes the last.)
 *
 * @throws HeddleError `option` when k is no positive whole number
 */
export function topK(k: number): Metric {
  checkInteger("topK", "k", k, 1);
  return (output, target) =>
    told("topK", output, target, () => {
      const labels = toIndices(target);
      const own = column(rowsById(output, labels, labels.shape.length));
      const place = arange(output.shape.at(-1) as number);
      const [mine, other] = [own.eq(own), output.eq(output)];
      const larger = or(output.gt(own), and(not(other), mine));
      const tied = or(output.eq(own), not(or(other, mine)));
      const ahead = or(larger, and(tied, place.lt(column(labels))));
      return ahead.cast("i32").sum(-1).lt(k);
    });
}

/** The difference; of 16-bit floats in f32, as squares of some hundred and sums over a batch are beyond f16. */
const difference = (output: Tensor, target: Tensor): Tensor => widened(output).sub(widened(target));

/** Squared error of each element of outputs and targets of one shape; f32 of 16-bit floats. */
export const meanSquaredError: Metric = (output, target) =>
  told("meanSquaredError", output, target, () => {
    const off = difference(output, target);
    return off.mul(off);
  });

/** Absolute error of each element of outputs and targets of one shape; f32 of 16-bit floats. */
export const meanAbsoluteError: Metric = (output, target) =>
  told("meanAbsoluteError", output, target, () => difference(output, target).abs());

/** The root of the mean squared error over all elements. */
export const rootMeanSquaredError: CountedMetric = {
  counts: (output, target) => {
    const square = meanSquaredError(output, target);
    return pair(square, onesLike(square));
  },
  value: ([sum = 0, count = 0]) => Math.sqrt(sum / count),
};

/** A one for each element. */
const onesLike = (x: Tensor): Tensor => ones(x.shape, { dtype: x.dtype });

/** Sums and counts side by side. */
const pair = (value: Tensor, count: Tensor): Tensor => concat([column(value), column(count)], value.shape.length);

/**
 * Perplexity: e to the mean cross-entropy of logits `[rows…, classes]` and integer labels `[rows…]`, over all rows whose label
 * is not `ignoreIndex`. NaN where there is no such row, or a logit is NaN; Infinity where a label has no probability.
 */
export function perplexity(options: { readonly ignoreIndex?: number } = {}): CountedMetric {
  checkOptions("perplexity", options, ["ignoreIndex"]);
  const { ignoreIndex } = options;
  return {
    counts: (output, target) => {
      const labels = toIndices(target);
      if (!sameShape(labels.shape, output.shape.slice(0, -1)))
        throw new HeddleError("shape", `perplexity: ${formatType(output)} does not fit labels ${formatType(target)}`);
      const counts = ignoreIndex === undefined ? labels.eq(labels) : labels.ne(ignoreIndex);
      const single = rowsById(logSoftmax(widened(output)), select(counts, labels, 0), labels.shape.length).neg();
      return pair(select(counts, single, 0), counts.cast(single.dtype));
    },
    value: ([sum = 0, count = 0]) => Math.exp(sum / count),
  };
}
