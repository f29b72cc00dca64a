/** @module Sums, means and other reductions over dims. */

import { type DType, isFloat } from "../../ir/dtype.ts";
import type { Node } from "../../ir/node.ts";
import * as ops from "../../ops/index.ts";
import { checkWhole, checkWide } from "../../tensor/arguments.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { checkOptions } from "../../util/options.ts";

/** Dims to reduce over: one or some; negative dims count from the end. */
export type Dims = number | readonly number[];
/** Options of reductions. */
export interface ReduceOptions {
  /** Reduced dims stay as size 1; default false. */
  readonly keepDims?: boolean;
}

/** Options of sums, products and means. */
export interface SumOptions extends ReduceOptions, WideOptions {}
/** The dtype in which sums and products are computed. */
export interface WideOptions {
  /** The dtype of the result, to which elements are cast first; default: the function says. */
  readonly dtype?: DType;
}

function argMinNode(x: Node, dim = -1): Node {
  // Inverted bits reverse the order of integers, whose negatives may not exist.
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

/** A reduction with an option for the dtype in which it combines. */
function wideReduction(
  name: string,
  build: (x: Node, dims?: Dims, options?: ReduceOptions) => Node,
  x: Tensor,
  dims: Dims | undefined,
  options: SumOptions = {},
): Tensor {
  if (dims !== undefined) checkWhole(name, "dims", dims, true);
  checkOptions(name, options, ["keepDims", "dtype"]);
  const { dtype, keepDims } = options;
  checkWide(name, dtype);
  const wide = (node: Node, over?: Dims, keepDims = false, wanted?: DType): Node =>
    build(wanted === undefined ? node : ops.cast(node, wanted), over, { keepDims });
  return operate(name, wide, [x], dims, keepDims, dtype);
}

/**
 * Sum over `dims` (default all), which are removed, or stay as size 1 with `keepDims`; a sum of no elements is 0. Integers keep their
 * dtype and wrap: 200 + 100 in u8 is 44, and `{ dtype: "i32" }` adds in i32. 16-bit floats are added in f32 and rounded once. A sum of
 * bool is the count of true, in i32.
 *
 * @throws HeddleError `dtype` for `{ dtype: "bool" }`; `shape` for a dim that is out of range or repeats.
 */
export const sum = (x: Tensor, dims?: Dims, options?: SumOptions): Tensor =>
  wideReduction("sum", ops.sum, x, dims, options);
/**
 * Mean over `dims` (default all), which are removed, or stay as size 1 with `keepDims`; NaN without elements. Integers and bool give
 * f32; 16-bit floats are added and divided in f32. `dtype` names another float dtype for the computation.
 */
export const mean = (x: Tensor, dims?: Dims, options?: SumOptions): Tensor =>
  wideReduction("mean", ops.mean, x, dims, options);
/**
 * Largest element over `dims` (default all), which are removed, or stay as size 1 with `keepDims`. NaN wins; ties share the
 * gradient. @throws HeddleError `dtype` for bool, `shape` without elements.
 */
export const max = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  reduction("max", ops.max, x, dims, options);
/**
 * Smallest element over `dims` (default all), which are removed, or stay as size 1 with `keepDims`. NaN wins; ties share the
 * gradient. @throws HeddleError `dtype` for bool, `shape` without elements.
 */
export const min = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  reduction("min", ops.min, x, dims, options);
/** Index (i32) of the largest element along a dim (default the last): the first of ties, the first NaN. */
export const argMax = (x: Tensor, dim?: number): Tensor => operate("argMax", ops.argMax, [x], dim);
/**
 * Product over dims (default all), which are removed, or stay as size 1 with `keepDims`; a product of no elements is 1. Integers wrap,
 * or are multiplied in `{ dtype }`; bool gives 1 if all are true, else 0, in i32.
 */
export const prod = (x: Tensor, dims?: Dims, options?: SumOptions): Tensor =>
  wideReduction("prod", ops.prod, x, dims, options);
/** Whether all elements over dims (default all) are true, or not 0; bool. Options as {@link max}. */
export const all = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  reduction("all", allNode, x, dims, options);
/** Whether any element over dims (default all) is true, or not 0; bool. Options as {@link max}. */
export const any = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor =>
  reduction("any", anyNode, x, dims, options);
/** Index (i32) of the smallest element along a dim (default the last): the first of ties, the first NaN. */
export const argMin = (x: Tensor, dim?: number): Tensor => operate("argMin", argMinNode, [x], dim);
