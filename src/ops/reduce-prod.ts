/**
 * @module Elementwise calls that combine parts of a tensor, and products by them: of halves of a tensor, or of the taps of windows.
 */
import type { KernelCall, KernelContext, View } from "../ir/kernel.ts";
import { otherDims, range, type Shape, sizeOf, stridesOf } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { copyCall } from "./movement.ts";

type Context = Pick<KernelContext<never>, "at" | "temporary">;

/** The most operands of one call. */
const mostOperands = 8;

const operand = (context: Context, view: View) => ({
  at: context.at(view),
  dtype: view.dtype,
  strides: view.strides,
});

/** Combines views of one shape by an instruction of fused calls, from the left. */
export function combined(context: Context, by: string, views: readonly View[], out: View): KernelCall[] {
  const [first, ...rest] = views as readonly [View, ...View[]];
  if (rest.length === 0) return [copyCall(context, first, out)];
  const calls: KernelCall[] = [];
  let left = first;
  for (let from = 0; from < rest.length; from += mostOperands - 1) {
    const inputs = [left, ...rest.slice(from, from + mostOperands - 1)];
    calls.push(
      kernels.fused.call({
        shape: out.shape,
        in: inputs.map((view) => operand(context, view)),
        ops: inputs.slice(1).map((_view, at) => [by, out.dtype, at === 0 ? 0 : inputs.length + at - 1, at + 1]),
        out: [{ ...operand(context, out), reg: 2 * inputs.length - 2 }],
      }),
    );
    left = out;
  }
  return calls;
}

/** `count` elements of a dim from `from` on. */
export const partOfDim = (view: View, dim: number, from: number, count: number): View => ({
  ...view,
  offset: view.offset + from * (view.strides[dim] as number),
  shape: view.shape.map((size, at) => (at === dim ? count : size)),
});

/** The products along dims: one dim after another, each by multiplying its halves until one element is left. */
export function productCalls(context: KernelContext<never>, dims: readonly number[]): KernelCall[] {
  const x = context.inputs[0] as View;
  const result = context.outputs[0] as View;
  const keptDims = otherDims(x.shape.length, dims);
  const out: View = {
    ...result,
    shape: x.shape.map((size, dim) => (dims.includes(dim) ? 1 : size)),
    strides: x.shape.map((_size, dim) => (dims.includes(dim) ? 0 : (result.strides[keptDims.indexOf(dim)] as number))),
  };
  if (sizeOf(out.shape) === 0) return [];
  if (sizeOf(x.shape) === 0) return [filled(context, out, 1)];
  const calls: KernelCall[] = [];
  let from = x;
  for (const dim of dims) {
    let size = from.shape[dim] as number;
    while (size > 1) {
      const half = Math.ceil(size / 2);
      const shape = from.shape.map((length, at) => (at === dim ? half : length));
      const done = sizeOf(shape) === sizeOf(out.shape);
      const to = done ? out : context.temporary({ shape, dtype: x.dtype });
      const pairs = size - half;
      calls.push(
        ...combined(
          context,
          "mul",
          [partOfDim(from, dim, 0, pairs), partOfDim(from, dim, half, pairs)],
          partOfDim(to, dim, 0, pairs),
        ),
      );
      if (pairs < half) calls.push(copyCall(context, partOfDim(from, dim, pairs, 1), partOfDim(to, dim, pairs, 1)));
      [from, size] = [to, half];
    }
  }
  return from === out ? calls : [...calls, copyCall(context, from, out)];
}

/** A call that writes one number everywhere. */
export function filled(context: Context, out: View, value: number): KernelCall {
  const ops = [["const", out.dtype, value]];
  return kernels.fused.call({ shape: out.shape, in: [], ops, out: [{ ...operand(context, out), reg: 0 }] });
}

interface Windows {
  readonly window: readonly number[];
  readonly strides: readonly number[];
  readonly dilation?: readonly number[];
  readonly padding: readonly (readonly [number, number])[];
}

/** The products over sliding windows: products of the taps, each of which is a view of the padded input. */
export function windowProducts(context: KernelContext<never>, windows: Windows): KernelCall[] {
  const x = context.inputs[0] as View;
  const out = context.outputs[0] as View;
  if (sizeOf(out.shape) === 0) return [];
  const { padded, calls } = paddedWithOnes(context, x, windows.padding);
  const taps = range(sizeOf(windows.window)).map((tap) => tapView(padded, tap, windows, out.shape));
  return [...calls, ...combined(context, "mul", taps, out)];
}

function paddedWithOnes(context: Context, x: View, padding: Windows["padding"]): { padded: View; calls: KernelCall[] } {
  if (padding.every(([low, high]) => low === 0 && high === 0)) return { padded: x, calls: [] };
  const shape = x.shape.map((size, dim) => size + (padding[dim]?.[0] as number) + (padding[dim]?.[1] as number));
  const padded = context.temporary({ shape, dtype: x.dtype });
  const start = padding.reduce((offset, [low], dim) => offset + low * (padded.strides[dim] as number), 0);
  const inside = { ...padded, shape: x.shape, offset: padded.offset + start };
  return { padded, calls: [filled(context, padded, 1), copyCall(context, x, inside)] };
}

/** A view of the elements that tap number `tap` of each window reads. */
function tapView(padded: View, tap: number, { window, strides, dilation }: Windows, shape: Shape): View {
  const by = stridesOf(window);
  const offset = window.reduce((sum, size, dim) => {
    const element = Math.floor(tap / (by[dim] as number)) % size;
    return sum + element * (dilation?.[dim] ?? 1) * (padded.strides[dim] as number);
  }, padded.offset);
  return { ...padded, offset, shape, strides: padded.strides.map((step, dim) => step * (strides[dim] as number)) };
}
