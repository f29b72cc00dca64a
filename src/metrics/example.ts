/** @module Metrics that are means over examples. */

import { and, arange, concat, logSoftmax, not, ones, or, select, type Tensor } from "../functions/index.ts";
import { rowsById, toIndices } from "../functions/indices.ts";
import { widened } from "../functions/wide.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import { checkTensor } from "../tensor/tensor.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import type { CountedMetric, Metric } from "./metric.ts";

/** Computes a metric of two tensors; errors of the operations inside name the metric. */
const named = (name: string, output: Tensor, target: Tensor, body: () => Tensor): Tensor =>
  within(name, () => {
    checkTensor(name, output);
    checkTensor(name, target);
    return body();
  });

/** Whether the largest output of `[rows…, classes]` is at the integer label `[rows…]`. The first of equal outputs counts; NaN is the largest. */
export const accuracy: Metric = (output, target) =>
  named("accuracy", output, target, () => output.argMax(-1).eq(toIndices(target)));

/** Whether logits are positive exactly where targets (probabilities, or 0 and 1) of the same shape are above one half; NaN is wrong. */
export const binaryAccuracy: Metric = (output, target) =>
  named("binaryAccuracy", output, target, () => and(output.gt(0).eq(target.gt(0.5)), output.eq(output)));

/** Labels with a last dim of 1. */
const column = (labels: Tensor): Tensor => labels.reshape([...labels.shape, 1]);

/**
 * Whether the integer label is among the `k` largest outputs of `[rows…, classes]`. Among equal outputs the first ones count, and NaN
 * comes before all numbers, so that `topK(1)` is {@link accuracy}. (scikit-learn's `top_k_accuracy_score` takes the last of equal ones.)
 *
 * @throws HeddleError `option` when k is not a positive whole number
 */
export function topK(k: number): Metric {
  checkInteger("topK", "k", k, 1);
  return (output, target) =>
    named("topK", output, target, () => {
      const labels = toIndices(target);
      const labelScore = column(rowsById(output, labels, labels.shape.length));
      const classIndex = arange(output.shape.at(-1) as number);
      const [labelIsNumber, isNumber] = [labelScore.eq(labelScore), output.eq(output)];
      const larger = or(output.gt(labelScore), and(not(isNumber), labelIsNumber));
      const tied = or(output.eq(labelScore), not(or(isNumber, labelIsNumber)));
      const ahead = or(larger, and(tied, classIndex.lt(column(labels))));
      return ahead.cast("i32").sum(-1).lt(k);
    });
}

/** The difference, in f32 for 16-bit floats: squares of some hundreds and sums over a batch do not fit f16. */
const difference = (output: Tensor, target: Tensor): Tensor => widened(output).sub(widened(target));

/** Squared error of each element of outputs and targets of one shape; f32 for 16-bit floats. */
export const meanSquaredError: Metric = (output, target) =>
  named("meanSquaredError", output, target, () => {
    const error = difference(output, target);
    return error.mul(error);
  });

/** Absolute error of each element of outputs and targets of one shape; f32 for 16-bit floats. */
export const meanAbsoluteError: Metric = (output, target) =>
  named("meanAbsoluteError", output, target, () => difference(output, target).abs());

/** The root of the mean squared error over all elements. */
export const rootMeanSquaredError: CountedMetric = {
  counts: (output, target) => {
    const square = meanSquaredError(output, target);
    return pair(square, onesLike(square));
  },
  value: ([sum = 0, count = 0]) => Math.sqrt(sum / count),
};

/** Ones in the shape of a tensor. */
const onesLike = (x: Tensor): Tensor => ones(x.shape, { dtype: x.dtype });

/** Sums and counts side by side. */
const pair = (value: Tensor, count: Tensor): Tensor => concat([column(value), column(count)], value.shape.length);

/**
 * Perplexity: e to the mean cross-entropy of logits `[rows…, classes]` and integer labels `[rows…]`, over all rows whose label
 * is not `ignoreIndex`. NaN if there is no such row, or a logit is NaN; Infinity if a label has probability 0.
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
