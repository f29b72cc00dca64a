/** @module How good predictions are: numbers by the truth and what was predicted, a row for each example. */

import { dense, type Matrix } from "../matrix/index.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { columnOf, type MatrixData, targetsOf } from "./data.ts";
import { checkChoice } from "./model.ts";

/** A measure of predictions: larger is better, except for errors and losses. */
export type Score = (truth: MatrixData, predicted: MatrixData) => number;

/** Both columns, of one length. */
function pairs(
  what: string,
  truth: MatrixData,
  predicted: MatrixData,
  second = "predicted",
): readonly [Float64Array, Float64Array] {
  const y = columnOf(what, truth, undefined, "truth");
  return [y, columnOf(what, predicted, y.length, second, "truth")];
}

function meanOf(what: string, truth: MatrixData, predicted: MatrixData, of: (error: number) => number): number {
  const [y, z] = pairs(what, truth, predicted);
  return y.reduce((sum, value, at) => sum + of(value - (z[at] as number)), 0) / y.length;
}

/** The mean of squared errors. */
export const meanSquaredError: Score = (truth, predicted) =>
  meanOf("meanSquaredError", truth, predicted, (error) => error * error);

/** The mean of absolute errors. */
export const meanAbsoluteError: Score = (truth, predicted) =>
  meanOf("meanAbsoluteError", truth, predicted, (error) => Math.abs(error));

/** The part of the variance that is predicted (R²): 1 at best, and below 0 for predictions worse than the mean. */
export const r2Score: Score = (truth, predicted) => {
  const [y, z] = pairs("r2Score", truth, predicted);
  const mean = y.reduce((sum, value) => sum + value, 0) / y.length;
  const whole = y.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const missed = y.reduce((sum, value, at) => sum + (value - (z[at] as number)) ** 2, 0);
  if (whole === 0) return missed === 0 ? 1 : 0;
  return 1 - missed / whole;
};

/** The part of labels that are right. */
export const accuracyScore: Score = (truth, predicted) =>
  meanOf("accuracyScore", truth, predicted, (error) => (error === 0 ? 1 : 0));

/** Counts of examples by their label (rows) and the label that was predicted (columns). */
export interface Confusion {
  /** Labels of rows and columns, ascending. */
  readonly classes: readonly number[];
  readonly counts: Matrix;
}

/** Counts of examples by label and predicted label. */
export function confusionMatrix(truth: MatrixData, predicted: MatrixData): Confusion {
  const [y, z] = pairs("confusionMatrix", truth, predicted);
  const classes = [...new Set([...y, ...z])].sort((a, b) => a - b);
  const places = new Map(classes.map((label, place) => [label, place]));
  const counts = new Float64Array(classes.length ** 2);
  for (const [row, label] of y.entries()) {
    const at = (places.get(label) as number) * classes.length + (places.get(z[row] as number) as number);
    counts[at] = (counts[at] as number) + 1;
  }
  return { classes, counts: dense(counts, classes.length, classes.length) };
}

/** Precision, recall and their harmonic mean of one label. */
export interface LabelScores {
  readonly label: number;
  /** The part of those predicted as this label that have it; 0 where none are. */
  readonly precision: number;
  /** The part of those of this label that are found; 0 where there are none. */
  readonly recall: number;
  readonly f1: number;
  /** How many examples have the label. */
  readonly count: number;
}

/** Precision, recall and F1 of each label. */
export function classificationReport(truth: MatrixData, predicted: MatrixData): LabelScores[] {
  const { classes, counts } = confusionMatrix(truth, predicted);
  const [own, found, right] = [counts.sum(1).dataSync(), counts.sum(0).dataSync(), counts.arraySync()];
  const part = (hits: number, of: number): number => (of === 0 ? 0 : hits / of);
  return classes.map((label, at) => {
    const hits = right[at]?.[at] as number;
    const [count, all] = [own[at] as number, found[at] as number];
    return {
      label,
      precision: part(hits, all),
      recall: part(hits, count),
      f1: part(2 * hits, all + count),
      count,
    };
  });
}

/** Options of {@link f1Score}. */
export interface F1Options {
  /**
   * `"binary"`: the F1 of the positive label, the larger one of two (of one label alone 1, unless it is larger); `"macro"`: the mean of the
   * labels' F1; `"weighted"`: that mean by the count of each label; `"micro"`: of all decisions, which is the accuracy. Default `"binary"`
   * of two labels at most, else `"macro"`.
   */
  readonly average?: "binary" | "macro" | "weighted" | "micro";
}

/**
 * The harmonic mean of precision and recall: of two labels that of the positive one, of more the mean over the labels.
 *
 * @throws HeddleError `value` for `average: "binary"` of more than two labels; `option`
 */
export function f1Score(truth: MatrixData, predicted: MatrixData, options: F1Options = {}): number {
  checkOptions("f1Score", options, ["average"]);
  const report = classificationReport(truth, predicted);
  const { average = report.length <= 2 ? "binary" : "macro" } = options;
  checkChoice("f1Score", "average", average, ["binary", "macro", "weighted", "micro"]);
  if (average === "micro") return accuracyScore(truth, predicted);
  if (average === "binary") {
    if (report.length > 2)
      throw new HeddleError("value", `f1Score: average "binary" takes two labels at most, got ${report.length}`, {
        hint: 'average: "macro" takes more',
      });
    const largest = (report.at(-1) as LabelScores).label;
    const positive = report.length === 1 ? Math.max(largest, 1) : largest;
    return report.find(({ label }) => label === positive)?.f1 ?? 0;
  }
  const weightOf = ({ count }: LabelScores): number => (average === "macro" ? 1 : count);
  const sum = report.reduce((total, scores) => total + weightOf(scores) * scores.f1, 0);
  return sum / report.reduce((total, scores) => total + weightOf(scores), 0);
}

/**
 * The probability that an example of the larger of two labels scores higher than one of the other label: the area under the ROC curve, by
 * ranks (Mann and Whitney). Equal scores count half.
 *
 * @throws HeddleError `value` unless there are two labels
 */
export const rocAucScore: Score = (truth, scores) => {
  const [y, z] = pairs("rocAucScore", truth, scores, "scores");
  const labels = [...new Set(y)];
  if (labels.length !== 2)
    throw new HeddleError("value", `rocAucScore: takes two labels, got ${labels.length}`, {
      hint: "score one label against the rest",
    });
  const positive = Math.max(...labels);
  const order = Int32Array.from(z.keys()).sort((a, b) => (z[a] as number) - (z[b] as number));
  let [ranks, positives] = [0, 0];
  for (let first = 0; first < order.length; ) {
    let end = first + 1;
    while (end < order.length && z[order[end] as number] === z[order[first] as number]) end++;
    const hits = order.subarray(first, end).filter((row) => y[row] === positive).length;
    ranks += (hits * (first + 1 + end)) / 2;
    positives += hits;
    first = end;
  }
  return (ranks - (positives * (positives + 1)) / 2) / (positives * (y.length - positives));
};

/**
 * The mean of minus the logarithm of the probability of the true label.
 *
 * @param probabilities a column for each label that occurs, ascending, as a model's `probabilities` gives them
 * @throws HeddleError `shape` when there are as many columns as labels not
 */
export const logLoss: Score = (truth, probabilities) => {
  const y = columnOf("logLoss", truth, undefined, "truth");
  const given = targetsOf("logLoss", probabilities, y.length, "probabilities", "truth");
  const classes = [...new Set(y)].sort((a, b) => a - b);
  if (classes.length !== given.columns)
    throw new HeddleError(
      "shape",
      `logLoss: probabilities has ${plural(given.columns, "column")}, and truth has ${plural(classes.length, "label")}`,
    );
  const data = given.dataSync();
  const places = new Map(classes.map((label, place) => [label, place]));
  const sum = y.reduce((total, label, row) => {
    const probability = data[row * classes.length + (places.get(label) as number)] as number;
    return total - Math.log(Math.min(Math.max(probability, Number.EPSILON), 1));
  }, 0);
  return sum / y.length;
};

const pairsOf = (count: number): number => (count * (count - 1)) / 2;

/** How much two clusterings agree, corrected for chance (Hubert and Arabie, 1985): 1 for the same clusters, 0 for random ones. */
export const adjustedRandScore: Score = (truth, predicted) => {
  const { counts } = confusionMatrix(truth, predicted);
  const sumOf = (values: Float64Array): number => values.reduce((sum, count) => sum + pairsOf(count), 0);
  const [both, rows, columns] = [counts, counts.sum(1), counts.sum(0)].map((part) => sumOf(part.dataSync())) as [
    number,
    number,
    number,
  ];
  const expected = (rows * columns) / pairsOf(counts.sum().itemSync());
  const most = (rows + columns) / 2;
  return most === expected ? 1 : (both - expected) / (most - expected);
};
