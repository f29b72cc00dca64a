/** @module Sums of all elements up to each one, along a dim. */

import { dtypes, isFloat, roundTo } from "../ir/dtype.ts";
import { equationOf, letters } from "../ir/equation.ts";
import type { KernelCall, KernelContext, View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import { type HloValue, hloCombine, hloIntegers, hloTable } from "../ir/stablehlo.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import * as emit from "./emit.ts";
import { copyCall, f32, one } from "./structure.ts";

type CumsumAttrs = { dim: number };

defineOp<CumsumAttrs>({
  name: "cumsum",
  doc: "Sum of the elements up to and including each one, along a dim; integers wrap. Floats are added in a tree, not one after another.",
  example: {
    inputs: [f32([2, 3], [1, 2, 3, 4, 5, 6])],
    attrs: { dim: 1 },
    outputs: [f32([2, 3], [1, 3, 6, 4, 9, 15])],
  },
  infer: (inputs, { dim }) => {
    const input = one("cumsum", inputs);
    if (!Number.isInteger(dim) || dim < 0 || dim >= input.shape.length)
      throw new HeddleError("shape", `cumsum: there is no dim ${dim} in ${formatType(input)}`);
    if (input.dtype === "bool") throw new HeddleError("dtype", `cumsum: not defined for ${formatType(input)}`);
    return input;
  },
  equation: ([input], { dim }) => {
    const all = letters((input as TensorType).shape.length);
    return equationOf([all], [all], { whole: [all[dim] as string] });
  },
  linear: [[0]],
  // Each element is in its own sum and in all later ones.
  gradient: ({ node, cotangents }) => {
    const { dim } = node.attrs as CumsumAttrs;
    return [emit.reverse(emit.cumsum(emit.reverse(cotangents[0] as Node, [dim]), dim), [dim])];
  },
  batch: batchByEquation(({ dim }) => ({ dim: dim + 1 })),
  localize: absent("attributes hold no sizes"),
  cost: ([input]) => sizeOf((input as TensorType).shape),
  reference: ([x], { dim }) => {
    const { shape, dtype, data } = x as HostTensor;
    // Sums run in f64 and are rounded once each: the oracle is more exact than any kernel.
    const total = isFloat(dtype) ? Float64Array.from(data) : dtypes[dtype].create(data);
    const step = stridesOf(shape)[dim] as number;
    total.forEach((value, at) => {
      if (Math.floor(at / step) % (shape[dim] as number) > 0) total[at] = value + (total[at - step] as number);
    });
    return [dtypes[dtype].create(Array.from(total, (value) => roundTo(dtype, value)))];
  },
  // StableHLO has no cumulative ops: a window over all elements so far.
  stablehlo: ({ hlo, inputs, outputs, attrs: { dim } }) => {
    const { shape, dtype } = outputs[0] as TensorType;
    if (sizeOf(shape) === 0) return inputs;
    const along = (here: number, elsewhere: number): number[] =>
      shape.map((_size, other) => (other === dim ? here : elsewhere));
    const size = shape[dim] as number;
    const attributes = {
      window_dimensions: hloIntegers(along(size, 1)),
      window_strides: hloIntegers(along(1, 1)),
      padding: hloTable(
        along(size - 1, 0).map((low) => [low, 0]),
        2,
      ),
    };
    const start = hlo.constant({ shape: [], dtype }, 0);
    return hlo.op("reduce_window", [inputs[0] as HloValue, start], outputs, attributes, [hloCombine("add", dtype)]);
  },
  lower: { kind: "kernel", strided: [0], emit: shiftedSums },
});

/**
 * Adds the elements 1 before, then 2, 4, … before (Hillis and Steele, 1986): after each pass an element holds the sum of
 * twice as many, and a pass is one elementwise call over everything.
 */
function shiftedSums(context: KernelContext<CumsumAttrs>): KernelCall[] {
  const { dim } = context.attrs;
  const x = context.inputs[0] as View;
  const out = context.outputs[0] as View;
  const size = x.shape[dim] as number;
  const passes = Math.ceil(Math.log2(Math.max(1, size)));
  if (passes === 0 || sizeOf(x.shape) === 0) return [copyCall(context, x, out)];
  // The last pass writes the result; passes before it write here and there by turns.
  const other = passes > 1 ? context.temporary(out) : out;
  const part = (view: View, from: number, count: number): View => ({
    ...view,
    offset: view.offset + from * (view.strides[dim] as number),
    shape: view.shape.map((length, place) => (place === dim ? count : length)),
  });
  const operand = (view: View) => ({ at: context.at(view), dtype: view.dtype, strides: view.strides });
  let from = x;
  return Array.from({ length: passes }, (_unused, pass) => 2 ** pass).flatMap((distance, pass) => {
    const to = (passes - 1 - pass) % 2 === 0 ? out : other;
    const sums = part(to, distance, size - distance);
    const add: KernelCall = {
      k: "fused",
      shape: sums.shape,
      in: [operand(part(from, distance, size - distance)), operand(part(from, 0, size - distance))],
      ops: [["add", x.dtype, 0, 1]],
      out: [{ ...operand(sums), reg: 2 }],
    };
    const calls = [copyCall(context, part(from, 0, distance), part(to, 0, distance)), add];
    from = to;
    return calls;
  });
}
