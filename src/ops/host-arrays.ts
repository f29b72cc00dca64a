/** @module Loops over strided host arrays, shared by the reference implementations. */
import { type DType, dtypes, type TypedArray } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { type Shape, sizeOf, stridesOf } from "../ir/shape.ts";

/** The larger number, or bigint; NaN wins. */
export const larger = (x: number, y: number): number => {
  if (typeof x === "bigint") return x > y ? x : y;
  return Number.isNaN(x) || Number.isNaN(y) ? Number.NaN : Math.max(x, y);
};

/** The smaller number, or bigint; NaN wins. */
export const smaller = (x: number, y: number): number => {
  if (typeof x === "bigint") return x < y ? x : y;
  return Number.isNaN(x) || Number.isNaN(y) ? Number.NaN : Math.min(x, y);
};

/** Calls `visit(linear, offset)` for each position of `shape` in row-major order; `offset` follows `strides`. */
export function eachOffset(
  shape: Shape,
  strides: readonly number[],
  start: number,
  visit: (linear: number, offset: number) => void,
): void {
  const size = sizeOf(shape);
  const rank = shape.length;
  const counter = new Int32Array(rank);
  let offset = start;
  for (let linear = 0; linear < size; linear++) {
    visit(linear, offset);
    for (let dim = rank - 1; dim >= 0; dim--) {
      offset += strides[dim] as number;
      if (++(counter[dim] as number) < (shape[dim] as number)) break;
      offset -= (strides[dim] as number) * (shape[dim] as number);
      counter[dim] = 0;
    }
  }
}

/** Copies a strided window into a fresh row-major array. */
export function gatherStrided(
  data: TypedArray,
  dtype: DType,
  shape: Shape,
  strides: readonly number[],
  start = 0,
): TypedArray {
  const out = dtypes[dtype].create(sizeOf(shape));
  const rank = shape.length;
  const [size, step] = rank === 0 ? [1, 0] : [shape[rank - 1] as number, strides[rank - 1] as number];
  // The inner loop walks the last dim, without a call for each element.
  eachOffset(shape.slice(0, -1), strides, start, (row, offset) => {
    for (let at = row * size, from = offset, end = at + size; at < end; at++, from += step) {
      out[at] = data[from] as number;
    }
  });
  return out;
}

/** The tensor with its dims in another order, as a fresh row-major array. */
export function permuted(tensor: HostTensor, order: readonly number[]): HostTensor {
  const strides = stridesOf(tensor.shape);
  const shape = order.map((dim) => tensor.shape[dim] as number);
  const data = gatherStrided(
    tensor.data,
    tensor.dtype,
    shape,
    order.map((dim) => strides[dim] as number),
  );
  return { dtype: tensor.dtype, shape, data };
}

/** The order that undoes `order`. */
export function inverseOrder(order: readonly number[]): number[] {
  const inverse = new Array<number>(order.length);
  order.forEach((from, to) => {
    inverse[from] = to;
  });
  return inverse;
}

/** Element `at` of dim 0. */
export function sliceOf({ dtype, shape, data }: HostTensor, at: number): HostTensor {
  const inner = shape.slice(1);
  const size = sizeOf(inner);
  return { dtype, shape: inner, data: data.slice(at * size, (at + 1) * size) };
}
