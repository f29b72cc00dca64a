/** @module Variance and what is made of it. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { checkWhole } from "../tensor/arguments.ts";
import { checkTensor, operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { momentsNode } from "./composites/normalize.ts";
import { expandDim, powerOrZero } from "./nodes.ts";
import { normNode } from "./norm.ts";
import type { Dims, ReduceOptions } from "./reductions.ts";

/** Options of {@link variance} and {@link std}. */
export interface VarianceOptions extends ReduceOptions {
  /** Taken off the count that squares are divided by; default 0, as in NumPy and JAX. PyTorch's default is 1. */
  readonly correction?: number;
}

/** The variance in at least f32, its dims kept or not. */
function varianceNode(x: Node, dims: Dims | undefined, correction: number, keepDims: boolean): Node {
  const over = ops.resolveDims("variance", dims, x.shape.length);
  const count = over.reduce((product, dim) => product * (x.shape[dim] as number), 1);
  const { variance } = momentsNode(isFloat(x.dtype) ? x : ops.cast(x, "f32"), over);
  // Nothing left to divide by gives 0 / 0, NaN, as in NumPy.
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
 * Variance over `dims` (default all), which are removed, or stay as size 1 with `keepDims`: the mean of squared distances from
 * the mean, which is exact also where values are far from 0. NaN where no more elements are than `correction`. Integers and
 * bool give f32; 16-bit floats are computed in f32.
 */
export const variance = (x: Tensor, dims?: Dims, options: VarianceOptions = {}): Tensor =>
  spread("variance", x, dims, options);
/** Standard deviation: the root of {@link variance}. Where that is 0, so is the gradient, as in PyTorch. */
export const std = (x: Tensor, dims?: Dims, options: VarianceOptions = {}): Tensor => spread("std", x, dims, options);

/** Options of {@link cov}. */
export interface CovOptions {
  /** Taken off the number of observations that products are divided by; default 1, as in NumPy and PyTorch. */
  readonly correction?: number;
}

/**
 * Covariances [n, n] of n variables, each a row of x [n, observations], as NumPy and PyTorch have them: of columns it is
 * `cov(x.transpose())`. Of a vector its variance. Integers give f32; 16-bit floats are computed in f32.
 *
 * @throws HeddleError `shape` unless x is a vector or a matrix
 */
export function cov(x: Tensor, options: CovOptions = {}): Tensor {
  checkTensor("cov", x);
  checkOptions("cov", options, ["correction"]);
  const { correction = 1 } = options;
  checkInteger("cov", "correction", correction, 0);
  if (x.shape.length !== 1 && x.shape.length !== 2)
    throw new HeddleError("shape", `cov: takes variables in the rows of a matrix, or one in a vector, got ${x}`);
  const build = (node: Node, less: number): Node => {
    const given = isFloat(node.dtype) ? node : ops.cast(node, "f32");
    return ops.inFloat32([given], (wide) => {
      const last = wide.shape.length - 1;
      const { mean } = momentsNode(wide, [last]);
      const rest = ops.sub(wide, mean);
      const products = ops.matmul(rest, last === 0 ? rest : ops.transpose(rest));
      const count = wide.shape[last] as number;
      return ops.div(products, Math.max(0, count - less));
    });
  };
  return operate("cov", build, [x], correction);
}

/** Options of {@link cdist}. */
export interface DistanceOptions {
  /** The exponent, above 0; 1 for the sum of sizes, Infinity for the largest; default 2. */
  readonly p?: number;
}

/**
 * Distances [..., n, m] between the rows of x [..., n, d] and those of y [..., m, d]: the {@link linalg.norm} of their differences,
 * which keeps the digits of near rows where the formula by products loses them. The gradient is 0 between equal rows.
 *
 * @throws HeddleError `shape` where the last sizes differ, `dtype` for what is no float, `argument` for a p that is not above 0
 */
export function cdist(x: Tensor, y: Tensor, options: DistanceOptions = {}): Tensor {
  checkOptions("cdist", options, ["p"]);
  for (const operand of [x, y]) checkTensor("cdist", operand);
  if (x.shape.length < 2 || y.shape.length < 2 || x.shape.at(-1) !== y.shape.at(-1))
    throw new HeddleError("shape", `cdist: takes rows of one length, got ${x} and ${y}`);
  const build = (left: Node, right: Node, p: number): Node => {
    const differences = ops.sub(expandDim(left, -2), expandDim(right, -3));
    return normNode(differences, p, [differences.shape.length - 1], false);
  };
  return operate("cdist", build, [x, y], options.p ?? 2);
}
