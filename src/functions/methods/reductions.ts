/** @module Sums, means and the like over dims. */

import { type DType, isFloat } from "../../ir/dtype.ts";
import type { Node } from "../../ir/node.ts";
import * as ops from "../../ops/index.ts";
import { checkWhole, checkWide } from "../../tensor/arguments.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { checkOptions } from "../../util/options.ts";

/** Dims to reduce over: one, some; all where none are given. */
export type Dims = number | readonly number[];
/** Options of reductions. */
export interface ReduceOptions {
  /** Reduced dims stay as size 1; default false. */
  readonly keepDims?: boolean;
}

/** Options of sums, products and means. */
export interface SumOptions extends ReduceOptions, WideOptions {}
/** In what sums and products are made. */
export interface WideOptions {
  /** The dtype of the result, to which elements are cast before; default that of x. */
  readonly dtype?: DType;
}

function argMinNode(x: Node, dim = -1): Node {
  // The bits of integers turned around turn their order around, where their negatives may not exist.
  return ops.argMax(isFloat(x.dtype) ? ops.neg(x) : ops.not(x), dim);
}

const allNode = (x: Node, dims?: ops.Dims, options?: { keepDims?: boolean }): Node =>
  ops.reduce("and", ops.cast(x, "bool"), dims, options);

const anyNode = (x: Node, dims?: ops.Dims, options?: { keepDims?: boolean }): Node =>
  ops.reduce("or", ops.cast(x, "bool"), dims, options);

function reduction(
  name: string,
  build: (x: Node, dims?: Dims, options?: ReduceOptions) => Node,
  x: Tensor,
  dims: Dims | undefined,
  options: ReduceOptions | undefined,
): Tensor {
  if (dims !== undefined) checkWhole(name, "dims", dims, true);
  if (options !== undefined) checkOptions(name, options, ["keepDims"]);
  return operate(name, build, [x], dims, options);
}

/** A reduction that can be told in what dtype to combine. */
function wideReduction(
  name: string,
  build: (x: Node, dims?: Dims, options?: ReduceOptions) => Node,
  x: Tensor,
  dims: Dims | undefined,
  options: SumOptions = {},
): Tensor {
  if (dims !== undefined) checkWhole(name, "dims", dims, true);
  checkOptions(name, options, ["keepDims", "dtype"]);
  const { dtype, ...rest } = options;
  checkWide(name, dtype);
  const wide = (node: Node, over?: Dims, given?: ReduceOptions, wanted?: DType): Node =>
    build(wanted === undefined ? node : ops.cast(node, wanted), over, given);
  return operate(name, wide, [x], dims, rest, dtype);
}

/**
 * Sum over `dims` (default all), which are removed, or stay as size 1 with `keepDims`; 0 where there are no elements.
 * Integers keep their dtype and wrap: 200 + 100 in u8 is 44, and `{ dtype: "i32" }` adds in i32. 16-bit floats are added in
 * f32 and rounded once. Of bool it is the count of what is true, in i32.
 *
 * @throws HeddleError `dtype` for `{ dtype: "bool" }`.
 */
export const sum = (x: Tensor, dims?: Dims, options?: SumOptions): Tensor =>
  wideReduction("sum", ops.sum, x, dims, options);
/**
 * Mean over `dims` (default all), which are removed, or stay as size 1 with `keepDims`; NaN where there are no elements.
 * Integers and bool give f32; 16-bit floats are added and divided in f32. `dtype`: another float dtype, in which it is made.
 */
export const mean = (x: Tensor, dims?: Dims, options?: SumOptions): Tensor =>
  wideReduction("mean", ops.mean, x, dims, options);
/**
 * Largest element over `dims` (default all), which are removed, or stay as size 1 with `keepDims`. NaN wins; ties share the
 * gradient. Not defined for bool, and a HeddleError `shape` where there are no elements.
 */
export const max = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  reduction("max", ops.max, x, dims, options);
/**
 * Smallest element over `dims` (default all), which are removed, or stay as size 1 with `keepDims`. NaN wins; ties share the
 * gradient. Not defined for bool, and a HeddleError `shape` where there are no elements.
 */
export const min = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  reduction("min", ops.min, x, dims, options);
/** Index (i32) of the largest element along a dim (default the last): the first of ties, the first NaN. */
export const argMax = (x: Tensor, dim?: number): Tensor => operate("argMax", ops.argMax, [x], dim);
/**
 * Product over dims (default all); integers wrap, or are multiplied in `{ dtype }`; of nothing 1; of bool, 1 where all are
 * true, else 0, in i32.
 */
export const prod = (x: Tensor, dims?: Dims, options?: SumOptions): Tensor =>
  wideReduction("prod", ops.prod, x, dims, options);
/** Whether all elements over dims (default all) are true, or not 0. */
export const all = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  reduction("all", allNode, x, dims, options);
/** Whether any element over dims (default all) is true, or not 0. */
export const any = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  reduction("any", anyNode, x, dims, options);
/** Index (i32) of the smallest element along a dim (default the last): the first of ties, the first NaN. */
export const argMin = (x: Tensor, dim?: number): Tensor => operate("argMin", argMinNode, [x], dim);
