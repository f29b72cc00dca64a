/** @module Sizes and scratch of kernels that look rows up by index. */
import { dtypes, isFloat } from "../ir/dtype.ts";
import type { KernelContext, Ref } from "../ir/kernel.ts";
import type { Attrs } from "../ir/node.ts";
import { type Shape, sizeOf, type TensorType } from "../ir/shape.ts";

/** Sizes as the kernels see them: [outer, size, inner] and [outer, count]. */
export function lookupSizes(
  shape: Shape,
  indices: Shape,
  batchDims: number,
): { outer: number; size: number; inner: number; count: number } {
  return {
    outer: sizeOf(shape.slice(0, batchDims)),
    size: shape[batchDims] as number,
    inner: sizeOf(shape.slice(batchDims + 1)),
    count: sizeOf(indices.slice(batchDims)),
  };
}

/** Positions whose rows native kernels add one after another, and nothing more: see the kernels' `row_walk.rs`. */
const plain = 1 << 8;

/** Room for what roundings lose, where floats of many positions are added up. */
export function sumScratch(
  context: Pick<KernelContext<Attrs>, "scratch">,
  { dtype, shape }: TensorType,
  { size, count }: { readonly size: number; readonly count: number },
): { readonly scratch?: Ref } {
  if (!isFloat(dtype) || count <= Math.max(plain, size)) return {};
  return { scratch: context.scratch(sizeOf(shape) * dtypes[dtype].bytes) };
}
