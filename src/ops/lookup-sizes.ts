/** @module Sizes and scratch of kernels that look rows up by index. */
import { dtypes, isFloat } from "../ir/dtype.ts";
import type { KernelContext, Ref } from "../ir/kernel.ts";
import type { Attrs } from "../ir/node.ts";
import { type Shape, sizeOf, type TensorType } from "../ir/shape.ts";

/** Sizes as the kernels take them: [outer, size, inner] and [outer, count]. */
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

/** Up to this many positions, native kernels add rows without scratch (`row_walk.rs`). */
const withoutScratch = 1 << 8;

/** Scratch for the rounding errors of sums of floats over many positions. */
export function sumScratch(
  context: Pick<KernelContext<Attrs>, "scratch">,
  { dtype, shape }: TensorType,
  { size, count }: { readonly size: number; readonly count: number },
): { readonly scratch?: Ref } {
  if (!isFloat(dtype) || count <= Math.max(withoutScratch, size)) return {};
  return { scratch: context.scratch(sizeOf(shape) * dtypes[dtype].bytes) };
}
