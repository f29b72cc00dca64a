/** @module Metrics from counts per class: precision, recall, F1, the confusion matrix, the area under the ROC curve. */

import { arange, concat, dotGeneral, isNaN, isTensor, oneHot, type Tensor } from "../functions/index.ts";
import { rowsById, toIndices } from "../functions/indices.ts";
import { isInteger } from "../ir/dtype.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import { valuesAtHand } from "../tensor/tensor.ts";
import { HeddleError, inWords, type OutsideIndex, retold } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { CountedMetric } from "./metric.ts";

/** How the values of the classes are averaged: `"macro"` their mean, `"micro"` the value of all counts together, `"weighted"` their mean weighted by the number of examples. */
export type ClassAverage = "macro" | "micro" | "weighted";

/** Options of {@link precision}, {@link recall} and {@link f1}. */
export interface ClassMetricOptions {
  /** Default `"macro"`. It does not matter for one class (logits in the shape of the target). */
  readonly average?: ClassAverage;
}

/** Numbers of right answers, of all answers and of all labels of a class. */
type Counts = { readonly right: number; readonly answered: number; readonly actual: number };

const ratio = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole);

/**
 * The share of right answers among the answers that name a class; a class that is never named counts as 0. Outputs are logits
 * `[rows…, classes]` with integer labels `[rows…]`, or logits in the target's shape, where a positive logit means yes and a target above
 * one half means yes. All classes of the outputs are averaged, even those that do not occur: scikit-learn gives the same with all
 * classes as `labels` and `zero_division=0`. NaN counts as the largest logit (as in NumPy's `argmax`); for yes and no it counts as no.
 */
export const precision = (options: ClassMetricOptions = {}): CountedMetric =>
  classMetric("precision", options, ({ right, answered }) => ratio(right, answered));

/** The share of a class's examples that are answered with the class; a class without examples counts as 0. Inputs as {@link precision}. */
export const recall = (options: ClassMetricOptions = {}): CountedMetric =>
  classMetric("recall", options, ({ right, actual }) => ratio(right, actual));

/** The harmonic mean of precision and recall, of each class. Inputs as {@link precision}. */
export const f1 = (options: ClassMetricOptions = {}): CountedMetric =>
  classMetric("f1", options, ({ right, answered, actual }) => ratio(2 * right, answered + actual));

function classMetric(name: string, options: ClassMetricOptions, valueOf: (counts: Counts) => number): CountedMetric {
  checkOptions(name, options, ["average"]);
  const { average = "macro" } = options;
  if (!["macro", "micro", "weighted"].includes(average))
    throw new HeddleError("option", `${name}: average must be macro, micro or weighted, got ${String(average)}`);
  return {
    counts: (output, target) => {
      const [answered, actual] = membership(name, output, target);
      return concat([answered.mul(actual), answered, actual], answered.shape.length - 1);
    },
    value: (sums) => combined(perClass(sums), average, valueOf),
  };
}

function perClass(sums: readonly number[]): Counts[] {
  const classes = sums.length / 3;
  const sumAt = (index: number): number => sums[index] as number;
  return Array.from({ length: classes }, (_unused, index) => ({
    right: sumAt(index),
    answered: sumAt(classes + index),
    actual: sumAt(2 * classes + index),
  }));
}

function combined(classes: readonly Counts[], average: ClassAverage, valueOf: (counts: Counts) => number): number {
  const total = (pick: (counts: Counts) => number): number => classes.reduce((sum, counts) => sum + pick(counts), 0);
  if (average === "micro")
    return valueOf({
      right: total((c) => c.right),
      answered: total((c) => c.answered),
      actual: total((c) => c.actual),
    });
  const weightOf = ({ actual }: Counts): number => (average === "macro" ? 1 : actual);
  return ratio(
    total((counts) => valueOf(counts) * weightOf(counts)),
    total(weightOf),
  );
}

/** For each row and class: 1 if the answer is the class, and 1 if the label is. */
function membership(name: string, output: Tensor, target: Tensor): readonly [Tensor, Tensor] {
  if (sameShape(output.shape, target.shape)) {
    const flag = (x: Tensor): Tensor => x.cast("f32").reshape([...x.shape, 1]);
    return [flag(output.gt(0)), flag(target.cast("f32").gt(0.5))];
  }
  const classes = output.shape.at(-1);
  if (classes === undefined || !sameShape(output.shape.slice(0, -1), target.shape))
    throw new HeddleError("shape", `${name}: ${formatType(output)} does not fit the target ${formatType(target)}`);
  return [oneHot(output.argMax(-1), classes), oneHot(toIndices(target), classes)];
}

/** Checks class indices: traced ones when the program runs. */
function checkedClasses(what: string, classIds: Tensor, classes: number): Tensor {
  if (!isInteger(classIds.dtype))
    throw new HeddleError("dtype", `confusionMatrix: ${what} must be integers, got ${formatType(classIds)}`);
  valuesAtHand(classIds)?.forEach((value, index) => {
    if (value >= 0 && value < classes) return;
    throw new HeddleError(
      "value",
      `confusionMatrix: element ${index} of the ${what} is ${value}, outside [0, ${classes})`,
    );
  });
  const outside = (index: OutsideIndex): Fault =>
    inWords(`element ${index.position} of the ${what} is ${index.index}, outside [0, ${index.size})`, index);
  return retold("confusionMatrix", outside, () => rowsById(arange(classes), toIndices(classIds).reshape([-1])));
}

/**
 * Counts of the pairs of true class and answer: `[classes, classes]` i32; rows are the true classes, columns the answers. A class
 * outside `[0, classes)` is an error, for traced classes when the program runs.
 *
 * @param labels integers of any shape
 * @param answers integers of the same shape; for a model's outputs `output.argMax(-1)`
 * @throws HeddleError `argument` unless both are tensors; `shape` when their shapes differ; `dtype` unless both are integers; `value` for a class outside `[0, classes)`.
 */
export function confusionMatrix(labels: Tensor, answers: Tensor, classes: number): Tensor {
  checkInteger("confusionMatrix", "classes", classes, 1);
  const [left, right] = [labels, answers].map((x) => (isTensor(x) ? formatType(x) : shown(x)));
  if (!isTensor(labels) || !isTensor(answers))
    throw new HeddleError("argument", `confusionMatrix: labels and answers must be tensors, got ${left} and ${right}`, {
      hint: 'make tensors of them: tensor(labels, { dtype: "i32" })',
    });
  if (!sameShape(labels.shape, answers.shape))
    throw new HeddleError("shape", `confusionMatrix: takes labels and answers of one shape, got ${left} and ${right}`);
  const rows = (what: string, x: Tensor): Tensor => oneHot(checkedClasses(what, x, classes), classes, { dtype: "f64" });
  const dims = { xBatch: [], yBatch: [], xContract: [0], yContract: [0] };
  return dotGeneral(rows("labels", labels), rows("answers", answers), dims).cast("i32");
}

/**
 * Area under the ROC curve of logits and targets (yes above one half) of one shape, from a histogram of `sigmoid(logit)`:
 * scores in one bin count as equal. The precision depends on the spread of the scores: logits that all saturate fall into one bin and
 * give 0.5. {@link rocAuc} is exact, for scores of any range. NaN if a logit is NaN, or all labels are equal.
 *
 * @param options `bins`: default 200
 */
export function auc(options: { readonly bins?: number } = {}): CountedMetric {
  checkOptions("auc", options, ["bins"]);
  const { bins = 200 } = options;
  checkInteger("auc", "bins", bins, 2);
  return {
    counts: (output, target) => {
      if (!sameShape(output.shape, target.shape))
        throw new HeddleError("shape", `auc: ${formatType(output)} does not fit the target ${formatType(target)}`);
      const flat = (x: Tensor): Tensor => x.reshape([x.shape[0] as number, -1, 1]);
      const bin = output
        .sigmoid()
        .mul(bins)
        .minimum(bins - 1)
        .cast("i32");
      const inBin = flat(bin).eq(arange(bins)).cast("f32");
      const yes = flat(target.cast("f32").gt(0.5)).cast("f32");
      const unknown = flat(isNaN(output)).cast("f32");
      return concat([inBin.mul(yes), inBin.mul(yes.neg().add(1)), unknown], 2);
    },
    value: (sums) => (sums[2 * bins] === 0 ? areaOf(sums.slice(0, bins), sums.slice(bins, 2 * bins)) : Number.NaN),
  };
}

/** The share of pairs of a yes and a no in which the yes has the higher score; ties count half. Counts are in ascending order of the score. */
function areaOf(yes: readonly number[], no: readonly number[]): number {
  let [pairs, below, total] = [0, 0, 0];
  yes.forEach((count, index) => {
    const noCount = no[index] as number;
    pairs += count * (below + noCount / 2);
    below += noCount;
    total += count;
  });
  return pairs / (total * below);
}

/**
 * Area under the ROC curve: the share of pairs of a positive and a negative in which the positive has the higher score; ties
 * count half (Hanley and McNeil, 1982): scikit-learn's `roc_auc_score`. NaN if all labels are equal, there are none, or a score is NaN
 * (scikit-learn warns of the first case and refuses the others); infinite scores are the highest and lowest.
 *
 * @param scores any numbers, such as logits
 * @param labels one per score; positive above one half
 * @param options `weights`: how often each pair of score and label counts, at least 0; default 1
 * @throws HeddleError `shape` when the numbers of scores, labels and weights differ; `value` for a label that is NaN, or a weight that is negative or not finite
 */
export function rocAuc(
  scores: ArrayLike<number>,
  labels: ArrayLike<number>,
  options: { readonly weights?: ArrayLike<number> } = {},
): number {
  checkOptions("rocAuc", options, ["weights"]);
  const { weights } = options;
  if (typeof scores?.length !== "number" || typeof labels?.length !== "number")
    throw new HeddleError("argument", `rocAuc: takes scores and labels, got ${shown(scores)} and ${shown(labels)}`);
  if (scores.length !== labels.length)
    throw new HeddleError("shape", `rocAuc: ${scores.length} scores and ${labels.length} labels`);
  if (weights !== undefined && weights.length !== scores.length)
    throw new HeddleError("shape", `rocAuc: ${scores.length} scores and ${weights.length} weights`);
  const values = Array.from(scores);
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  const indices = new Map(distinct.map((value, index) => [value, index]));
  const [yes, no] = [distinct.map(() => 0), distinct.map(() => 0)];
  values.forEach((value, index) => {
    const [label, weight] = [labels[index] as number, weights?.[index] ?? 1];
    if (Number.isNaN(label)) throw new HeddleError("value", `rocAuc: label ${index} is NaN`);
    if (!(weight >= 0 && weight < Infinity))
      throw new HeddleError("value", `rocAuc: weight ${index} is ${weight}, not a finite number from 0 on`);
    const list = label > 0.5 ? yes : no;
    const position = indices.get(value) as number;
    list[position] = (list[position] as number) + weight;
  });
  return values.some(Number.isNaN) ? Number.NaN : areaOf(yes, no);
}
