/** @module Sorting, the k largest elements, and quantiles. */

import { isFloat } from "../../ir/dtype.ts";
import type { Node } from "../../ir/node.ts";
import { formatType, normalizeDim, otherDims } from "../../ir/shape.ts";
import * as ops from "../../ops/index.ts";
import { operate, operateAll, type Tensor } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import type { ReduceOptions } from "./reductions.ts";

/** Options of {@link sort} and {@link argsort}. */
export interface SortOptions {
  /** Whether the largest element comes first; default false. NaN is above all numbers: last, or first when descending. */
  readonly descending?: boolean;
}

/**
 * The elements of x in order along a dim (default the last), any dtype, stable; -0 and 0 are equal. The gradient moves cotangents
 * back to where the elements were.
 */
export function sort(x: Tensor, dim = -1, options: SortOptions = {}): Tensor {
  checkOptions("sort", options, ["descending"]);
  return operate("sort", ops.sort, [x], dim, options);
}

/** Indices (i32) that sort x along a dim (default the last), stable. */
export function argsort(x: Tensor, dim = -1, options: SortOptions = {}): Tensor {
  checkOptions("argsort", options, ["descending"]);
  return operate("argsort", ops.argsort, [x], dim, options);
}

/**
 * The k largest elements along a dim (default the last), from the largest on, and their indices (i32). Equal elements come in order
 * of their indices; NaN is above all numbers. The gradient by the values goes to the elements that were taken.
 *
 * @throws HeddleError `option` for a k that is not a whole number from 0 on; `shape` if k is above the size of the dim.
 */
export function topK(x: Tensor, k: number, dim = -1): { readonly values: Tensor; readonly indices: Tensor } {
  checkInteger("topK", "k", k, 0);
  const [values, indices] = operateAll("topK", ops.topK, [x], k, dim) as [Tensor, Tensor];
  return { values, indices };
}

function quantileNode(x: Node, share: number, dim = -1, options: { keepDims?: boolean } = {}): Node {
  const at = normalizeDim(dim, x.shape.length, "quantile");
  const size = x.shape[at] as number;
  if (!(share >= 0 && share <= 1)) throw new HeddleError("argument", `quantile: ${share} is not from 0 to 1`);
  if (!isFloat(x.dtype)) throw new HeddleError("dtype", `quantile: not defined for ${formatType(x)}`);
  if (size === 0) throw new HeddleError("shape", `quantile: there are no elements along dim ${at} of ${formatType(x)}`);
  const sorted = ops.sort(x, at);
  const element = (index: number): Node =>
    ops.slice(
      sorted,
      sorted.shape.map((_size, other) => (other === at ? index : 0)),
      sorted.shape.map((length, other) => (other === at ? index + 1 : length)),
    );
  const position = share * (size - 1);
  const [low, high] = [Math.floor(position), Math.ceil(position)];
  const part = position - low;
  const value = low === high ? element(low) : ops.add(ops.mul(element(low), 1 - part), ops.mul(element(high), part));
  const last = element(size - 1);
  const result = ops.select(ops.isNaN(last), last, value);
  return options.keepDims === true
    ? result
    : ops.reshape(
        result,
        otherDims(x.shape.length, [at]).map((keptDim) => x.shape[keptDim] as number),
      );
}

const medianNode = (x: Node, dim = -1, options: { keepDims?: boolean } = {}): Node =>
  quantileNode(x, 0.5, dim, options);

/** The middle element of floats along a dim (default the last), or the mean of the two middle ones; NaN if an element is NaN. */
export function median(x: Tensor, dim = -1, options: ReduceOptions = {}): Tensor {
  checkOptions("median", options, ["keepDims"]);
  return operate("median", medianNode, [x], dim, options);
}

/**
 * The value below which a share from 0 to 1 of the floats along a dim (default the last) lies, interpolated between two elements
 * (NumPy's `linear`); NaN if an element is NaN.
 *
 * @throws HeddleError `argument` for another share; `dtype` unless x is float; `shape` for a dim without elements
 */
export function quantile(x: Tensor, share: number, dim = -1, options: ReduceOptions = {}): Tensor {
  checkOptions("quantile", options, ["keepDims"]);
  return operate("quantile", quantileNode, [x], share, dim, options);
}
