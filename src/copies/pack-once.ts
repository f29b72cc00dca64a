/**
 * @module What a loop does not change is packed once, before the loop: the right side of a product of few rows, which the product would
 * otherwise copy in each iteration.
 */
import { type DType, dtypes, isFloat } from "../ir/dtype.ts";
import { type KernelCall, Ref, type View } from "../ir/kernel.ts";
import type { TensorType } from "../ir/shape.ts";
import { dot, fused } from "../kernels/index.ts";

interface Product {
  readonly dtype: DType;
  readonly b: number;
  readonly m: number;
  readonly k2: number;
  readonly n: number;
  readonly y: { readonly at: Ref; readonly strides: readonly number[] };
}

/** More rows copy their right side in any case. */
const mostRows = 56;
/** Iterations that pay for the copy. */
const leastIterations = 4;
/** Rows so many bytes apart share a few places of a cache, so each gets another line. */
const sharing = 2048;
const line = 64;

/**
 * The calls of a loop's body, with copies in the place of right sides whose rows have gaps, and the calls that make the copies.
 *
 * @param isConstant whether the loop leaves a piece of memory as it is
 * @param make makes memory for a copy
 */
export function packOnce(
  calls: readonly KernelCall[],
  iterations: number,
  isConstant: (memory: object) => boolean,
  make: (type: TensorType) => View,
): { readonly calls: readonly KernelCall[]; readonly before: readonly KernelCall[] } {
  const before: KernelCall[] = [];
  const packed = (call: KernelCall): KernelCall => {
    if (call.k !== dot.name || iterations < leastIterations) return call;
    const { dtype, b, m, k2, n, y } = call as unknown as Product;
    const [, down, across] = y.strides as [number, number, number];
    const isTurned = down === 1 && across !== 1 && k2 > 1 && n > 1 && b === 1;
    if (!isTurned || m === 1 || m > mostRows || !isFloat(dtype) || !isConstant(y.at.origin)) return call;
    const { bytes } = dtypes[dtype];
    const row = (n * bytes) % sharing === 0 ? n + line / bytes : n;
    const at = new Ref(make({ dtype, shape: [k2, row] }).origin, 0);
    const from = { at: y.at, dtype, strides: [down, across] };
    const out = { at, dtype, strides: [row, 1], reg: 0 };
    before.push(fused.call({ shape: [k2, n], in: [from], ops: [], out: [out] }));
    return { ...call, y: { at, strides: [0, row, 1] } };
  };
  return { calls: calls.map(packed), before };
}
