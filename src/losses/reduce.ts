/** @module Shared by all losses: checks of tensors, and the reduction of single losses. */
import { isTensor, type Tensor } from "../functions/index.ts";
import { inFloat32 } from "../functions/wide.ts";
import { mulNoNan } from "../functions/zero-terms.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { divisor } from "./divisors.ts";

/** The reduction of single losses: their mean (default), their sum, or none. */
export type LossReduction = "mean" | "sum" | "none";

/** Options of every loss. */
export interface LossOptions {
  /** Default `"mean"`. */
  readonly reduction?: LossReduction;
}

/**
 * A loss for `train`: computes a float scalar from a model's output and a target. If rows have weights, it is called with
 * `{ reduction: "none" }`; a function without options is then applied row by row.
 */
export type Loss = (output: Tensor, target: Tensor, options?: LossOptions) => Tensor;

/** Single losses, and how to take their mean if it is not the plain mean. */
export interface SingleLosses {
  /** The single losses. */
  readonly values: Tensor;
  /** Weights: the mean is the sum of the values divided by the sum of the weights. */
  readonly weights?: Tensor | undefined;
  /** Any other mean. */
  readonly mean?: () => Tensor;
}

/**
 * Checks the options' names, computes single losses of `inputs` and combines them: 16-bit floats in f32, the result rounded once.
 *
 * @param more names of options besides those of every loss
 */
export function reduced<const Inputs extends readonly (Tensor | undefined)[]>(
  name: string,
  inputs: Inputs,
  options: LossOptions,
  single: (...wide: { -readonly [I in keyof Inputs]: Inputs[I] }) => Tensor | SingleLosses,
  more: readonly string[] = [],
): Tensor {
  checkOptions(name, options, ["reduction", ...more]);
  const { reduction = "mean" } = options;
  if (!["mean", "sum", "none"].includes(reduction))
    throw new HeddleError("option", `${name}: reduction must be mean, sum or none, got ${String(reduction)}`);
  return inFloat32(inputs, (...wide) => {
    const computed = single(...wide);
    const losses = isTensor(computed) ? { values: computed } : computed;
    return reduction === "none" ? losses.values : reduction === "sum" ? losses.values.sum() : meanOf(losses);
  });
}

const meanOf = ({ values, weights, mean }: SingleLosses): Tensor =>
  mean?.() ?? (weights === undefined ? values.mean() : values.sum().div(divisor(weights.sum())));

/**
 * The weighted mean, `Σ weight · value / Σ weight`; NaN if all weights are 0. A value of weight 0 does not count, even if it is
 * infinite. When `train` accumulates over parts of a batch, the divisor is the sum over the whole batch: a loss with a mask of its own
 * gives the same step in any number of parts.
 *
 * @param weights in a shape that broadcasts to the values; bool counts as 0 and 1
 * @example (y, t) => losses.weightedMean(y.sub(t).abs(), t.ne(0))
 * @throws HeddleError `shape` when the weights do not broadcast to the values
 */
export function weightedMean(values: Tensor, weights: Tensor): Tensor {
  return within("weightedMean", () => {
    checkTensors("weightedMean", values, weights);
    const broadcastWeights = weights.cast(values.dtype).broadcastTo(values.shape);
    return inFloat32([values, broadcastWeights], (x, w) => meanOf({ values: mulNoNan(w, x), weights: w }));
  });
}

/** @throws HeddleError `argument` unless both are tensors. */
export function checkTensors(name: string, output: unknown, target: unknown): void {
  if (isTensor(output) && isTensor(target)) return;
  throw new HeddleError("argument", `${name}: takes output and target, got ${shown(output)} and ${shown(target)}`);
}

/** @throws HeddleError `option` for an option that is not a tensor. */
export function checkTensorOptions(name: string, options: { readonly [option: string]: unknown }): void {
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined || isTensor(value)) continue;
    throw new HeddleError("option", `${name}: ${option} must be a tensor, got ${shown(value)}`);
  }
}

/** Throws unless output and target have one shape and dtype; broadcasting would nearly always be a mistake. */
export function checkPair(name: string, output: Tensor, target: Tensor): void {
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
