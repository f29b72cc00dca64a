/** @module Norms of vectors, with derivatives where all is 0 and without overflow on the way. */
import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, range, sizeOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import * as emit from "./emit.ts";

const { mul, select } = emit;

/** x over its largest size along `dims`, so that powers neither overflow nor vanish, and that size, with dims of 1. */
function byLargest(x: Node, dims: readonly number[]): readonly [scaled: Node, unit: Node] {
  const largest = emit.call("stopGradient", [emit.max(emit.abs(x), dims, { keepDims: true })]);
  const usable = emit.and(emit.isFinite(largest), emit.gt(largest, 0));
  const unit = select(usable, largest, 1);
  return [emit.div(x, emit.broadcastInDim(unit, x.shape, range(x.shape.length))), unit];
}

/** x to the power, for x >= 0; where x is 0 it is 0 in all derivatives, so that what follows does not meet 0 times infinity. */
export function powerOrZero(x: Node, exponent: number): Node {
  const zero = emit.eq(x, 0);
  const base = select(zero, 1, x);
  return select(zero, 0, exponent === 0.5 ? emit.sqrt(base) : emit.pow(base, exponent));
}

/** Of f64: the root of a sum of powers. The squares of narrower floats fit as they are. */
function rootOfSum(x: Node, dims: readonly number[], p: number, fits: boolean): Node {
  const [scaled, unit] = fits && p === 2 ? [x, undefined] : byLargest(x, dims);
  const powers = p === 2 ? mul(scaled, scaled) : powerOrZero(emit.abs(scaled), p);
  const root = powerOrZero(emit.sum(powers, dims, { keepDims: true }), 1 / p);
  return unit === undefined ? root : mul(unit, root);
}

/**
 * (Σ |x|^p)^(1/p) over `dims`, by default all; the largest size for p = Infinity. Where all numbers are 0, so is every derivative: of
 * the subgradients the one of least size. Narrower floats are computed in f64 and rounded once.
 *
 * @throws HeddleError `dtype` for what is no float, `argument` for a p that is not above 0.
 */
export function norm(x: Node, p = 2, over?: number | readonly number[], keepDims = false): Node {
  if (!isFloat(x.dtype)) throw new HeddleError("dtype", `norm: takes floats, got ${formatType(x)}`);
  if (!(p > 0)) throw new HeddleError("argument", `norm: p must be a number above 0 or Infinity, got ${p}`);
  const rank = x.shape.length;
  const dims = emit.resolveDims("norm", over ?? range(rank), rank);
  const empty = sizeOf(dims.map((dim) => x.shape[dim] as number)) === 0;
  const wide = emit.cast(x, "f64");
  const made =
    empty || p === 1
      ? emit.sum(emit.abs(wide), dims, { keepDims: true })
      : p === Number.POSITIVE_INFINITY
        ? emit.max(emit.abs(wide), dims, { keepDims: true })
        : rootOfSum(wide, dims, p, x.dtype !== "f64");
  const kept = made.shape.filter((_size, dim) => keepDims || !dims.includes(dim));
  return emit.cast(emit.reshape(made, kept), x.dtype);
}
