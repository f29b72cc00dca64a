/** @module What all losses share: checks of their tensors, and the way single losses are combined. */

import { isTensor, type Tensor } from "../functions/index.ts";
import { inFloat32 } from "../functions/wide.ts";
import { mulNoNan } from "../functions/zero-terms.ts";
import { formatType, sameShape } from "../ir/shape.ts";
import { HeddleError, within } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { divisor } from "./divisors.ts";

/** How the single losses are combined: their mean (default), their sum, or not at all. */
export type LossReduction = "mean" | "sum" | "none";

/** Options of every loss. */
export interface LossOptions {
  /** Default `"mean"`. */
  readonly reduction?: LossReduction;
}

/**
 * What `train` takes as loss: a float scalar from a model's output and a target. Where rows have weights it is asked for
 * `{ reduction: "none" }`; functions that know no options are then applied row by row.
 */
export type Loss = (output: Tensor, target: Tensor, options?: LossOptions) => Tensor;

/** Single losses, and how their mean is taken where it is not that of all of them. */
export interface SingleLosses {
  /** What is summed. */
  readonly values: Tensor;
  /** What counts: a mean is the sum over the sum of these. */
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
    const made = single(...wide);
    const losses = isTensor(made) ? { values: made } : made;
    return reduction === "none" ? losses.values : reduction === "sum" ? losses.values.sum() : meanOf(losses);
  });
}

const meanOf = ({ values, weights, mean }: SingleLosses): Tensor =>
  mean?.() ?? (weights === undefined ? values.mean() : values.sum().div(divisor(weights.sum())));

/**
 * The mean of values by weights, `Σ weight · value / Σ weight`; NaN where all weights are 0. A value whose weight is 0 counts nothing,
 * also an infinite one. Where `train` accumulates over parts of a batch, the second sum is that of the whole batch: a loss with
 * a mask of its own gives the same step in however many parts.
 *
 * @param weights of a shape that broadcasts to that of the values; bool counts as 0 and 1
 * @example (y, t) => losses.weightedMean(y.sub(t).abs(), t.ne(0))
 * @throws HeddleError `shape` when the weights do not broadcast to the values
 */
export function weightedMean(values: Tensor, weights: Tensor): Tensor {
  return within("weightedMean", () => {
    checkTensors("weightedMean", values, weights);
    const spread = weights.cast(values.dtype).broadcastTo(values.shape);
    return inFloat32([values, spread], (x, w) => meanOf({ values: mulNoNan(w, x), weights: w }));
  });
}

/** @throws HeddleError `argument` unless both are tensors. */
export function checkTensors(name: string, output: unknown, target: unknown): void {
  if (isTensor(output) && isTensor(target)) return;
  throw new HeddleError("argument", `${name}: takes output and target, got ${shown(output)} and ${shown(target)}`);
}

/** @throws HeddleError `option` for options that are there, but no tensors. */
export function checkTensorOptions(name: string, options: { readonly [option: string]: unknown }): void {
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined || isTensor(value)) continue;
    throw new HeddleError("option", `${name}: ${option} must be a tensor, got ${shown(value)}`);
  }
}

/** Throws unless output and target have one shape and dtype; broadcasting here is a mistake nearly always. */
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
