/** @module Losses of classes: cross-entropies and hinges. Classes are the last dim. */

import { isFloat, isInteger } from "../ir/dtype.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import {
  softmaxCrossEntropy as crossEntropyOfRows,
  logSoftmax,
  maximum,
  select,
  softplus,
  type Tensor,
} from "../tensor/index.ts";
import { rowsById, toIndices } from "../tensor/indices.ts";
import { HeddleError, retold, within } from "../util/errors.ts";
import { checkInteger, checkNumber } from "../util/options.ts";
import { checkPair, checkTensorOptions, checkTensors, type LossOptions, reduced } from "./reduce.ts";

/** Options of losses with integer labels. */
export interface ClassOptions extends LossOptions {
  /** A weight per class, `[classes]`; a mean is divided by the weights of the labels. Default: all 1. */
  readonly weight?: Tensor;
  /** Rows with this label count for nothing, neither in a sum nor in what a mean is divided by. Default: none. */
  readonly ignoreIndex?: number;
}

/** Options of {@link softmaxCrossEntropy}. */
export interface CrossEntropyOptions extends ClassOptions {
  /** Share of each target that is spread over all classes alike, from 0 to 1; default 0. */
  readonly labelSmoothing?: number;
}

const classNames = ["weight", "ignoreIndex"];

/** The rows that count, by their labels; labels to look up with; and the weight of each row. */
function labelled(name: string, logits: Tensor, labels: Tensor, { weight, ignoreIndex }: ClassOptions) {
  const classes = logits.shape.at(-1) as number;
  checkTensorOptions(name, { weight });
  if (weight !== undefined && !sameShape(weight.shape, [classes]))
    throw new HeddleError("shape", `${name}: weight must be [${classes}], got ${formatType(weight)}`);
  if (ignoreIndex !== undefined) checkInteger(name, "ignoreIndex", ignoreIndex, -(2 ** 31), 2 ** 31 - 1);
  const given = toIndices(labels, { kind: "label", size: classes });
  const counts = ignoreIndex === undefined ? undefined : given.ne(ignoreIndex);
  const indices = counts === undefined ? given : select(counts, given, 0);
  const own = weight === undefined ? undefined : rowsById(weight.cast(logits.dtype), indices);
  return { counts, indices, weights: own };
}

/** Single losses of rows, those that do not count at 0, and their mean by weight. */
function ofRows(
  name: string,
  values: Tensor,
  { counts, weights }: Pick<ReturnType<typeof labelled>, "counts" | "weights">,
  options: LossOptions,
  names: readonly string[],
): Tensor {
  const kept = counts === undefined ? values : select(counts, values, 0);
  const mean = (): Tensor => {
    if (counts === undefined && weights === undefined) return kept.mean();
    const each = weights ?? counts?.cast(values.dtype);
    const total = counts === undefined || weights === undefined ? each : select(counts, weights, 0);
    return kept.sum().div((total as Tensor).sum());
  };
  return reduced(name, kept, options, names, mean);
}

function checkLabels(name: string, logits: Tensor, labels: Tensor): void {
  checkTensors(name, logits, labels);
  if (!isInteger(labels.dtype)) {
    throw new HeddleError("dtype", `${name}: labels must be integers, got ${formatType(labels)}`);
  }
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
    const { weight, labelSmoothing = 0 } = options;
    checkNumber(name, "labelSmoothing", labelSmoothing, 0, 1);
    const names = [...classNames, "labelSmoothing"];
    if (isFloat(labels.dtype) && sameShape(labels.shape, logits.shape))
      return withProbabilities(logits, labels, options, names);
    checkLabels(name, logits, labels);
    const rows = labelled(name, logits, labels, options);
    const single = crossEntropyOfRows(logits, rows.indices);
    const weighted = rows.weights === undefined ? single : single.mul(rows.weights);
    if (labelSmoothing === 0) return ofRows(name, weighted, rows, options, names);
    const all = logSoftmax(logits);
    const spread = (weight === undefined ? all : all.mul(weight.cast(logits.dtype))).sum(-1);
    const share = labelSmoothing / (logits.shape.at(-1) as number);
    return ofRows(name, weighted.mul(1 - labelSmoothing).sub(spread.mul(share)), rows, options, names);
  });
}

function withProbabilities(
  logits: Tensor,
  target: Tensor,
  options: CrossEntropyOptions,
  names: readonly string[],
): Tensor {
  const { weight, labelSmoothing = 0, ignoreIndex } = options;
  checkPair("softmaxCrossEntropy", logits, target);
  checkTensorOptions("softmaxCrossEntropy", { weight });
  if (ignoreIndex !== undefined)
    throw new HeddleError("option", "softmaxCrossEntropy: ignoreIndex needs integer labels, not probabilities");
  const share = labelSmoothing / (logits.shape.at(-1) as number);
  const smooth = labelSmoothing === 0 ? target : target.mul(1 - labelSmoothing).add(share);
  const single = logSoftmax(logits).mul(smooth);
  const values = (weight === undefined ? single : single.mul(weight.cast(logits.dtype))).sum(-1).neg();
  return reduced("softmaxCrossEntropy", values, options, names);
}

/**
 * Negative log-likelihood of labels, as PyTorch's `NLLLoss`: minus the logarithm of the label's probability.
 *
 * @param logProbabilities float `[rows…, classes]`, such as `logSoftmax` gives
 * @param labels integers `[rows…]`, each in `[0, classes)` or `ignoreIndex`
 */
export function nll(logProbabilities: Tensor, labels: Tensor, options: ClassOptions = {}): Tensor {
  return within("nll", () => {
    checkLabels("nll", logProbabilities, labels);
    if (!sameShape(labels.shape, logProbabilities.shape.slice(0, -1)))
      throw new HeddleError("shape", `nll: ${formatType(logProbabilities)} does not fit labels ${formatType(labels)}`);
    const rows = labelled("nll", logProbabilities, labels, options);
    const single = retold(
      "nll",
      ({ index, position, size }) => `label ${index} at row ${position} is outside [0, ${size})`,
      () => rowsById(logProbabilities, rows.indices, labels.shape.length).neg(),
    );
    return ofRows("nll", rows.weights === undefined ? single : single.mul(rows.weights), rows, options, classNames);
  });
}

/** Options of {@link binaryCrossEntropy}. */
export interface BinaryOptions extends LossOptions {
  /** A factor for each element, of a shape that broadcasts; default 1. */
  readonly weight?: Tensor;
}

/** The logarithm of a probability, not below -100; where it would be, with the slope that it has at 1e-12. */
function boundedLog(p: Tensor): Tensor {
  const zero = p.lt(Math.exp(-100));
  return select(zero, p.mul(1e12).sub(100), maximum(select(zero, 1, p).log(), -100));
}

/**
 * Cross-entropy of probabilities with targets in [0, 1], as PyTorch's `BCELoss`: logarithms are not below -100,
 * and have a slope there by which a wrong answer that is certain is still learned from. Where a model gives logits, {@link binaryCrossEntropyWithLogits} is more exact.
 * What is no probability gives NaN, where PyTorch stops the program.
 */
export function binaryCrossEntropy(output: Tensor, target: Tensor, options: BinaryOptions = {}): Tensor {
  return within("binaryCrossEntropy", () => {
    checkPair("binaryCrossEntropy", output, target);
    checkTensorOptions("binaryCrossEntropy", { weight: options.weight });
    const one = output.neg().add(1);
    const likelihood = target.mul(boundedLog(output)).add(target.neg().add(1).mul(boundedLog(one)));
    // Of a number below 0 or above 1 the formula makes an ordinary one, below 0 perhaps, which nobody would notice.
    const known = select(output.mul(one).lt(0), Number.NaN, likelihood.neg());
    const values = options.weight === undefined ? known : known.mul(options.weight);
    return reduced("binaryCrossEntropy", values, options, ["weight"]);
  });
}

/** Options of {@link binaryCrossEntropyWithLogits}. */
export interface BinaryLogitsOptions extends BinaryOptions {
  /** A factor for positive targets, of a shape that broadcasts: above 1 it raises recall. Default 1. */
  readonly posWeight?: Tensor;
  /** Share of each target that becomes one half, from 0 to 1; default 0. */
  readonly labelSmoothing?: number;
}

/**
 * Cross-entropy of sigmoid(logits) with probabilities in [0, 1], over all elements, without overflow, as PyTorch's
 * `BCEWithLogitsLoss`: `softplus(x) - x · target`.
 */
export function binaryCrossEntropyWithLogits(
  logits: Tensor,
  target: Tensor,
  options: BinaryLogitsOptions = {},
): Tensor {
  return within("binaryCrossEntropyWithLogits", () => {
    const name = "binaryCrossEntropyWithLogits";
    checkPair(name, logits, target);
    const { weight, posWeight, labelSmoothing = 0 } = options;
    checkTensorOptions(name, { weight, posWeight });
    checkNumber(name, "labelSmoothing", labelSmoothing, 0, 1);
    const smooth = labelSmoothing === 0 ? target : target.mul(1 - labelSmoothing).add(labelSmoothing / 2);
    const single =
      posWeight === undefined
        ? softplus(logits).sub(logits.mul(smooth))
        : logits.mul(smooth.neg().add(1)).add(softplus(logits.neg()).mul(posWeight.sub(1).mul(smooth).add(1)));
    const values = weight === undefined ? single : single.mul(weight);
    return reduced(name, values, options, ["weight", "posWeight", "labelSmoothing"]);
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
    const { margin = 1 } = options;
    checkNumber("hinge", "margin", margin);
    return reduced("hinge", target.mul(output).neg().add(margin).relu(), options, ["margin"]);
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
    const { margin = 1 } = options;
    checkNumber("hingeEmbedding", "margin", margin);
    const near = select(target.eq(1), output, 0);
    const far = select(target.eq(-1), output.neg().add(margin).relu(), 0);
    return reduced("hingeEmbedding", near.add(far), options, ["margin"]);
  });
}
