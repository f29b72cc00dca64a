/**
 * @module Losses: functions of a model's output and the target. By default a scalar, the mean over the batch; pass one
 * to `train` as it is, or with its reduction fixed: `(y, t) => losses.mse(y, t, { reduction: "sum" })`.
 */
import { isInteger } from "../ir/dtype.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import { softmaxCrossEntropy as crossEntropyOfRows, isTensor, log1p, type Tensor } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";

/** How the single losses are combined: their mean (default), their sum, or not at all. */
export type LossReduction = "mean" | "sum" | "none";

/** Options of every loss. */
export interface LossOptions {
  /** Default `"mean"`. */
  readonly reduction?: LossReduction;
}

/** What `train` takes as loss: a float scalar from a model's output and a target. */
export type Loss = (output: Tensor, target: Tensor) => Tensor;

function reduced(name: string, values: Tensor, options: LossOptions): Tensor {
  checkOptions(name, options, ["reduction"]);
  const { reduction = "mean" } = options;
  switch (reduction) {
    case "mean":
      return values.mean();
    case "sum":
      return values.sum();
    case "none":
      return values;
    default:
      throw new HeddleError("option", `${name}: reduction must be mean, sum or none, got ${String(reduction)}`);
  }
}

function checkTensors(name: string, output: unknown, target: unknown): void {
  if (isTensor(output) && isTensor(target)) return;
  throw new HeddleError("argument", `${name}: takes output and target, got ${shown(output)} and ${shown(target)}`);
}

/** Throws unless output and target have one shape; broadcasting here is a mistake nearly always. */
function checkPair(name: string, output: Tensor, target: Tensor): void {
  checkTensors(name, output, target);
  if (sameShape(output.shape, target.shape) && output.dtype === target.dtype) return;
  const what = sameShape(output.shape, target.shape) ? "dtype" : "shape";
  throw new HeddleError(
    what,
    `${name}: output ${formatType(output)} and target ${formatType(target)} must have one ${what}`,
    {
      hint: what === "dtype" ? "cast one of them" : "reshape one of them",
    },
  );
}

/**
 * Cross-entropy of softmax(logits) with integer labels.
 *
 * @param logits float `[rows…, classes]`
 * @param labels integer `[rows…]`, each in `[0, classes)`
 * @returns a scalar, or `[rows…]` with reduction `"none"`
 */
export function softmaxCrossEntropy(logits: Tensor, labels: Tensor, options: LossOptions = {}): Tensor {
  checkTensors("softmaxCrossEntropy", logits, labels);
  if (!isInteger(labels.dtype)) {
    throw new HeddleError("dtype", `softmaxCrossEntropy: labels must be integers, got ${formatType(labels)}`);
  }
  return reduced("softmaxCrossEntropy", crossEntropyOfRows(logits, labels.cast("i32")), options);
}

/** Squared error, `(output - target)²`, over all elements; elementwise with reduction `"none"`. */
export function mse(output: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  checkPair("mse", output, target);
  const difference = output.sub(target);
  return reduced("mse", difference.mul(difference), options);
}

/** Absolute error, `|output - target|`, over all elements; elementwise with reduction `"none"`. */
export function l1(output: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  checkPair("l1", output, target);
  return reduced("l1", output.sub(target).abs(), options);
}

/**
 * Cross-entropy of sigmoid(logits) with probabilities in [0, 1], over all elements, without overflow:
 * `max(x, 0) - x·target + log1p(exp(-|x|))`.
 */
export function binaryCrossEntropyWithLogits(logits: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  checkPair("binaryCrossEntropyWithLogits", logits, target);
  const values = logits.relu().sub(logits.mul(target)).add(log1p(logits.abs().neg().exp()));
  return reduced("binaryCrossEntropyWithLogits", values, options);
}
