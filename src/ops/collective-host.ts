/** @module Cutting, joining and combining host tensors, for the reference meanings of the collectives. */
import { dtypes, roundTo } from "../ir/dtype.ts";
import type { Reduction } from "../ir/equation.ts";
import type { HostTensor } from "../ir/node.ts";
import { sizeOf } from "../ir/shape.ts";
import { larger, smaller } from "./host-arrays.ts";

export const combineRules: { readonly [R in Reduction]: (x: number, y: number) => number } = {
  sum: (x, y) => x + y,
  max: larger,
  min: smaller,
};

/** Combines tensors in the order of the devices and rounds to the dtype at each step, as the native collectives do. */
export function reduced(parts: readonly HostTensor[], reduction: Reduction): HostTensor {
  const [first, ...others] = parts as [HostTensor, ...HostTensor[]];
  const data = first.data.slice();
  const rule = combineRules[reduction];
  for (const other of others)
    for (let i = 0; i < data.length; i++)
      data[i] = roundTo(first.dtype, rule(data[i] as number, other.data[i] as number));
  return { ...first, data };
}

/** Elements `[start, start + count)` along a dim. */
export function pieceOf(tensor: HostTensor, dim: number, start: number, count: number): HostTensor {
  const whole = tensor.shape[dim] as number;
  const shape = tensor.shape.map((old, index) => (index === dim ? count : old));
  const inner = sizeOf(tensor.shape.slice(dim + 1));
  const outer = sizeOf(tensor.shape.slice(0, dim));
  const data = dtypes[tensor.dtype].create(sizeOf(shape));
  for (let o = 0; o < outer; o++) {
    const from = (o * whole + start) * inner;
    data.set(tensor.data.subarray(from, from + count * inner), o * count * inner);
  }
  return { dtype: tensor.dtype, shape, data };
}

/** Cuts along a dim into equal blocks. */
export function blocks(tensor: HostTensor, dim: number, parts: number): HostTensor[] {
  const size = (tensor.shape[dim] as number) / parts;
  return Array.from({ length: parts }, (_unused, part) => pieceOf(tensor, dim, part * size, size));
}

/** Joins tensors along a dim; all other dims agree. */
export function joined(parts: readonly HostTensor[], dim: number): HostTensor {
  const first = parts[0] as HostTensor;
  const total = parts.reduce((sum, part) => sum + (part.shape[dim] as number), 0);
  const shape = first.shape.map((size, index) => (index === dim ? total : size));
  const inner = sizeOf(first.shape.slice(dim + 1));
  const outer = sizeOf(first.shape.slice(0, dim));
  const data = dtypes[first.dtype].create(sizeOf(shape));
  let at = 0;
  for (const part of parts) {
    const run = (part.shape[dim] as number) * inner;
    for (let o = 0; o < outer; o++)
      data.set(part.data.subarray(o * run, (o + 1) * run), o * total * inner + at * inner);
    at += part.shape[dim] as number;
  }
  return { dtype: first.dtype, shape, data };
}
