/** @module Variance and standard deviation. */

import { isFloat } from "../../ir/dtype.ts";
import type { Node } from "../../ir/node.ts";
import * as ops from "../../ops/index.ts";
import { checkWhole } from "../../tensor/arguments.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { momentsNode } from "../composites/normalize.ts";
import { powerOrZero } from "../nodes.ts";
import type { Dims, ReduceOptions } from "./reductions.ts";

/** Options of {@link variance} and {@link std}. */
export interface VarianceOptions extends ReduceOptions {
  /** Subtracted from the count that the sum of squares is divided by; default 0, as in NumPy and JAX. PyTorch's default is 1. */
  readonly correction?: number;
}

/** The variance in at least f32, its dims kept or not. */
function varianceNode(x: Node, dims: Dims | undefined, correction: number, keepDims: boolean): Node {
  const over = ops.resolveDims("variance", dims, x.shape.length);
  const count = over.reduce((product, dim) => product * (x.shape[dim] as number), 1);
  const { variance } = momentsNode(isFloat(x.dtype) ? x : ops.cast(x, "f32"), over);
  // If nothing is left to divide by, 0 / 0 is NaN, as in NumPy.
  const scaled = correction === 0 ? variance : ops.mul(variance, count / Math.max(0, count - correction));
  return keepDims
    ? scaled
    : ops.reshape(
        scaled,
        x.shape.filter((_size, dim) => !over.includes(dim)),
      );
}

function spread(name: "variance" | "std", x: Tensor, dims: Dims | undefined, options: VarianceOptions): Tensor {
  if (dims !== undefined) checkWhole(name, "dims", dims, true);
  checkOptions(name, options, ["keepDims", "correction"]);
  const { keepDims = false, correction = 0 } = options;
  checkInteger(name, "correction", correction, 0);
  const build = (node: Node, over: Dims | undefined, less: number, keep: boolean): Node => {
    const wide = varianceNode(node, over, less, keep);
    return ops.cast(name === "std" ? powerOrZero(wide, 0.5) : wide, isFloat(node.dtype) ? node.dtype : "f32");
  };
  return operate(name, build, [x], dims, correction, keepDims);
}

/**
 * Variance over `dims` (default all), which are removed, or stay as size 1 with `keepDims`: the mean of squared distances from the
 * mean, exact also for values far from 0. NaN unless there are more elements than `correction`. Integers and bool give f32; 16-bit
 * floats are computed in f32.
 *
 * @throws HeddleError `option` for a correction that is not a whole number from 0 on; `shape` for a dim that is out of range
 */
export const variance = (x: Tensor, dims?: Dims, options: VarianceOptions = {}): Tensor =>
  spread("variance", x, dims, options);

/** Standard deviation: the root of {@link variance}, with the same options. If it is 0, so is the gradient, as in PyTorch. */
export const std = (x: Tensor, dims?: Dims, options: VarianceOptions = {}): Tensor => spread("std", x, dims, options);
