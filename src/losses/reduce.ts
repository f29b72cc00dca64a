/** @module What all losses share: checks of their tensors, and the way single losses are combined. */
import { formatType, sameShape } from "../ir/shape.ts";
import { isTensor, type Tensor } from "../tensor/index.ts";
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

/**
 * What `train` takes as loss: a float scalar from a model's output and a target. Where rows have weights it is asked for
 * `{ reduction: "none" }`; functions that know no options are then applied row by row.
 */
export type Loss = (output: Tensor, target: Tensor, options?: LossOptions) => Tensor;

/**
 * Checks the options' names, and combines single losses.
 *
 * @param mean how to take the mean, where it is not that of all
 */
export function reduced(
  name: string,
  values: Tensor,
  options: LossOptions,
  more: readonly string[] = [],
  mean: () => Tensor = () => values.mean(),
): Tensor {
  checkOptions(name, options, ["reduction", ...more]);
  const { reduction = "mean" } = options;
  switch (reduction) {
    case "mean":
      return mean();
    case "sum":
      return values.sum();
    case "none":
      return values;
    default:
      throw new HeddleError("option", `${name}: reduction must be mean, sum or none, got ${String(reduction)}`);
  }
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
