/** @module Losses of classes: cross-entropies and hinges. Classes are the last dim. */

import {
  softmaxCrossEntropy as crossEntropyOfRows,
  logSoftmax,
  maximum,
  select,
  softplus,
  type Tensor,
} from "../functions/index.ts";
import { rowsById, toIndices } from "../functions/indices.ts";
import { mulNoNan } from "../functions/zero-terms.ts";
import { type DType, isFloat, isInteger } from "../ir/dtype.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import { HeddleError, retold, within } from "../util/errors.ts";
import { asRecord, checkInteger, checkNumber } from "../util/options.ts";
import { checkPair, checkTensorOptions, checkTensors, type LossOptions, reduced, type SingleLosses } from "./reduce.ts";

/** Options of losses with integer labels. */
export interface ClassOptions extends LossOptions {
  /** A weight per class, `[classes]`; a mean is divided by the weights of the labels. Default: all 1. */
  readonly weight?: Tensor;
  /** Rows with this label do not count, neither in a sum nor in the divisor of a mean. Default: none. */
  readonly ignoreIndex?: number;
}

/** Options of {@link softmaxCrossEntropy}. */
export interface CrossEntropyOptions extends ClassOptions {
  /** Share of each target that is spread evenly over all classes, from 0 to 1; default 0. */
  readonly labelSmoothing?: number;
}

const classNames = ["weight", "ignoreIndex"];

/** Which rows count; labels that are valid as indices; and the weight of each row in a dtype. */
function labelled(name: string, logits: Tensor, labels: Tensor, { weight, ignoreIndex }: ClassOptions) {
  const classes = logits.shape.at(-1) as number;
  checkTensorOptions(name, { weight });
  if (weight !== undefined && !sameShape(weight.shape, [classes]))
    throw new HeddleError("shape", `${name}: weight must be [${classes}], got ${formatType(weight)}`);
  if (ignoreIndex !== undefined) checkInteger(name, "ignoreIndex", ignoreIndex, -(2 ** 31), 2 ** 31 - 1);
  const allLabels = toIndices(labels, { kind: "label", size: classes });
  const counts = ignoreIndex === undefined ? undefined : allLabels.ne(ignoreIndex);
  const indices = counts === undefined ? allLabels : select(counts, allLabels, 0);
  const weights = (dtype: DType): Tensor | undefined =>
    weight === undefined ? undefined : rowsById(weight.cast(dtype), indices);
  return { counts, indices, weights };
}

/** Single losses of rows, each times its weight; rows that do not count are 0. The mean is by weight. */
function ofRows(
  single: Tensor,
  { counts, weights: weightsIn }: Pick<ReturnType<typeof labelled>, "counts" | "weights">,
): SingleLosses {
  const counted = (x: Tensor): Tensor => (counts === undefined ? x : select(counts, x, 0));
  const weights = weightsIn(single.dtype);
  if (weights !== undefined) return { values: counted(mulNoNan(weights, single)), weights: counted(weights) };
  return { values: counted(single), weights: counts?.cast(single.dtype) };
}

function checkLabels(name: string, logits: Tensor, labels: Tensor): void {
  checkTensors(name, logits, labels);
  const rows = logits.shape.slice(0, -1);
  if (!isInteger(labels.dtype)) {
    const hint = sameShape(labels.shape, rows)
      ? 'labels are class indices: store the column with dtype "i32", or cast it'
      : isFloat(labels.dtype) && sameShape(labels.shape.slice(0, -1), rows)
        ? `shares of ${labels.shape.at(-1)} classes do not fit ${logits.shape.at(-1)} logits: give augment.mixup and cutmix the classes of the model`
        : "give the class index of each row, [rows…]";
    throw new HeddleError("dtype", `${name}: labels must be integers, got ${formatType(labels)}`, { hint });
  }
  if (sameShape(labels.shape, rows)) return;
  const received = `${formatType(logits)}, ${formatType(labels)}`;
  const [last, ...more] = [...labels.shape].reverse();
  const hint = sameShape(labels.shape, logits.shape)
    ? 'turn one-hot labels into class indices, labels.argMax(-1), or cast them to "f32" as probabilities'
    : last === 1 && sameShape([...more].reverse(), rows)
      ? "labels have no last dim of 1: give a column of shape [rows], or labels.reshape([-1])"
      : "labels have the shape of the logits without the last dim, which counts classes";
  throw new HeddleError("shape", `${name}: needs logits [rows…, classes] and integer labels [rows…], got ${received}`, {
    hint,
  });
}

/**
 * Cross-entropy of softmax(logits) with integer labels or with probabilities, as PyTorch's `CrossEntropyLoss` (whose classes
 * are dim 1).
 *
 * @param logits float `[rows…, classes]`
 * @param labels integers `[rows…]`, each in `[0, classes)` or `ignoreIndex`; or floats `[rows…, classes]`, probabilities
 * @returns a scalar, or `[rows…]` with reduction `"none"`
 */
export function softmaxCrossEntropy(logits: Tensor, labels: Tensor, options: CrossEntropyOptions = {}): Tensor {
  return within("softmaxCrossEntropy", () => {
    const name = "softmaxCrossEntropy";
    checkTensors(name, logits, labels);
    const { weight, labelSmoothing = 0 } = asRecord("softmaxCrossEntropy", options);
    checkNumber(name, "labelSmoothing", labelSmoothing, 0, 1);
    const names = [...classNames, "labelSmoothing"];
    if (isFloat(labels.dtype) && sameShape(labels.shape, logits.shape))
      return withProbabilities(logits, labels, options, names);
    checkLabels(name, logits, labels);
    const rows = labelled(name, logits, labels, options);
    const share = labelSmoothing / (logits.shape.at(-1) as number);
    const single = (x: Tensor): SingleLosses => {
      const labelled = ofRows(crossEntropyOfRows(x, rows.indices), rows);
      if (labelSmoothing === 0) return labelled;
      const smoothed = ofRows(weightedSum(logSoftmax(x), weight).neg(), {
        ...rows,
        weights: () => undefined,
      }).values.mul(share);
      // At 1 the label itself does not count, however unlikely it is.
      return {
        ...labelled,
        values: labelSmoothing === 1 ? smoothed : labelled.values.mul(1 - labelSmoothing).add(smoothed),
      };
    };
    return reduced(name, [logits], options, single, names);
  });
}

function withProbabilities(
  logits: Tensor,
  target: Tensor,
  options: CrossEntropyOptions,
  names: readonly string[],
): Tensor {
  const { weight, labelSmoothing = 0, ignoreIndex } = asRecord("softmaxCrossEntropy", options);
  checkPair("softmaxCrossEntropy", logits, target);
  checkTensorOptions("softmaxCrossEntropy", { weight });
  if (ignoreIndex !== undefined)
    throw new HeddleError("option", "softmaxCrossEntropy: ignoreIndex needs integer labels, not probabilities");
  const share = labelSmoothing / (logits.shape.at(-1) as number);
  const single = (x: Tensor, t: Tensor): Tensor => {
    const smooth = labelSmoothing === 0 ? t : t.mul(1 - labelSmoothing).add(share);
    return weightedSum(mulNoNan(smooth, logSoftmax(x)), weight).neg();
  };
  return reduced("softmaxCrossEntropy", [logits, target], options, single, names);
}

/** The weighted sum over classes: a class of weight 0 does not count, even if its value is infinite. */
const weightedSum = (x: Tensor, weight: Tensor | undefined): Tensor =>
  (weight === undefined ? x : mulNoNan(weight.cast(x.dtype), x)).sum(-1);

/**
 * Negative log-likelihood of labels, as PyTorch's `NLLLoss`: minus the logarithm of the label's probability.
 *
 * @param logProbabilities float `[rows…, classes]`, such as the result of `logSoftmax`
 * @param labels integers `[rows…]`, each in `[0, classes)` or `ignoreIndex`
 */
export function nll(logProbabilities: Tensor, labels: Tensor, options: ClassOptions = {}): Tensor {
  return within("nll", () => {
    checkLabels("nll", logProbabilities, labels);
    if (!sameShape(labels.shape, logProbabilities.shape.slice(0, -1)))
      throw new HeddleError("shape", `nll: ${formatType(logProbabilities)} does not fit labels ${formatType(labels)}`);
    const rows = labelled("nll", logProbabilities, labels, options);
    const single = (x: Tensor): SingleLosses =>
      ofRows(
        retold(
          "nll",
          (outside) => ({ ...outside, kind: "label" }),
          () => rowsById(x, rows.indices, labels.shape.length).neg(),
        ),
        rows,
      );
    return reduced("nll", [logProbabilities], options, single, classNames);
  });
}

/** Options of {@link binaryCrossEntropy}. */
export interface BinaryOptions extends LossOptions {
  /** A factor per element, in a shape that broadcasts; default 1. */
  readonly weight?: Tensor;
}

/** The logarithm of a probability, at least -100; below that its slope is the slope at 1e-12. */
function boundedLog(p: Tensor): Tensor {
  const zero = p.lt(Math.exp(-100));
  return select(zero, p.mul(1e12).sub(100), maximum(select(zero, 1, p).log(), -100));
}

/**
 * Cross-entropy of probabilities with targets in [0, 1], as PyTorch's `BCELoss`: logarithms are at least -100,
 * and still have a slope there, so that a model learns from wrong answers of probability 0 or 1. For logits,
 * {@link binaryCrossEntropyWithLogits} is more exact. A number that is not a probability gives NaN, where PyTorch stops the program.
 */
export function binaryCrossEntropy(output: Tensor, target: Tensor, options: BinaryOptions = {}): Tensor {
  return within("binaryCrossEntropy", () => {
    checkPair("binaryCrossEntropy", output, target);
    checkTensorOptions("binaryCrossEntropy", { weight: asRecord("binaryCrossEntropy", options).weight });
    const single = (p: Tensor, t: Tensor): Tensor => {
      const complement = p.neg().add(1);
      const likelihood = t.mul(boundedLog(p)).add(t.neg().add(1).mul(boundedLog(complement)));
      // For a number below 0 or above 1 the formula would give an ordinary number, which nobody would notice.
      const checkedLoss = select(p.mul(complement).lt(0), Number.NaN, likelihood.neg());
      return options.weight === undefined ? checkedLoss : checkedLoss.mul(options.weight);
    };
    return reduced("binaryCrossEntropy", [output, target], options, single, ["weight"]);
  });
}

/** Options of {@link binaryCrossEntropyWithLogits}. */
export interface BinaryLogitsOptions extends BinaryOptions {
  /** A factor for positive targets, in a shape that broadcasts; above 1 it raises recall. Default 1. */
  readonly posWeight?: Tensor;
  /** Share of each target that becomes one half, from 0 to 1; default 0. */
  readonly labelSmoothing?: number;
}

/**
 * `positive · softplus(-x) + negative · softplus(x)`, rewritten with |x|: both sides contain softplus(-|x|), and the unlikely side adds |x|.
 * So a right answer at an infinite logit costs 0.
 */
function ofLogits(x: Tensor, positive: Tensor, negative: Tensor): Tensor {
  const high = x.ge(0);
  const size = select(high, x, x.neg());
  return positive
    .add(negative)
    .mul(softplus(size.neg()))
    .add(mulNoNan(select(high, negative, positive), size));
}

/**
 * Cross-entropy of sigmoid(logits) with probabilities in [0, 1], over all elements, without overflow, as PyTorch's
 * `BCEWithLogitsLoss`: `softplus(x) - x · target`. A right answer at an infinite logit costs 0, where PyTorch gives NaN.
 */
export function binaryCrossEntropyWithLogits(
  logits: Tensor,
  target: Tensor,
  options: BinaryLogitsOptions = {},
): Tensor {
  return within("binaryCrossEntropyWithLogits", () => {
    const name = "binaryCrossEntropyWithLogits";
    checkPair(name, logits, target);
    const { weight, posWeight, labelSmoothing = 0 } = asRecord("binaryCrossEntropyWithLogits", options);
    checkTensorOptions(name, { weight, posWeight });
    checkNumber(name, "labelSmoothing", labelSmoothing, 0, 1);
    const single = (x: Tensor, t: Tensor): Tensor => {
      const positive = labelSmoothing === 0 ? t : t.mul(1 - labelSmoothing).add(labelSmoothing / 2);
      const negative = positive.neg().add(1);
      const values = ofLogits(x, posWeight === undefined ? positive : positive.mul(posWeight), negative);
      return weight === undefined ? values : mulNoNan(weight, values);
    };
    return reduced(name, [logits, target], options, single, ["weight", "posWeight", "labelSmoothing"]);
  });
}

/** The hinge of support vector machines: `max(0, margin - target · output)`, targets -1 and 1; `margin` is 1 by default. */
export function hinge(
  output: Tensor,
  target: Tensor,
  options: LossOptions & { readonly margin?: number } = {},
): Tensor {
  return within("hinge", () => {
    checkPair("hinge", output, target);
    const { margin = 1 } = asRecord("hinge", options);
    checkNumber("hinge", "margin", margin);
    return reduced("hinge", [output, target], options, (y, t) => t.mul(y).neg().add(margin).relu(), ["margin"]);
  });
}

/**
 * PyTorch's `HingeEmbeddingLoss` of distances: the distance itself where the target is 1, `max(0, margin - distance)` where
 * it is -1; `margin` is 1 by default.
 */
export function hingeEmbedding(
  output: Tensor,
  target: Tensor,
  options: LossOptions & { readonly margin?: number } = {},
): Tensor {
  return within("hingeEmbedding", () => {
    checkPair("hingeEmbedding", output, target);
    const { margin = 1 } = asRecord("hingeEmbedding", options);
    checkNumber("hingeEmbedding", "margin", margin);
    const single = (y: Tensor, t: Tensor): Tensor =>
      select(t.eq(1), y, 0).add(select(t.eq(-1), y.neg().add(margin).relu(), 0));
    return reduced("hingeEmbedding", [output, target], options, single, ["margin"]);
  });
}
