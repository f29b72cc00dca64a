/** @module Sorting and Fourier transforms of tensors. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, normalizeDim, otherDims } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { operate, operateAll, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { ReduceOptions } from "./reductions.ts";

/** Options of {@link sort} and {@link argsort}. */
export interface SortOptions {
  /** From the largest on; default false. NaN is above all numbers: last, or first when descending. */
  readonly descending?: boolean;
}

/** The elements of x in order along a dim (default the last), any dtype, stable: -0 and 0 stay as they stand. Its gradient puts cotangents back in place. */
export function sort(x: Tensor, dim = -1, options: SortOptions = {}): Tensor {
  checkOptions("sort", options, ["descending"]);
  return operate("sort", ops.sort, [x], dim, options);
}

/** Tensors of one shape in the order of the first one's elements along a dim (default the last), stable. */
export function sortTogether(inputs: readonly Tensor[], dim = -1, options: SortOptions = {}): Tensor[] {
  if (!Array.isArray(inputs))
    throw new HeddleError("argument", `sortTogether: takes an array of tensors, got ${shown(inputs)}`);
  checkOptions("sortTogether", options, ["descending"]);
  const build = (...given: unknown[]) =>
    ops.sortTogether(
      given.slice(0, inputs.length) as Parameters<typeof ops.sortTogether>[0],
      given[inputs.length] as number,
      given[inputs.length + 1] as SortOptions,
    );
  return operateAll("sortTogether", build, inputs, dim, options);
}

/** Indices (i32) that sort x along a dim (default the last), stable. */
export function argsort(x: Tensor, dim = -1, options: SortOptions = {}): Tensor {
  checkOptions("argsort", options, ["descending"]);
  return operate("argsort", ops.argsort, [x], dim, options);
}

/**
 * The k largest elements along a dim (default the last), from the largest on, and their indices (i32); of equal ones the
 * lowest index first, NaN above all numbers. The gradient by the values goes to where they were.
 *
 * @throws HeddleError `shape` when k is above the size of the dim.
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
  const place = share * (size - 1);
  const [low, high] = [Math.floor(place), Math.ceil(place)];
  const part = place - low;
  const value = low === high ? element(low) : ops.add(ops.mul(element(low), 1 - part), ops.mul(element(high), part));
  const last = element(size - 1);
  const result = ops.select(ops.isNaN(last), last, value);
  return options.keepDims === true
    ? result
    : ops.reshape(
        result,
        otherDims(x.shape.length, [at]).map((kept) => x.shape[kept] as number),
      );
}

const medianNode = (x: Node, dim = -1, options: { keepDims?: boolean } = {}): Node =>
  quantileNode(x, 0.5, dim, options);

/** The middle element of floats along a dim (default the last), or the mean of the two; NaN if one is NaN. */
export function median(x: Tensor, dim = -1, options: ReduceOptions = {}): Tensor {
  checkOptions("median", options, ["keepDims"]);
  return operate("median", medianNode, [x], dim, options);
}

/** The value below which a share from 0 to 1 of the floats along a dim lies, between two by line (NumPy's `linear`); NaN if one is NaN. */
export function quantile(x: Tensor, share: number, dim = -1, options: ReduceOptions = {}): Tensor {
  checkOptions("quantile", options, ["keepDims"]);
  return operate("quantile", quantileNode, [x], share, dim, options);
}

/**
 * Fourier transform over the last `dims` (1 to 3) dims of a complex tensor [..., n, 2]: the last dim holds the real and the
 * imaginary parts, as PyTorch's `view_as_real` has them. Sum of x[j] exp(-2 pi i j k / n), without a factor; f32 or f64.
 */
export const fft = (x: Tensor, dims = 1): Tensor => operate("fft", ops.fft, [x], dims);
/** The inverse of {@link fft}, over the number of points. */
export const ifft = (x: Tensor, dims = 1): Tensor => operate("ifft", ops.ifft, [x], dims);
/** {@link fft} of a real tensor [..., n]: the first n / 2 + 1 values of the last dim as a complex tensor; the others are their mirror image. */
export const rfft = (x: Tensor, dims = 1): Tensor => operate("rfft", ops.rfft, [x], dims);
/** The inverse of {@link rfft}, of a complex tensor [..., n / 2 + 1, 2] to a real one whose last size is `last` (default the even one). */
export const irfft = (x: Tensor, last?: number, dims = 1): Tensor => operate("irfft", ops.irfft, [x], last, dims);
