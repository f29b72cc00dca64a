/** @module Norms of vectors, with derivatives where all is 0 and without overflow on the way. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, range, sizeOf } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { powerOrZero } from "./nodes.ts";

const { mul, select } = ops;

/** x over its largest size along `dims`, so that powers neither overflow nor vanish, and that size, with dims of 1. */
function byLargest(x: Node, dims: readonly number[]): readonly [scaled: Node, unit: Node] {
  const largest = ops.call("stopGradient", [ops.max(ops.abs(x), dims, { keepDims: true })]);
  const usable = ops.and(ops.isFinite(largest), ops.gt(largest, 0));
  const unit = select(usable, largest, 1);
  return [ops.div(x, ops.broadcastInDim(unit, x.shape, range(x.shape.length))), unit];
}

/** Of f64: the root of a sum of powers. The squares of narrower floats fit as they are. */
function rootOfSum(x: Node, dims: readonly number[], p: number, fits: boolean): Node {
  const [scaled, unit] = fits && p === 2 ? [x, undefined] : byLargest(x, dims);
  const powers = p === 2 ? mul(scaled, scaled) : powerOrZero(ops.abs(scaled), p);
  const root = powerOrZero(ops.sum(powers, dims, { keepDims: true }), 1 / p);
  return unit === undefined ? root : mul(unit, root);
}

export function normNode(x: Node, p = 2, over?: number | readonly number[], keepDims = false): Node {
  if (!isFloat(x.dtype)) throw new HeddleError("dtype", `norm: takes floats, got ${formatType(x)}`);
  if (!(p > 0)) throw new HeddleError("argument", `norm: p must be a number above 0 or Infinity, got ${p}`);
  const rank = x.shape.length;
  const dims = ops.resolveDims("norm", over ?? range(rank), rank);
  const empty = sizeOf(dims.map((dim) => x.shape[dim] as number)) === 0;
  const wide = ops.cast(x, "f64");
  const made =
    empty || p === 1
      ? ops.sum(ops.abs(wide), dims, { keepDims: true })
      : p === Number.POSITIVE_INFINITY
        ? ops.max(ops.abs(wide), dims, { keepDims: true })
        : rootOfSum(wide, dims, p, x.dtype !== "f64");
  const kept = made.shape.filter((_size, dim) => keepDims || !dims.includes(dim));
  return ops.cast(ops.reshape(made, kept), x.dtype);
}

/** Options of {@link norm}. */
export interface NormOptions {
  /** The exponent, above 0; Infinity for the largest size; default 2. */
  readonly p?: number;
  /** The dims of a vector; default all. */
  readonly dims?: number | readonly number[];
  /** Whether these dims stay, with size 1; default false. */
  readonly keepDims?: boolean;
}

/**
 * (Σ |x|^p)^(1/p) of floats over `dims`, computed in f64 and rounded once. Where all numbers are 0, so are the derivatives, as in
 * PyTorch; a number whose power is beyond the dtype makes no infinity.
 *
 * @throws HeddleError `dtype` for what is no float, `argument` for a p that is not above 0.
 */
export function norm(x: Tensor, options: NormOptions = {}): Tensor {
  checkOptions("norm", options, ["p", "dims", "keepDims"]);
  return operate("norm", normNode, [x], options.p ?? 2, options.dims, options.keepDims ?? false);
}
