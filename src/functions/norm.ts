/** @module Norms of vectors, with derivatives at 0 and without overflow on the way. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, range, sizeOf } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { powerOrZero } from "./nodes.ts";

const { mul, select } = ops;

/** x divided by its largest absolute value along `dims`, so that powers neither overflow nor vanish, and that value. */
function byLargest(x: Node, dims: readonly number[]): readonly [scaled: Node, unit: Node] {
  const largest = ops.call("stopGradient", [ops.max(ops.abs(x), dims, { keepDims: true })]);
  const usable = ops.and(ops.isFinite(largest), ops.gt(largest, 0));
  const unit = select(usable, largest, 1);
  return [ops.div(x, ops.broadcastInDim(unit, x.shape, range(x.shape.length))), unit];
}

/** The p-th root of the sum of |x|^p, of f64. With `fits`, squares need no scaling: x was a narrower float. */
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
  const norms =
    empty || p === 1
      ? ops.sum(ops.abs(wide), dims, { keepDims: true })
      : p === Number.POSITIVE_INFINITY
        ? ops.max(ops.abs(wide), dims, { keepDims: true })
        : rootOfSum(wide, dims, p, x.dtype !== "f64");
  const outShape = norms.shape.filter((_size, dim) => keepDims || !dims.includes(dim));
  return ops.cast(ops.reshape(norms, outShape), x.dtype);
}

/** Options of {@link norm}. */
export interface NormOptions {
  /** The exponent, above 0; Infinity for the largest absolute value; default 2. */
  readonly p?: number;
  /** The dims of a vector; default all. */
  readonly dims?: number | readonly number[];
  /** Whether these dims stay, with size 1; default false. */
  readonly keepDims?: boolean;
}

/**
 * (Σ |x|^p)^(1/p) of floats over `dims`, computed in f64 and rounded once. The derivatives are 0 if all numbers are 0, as in
 * PyTorch. A number whose power is beyond the dtype does not give infinity.
 *
 * @throws HeddleError `dtype` unless x is float; `argument` for a p that is not above 0; `shape` for a dim that is out of range.
 */
export function norm(x: Tensor, options: NormOptions = {}): Tensor {
  checkOptions("norm", options, ["p", "dims", "keepDims"]);
  return operate("norm", normNode, [x], options.p ?? 2, options.dims, options.keepDims ?? false);
}
