/** @module Cumulative sums, products and extremes along a dim. */

import { type DType, dtypes, isFloat, roundTo } from "../ir/dtype.ts";
import { equationOf, letters } from "../ir/equation.ts";
import type { KernelCall, KernelContext, View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import * as emit from "./emit.ts";
import { copyCall, f32, onlyInput } from "./movement.ts";
import { combine } from "./reduce.ts";
import { partOfDim } from "./reduce-prod.ts";
import { inFloat32 } from "./wide.ts";

export type CumulativeAttrs = { kind: emit.CumulativeKind; dim: number };

/** log(exp(x) + exp(y)), also where both are the same infinity. */
function logAddExp(x: number, y: number): number {
  if (x === y) return x + Math.LN2;
  const larger = combine.max(x, y, "f64");
  return larger + Math.log1p(Math.exp(combine.min(x, y, "f64") - larger));
}

const ruleOf = (kind: emit.CumulativeKind): ((x: number, y: number, dtype: DType) => number) =>
  kind === "logSumExp" ? logAddExp : combine[kind];

/** The sums `s[i] = b[i] + a[i] s[i + 1]` from the last element back, in log2 of their number passes; s after the last element is 0. */
function recurrence(a: Node, b: Node, dim: number): Node {
  let [factor, total] = [a, b];
  for (let distance = 1; distance < (b.shape[dim] as number); distance *= 2) {
    total = emit.add(total, emit.mul(factor, emit.shifted(total, dim, -distance, 0)));
    factor = emit.mul(factor, emit.shifted(factor, dim, -distance, 0));
  }
  return total;
}

/** An element is a factor of its own product, with the elements before it, and of later ones, also with those in between. */
function productGradient(x: Node, dy: Node, dim: number): Node {
  const before = emit.shifted(emit.cumulative("prod", x, dim), dim, 1, 1);
  return emit.mul(before, recurrence(emit.shifted(x, dim, -1, 0), dy, dim));
}

/** exp(x - y), 1 where both are the same infinity. */
const ratio = (x: Node, y: Node): Node => emit.exp(emit.select(emit.eq(x, y), 0, emit.sub(x, y)));

/** y never falls along the dim, so no ratio is above 1. */
function logSumExpGradient(x: Node, y: Node, dy: Node, dim: number): Node {
  const falls = ratio(y, emit.shifted(y, dim, -1, Infinity));
  return emit.mul(ratio(x, y), recurrence(falls, dy, dim));
}

/** The first element that holds each extreme takes the cotangent. */
function extremeGradient(kind: "max" | "min", x: Node, y: Node, dy: Node, dim: number): Node {
  const before = emit.shifted(y, dim, 1, kind === "max" ? -Infinity : Infinity);
  const beats = kind === "max" ? emit.gt(x, before) : emit.lt(x, before);
  const firstNaN = emit.and(emit.ne(x, x), emit.eq(before, before));
  const position = emit.iota("i32", x.shape, dim);
  const winner = emit.cumulative("max", emit.select(emit.or(beats, firstNaN), position, 0), dim);
  return emit.scatterAddAlong(dy, winner, x.shape[dim] as number, dim);
}

defineOp<CumulativeAttrs>({
  name: "cumulative",
  doc: "Combines all elements up to and including each one by sum, prod, max, min or logSumExp, along a dim; integers wrap. Floats are combined in a tree, not one after another. Max and min propagate NaN; the first of ties takes the gradient.",
  example: {
    inputs: [f32([2, 3], [1, 2, 3, 4, 5, 6])],
    attrs: { kind: "sum", dim: 1 },
    outputs: [f32([2, 3], [1, 3, 6, 4, 9, 15])],
  },
  infer: (inputs, { kind, dim }) => {
    const input = onlyInput(`cumulative ${kind}`, inputs);
    if (!Number.isInteger(dim) || dim < 0 || dim >= input.shape.length)
      throw new HeddleError("shape", `cumulative ${kind}: there is no dim ${dim} in ${formatType(input)}`);
    if (input.dtype === "bool" || (kind === "logSumExp" && !isFloat(input.dtype)))
      throw new HeddleError("dtype", `cumulative ${kind}: not defined for ${formatType(input)}`);
    return input;
  },
  equation: ([input], { dim }) => {
    const all = letters((input as TensorType).shape.length);
    return equationOf([all], [all], { whole: [all[dim] as string] });
  },
  linear: ({ kind }) => (kind === "sum" ? [[0]] : []),
  gradient: ({ node, cotangents }) => {
    const { kind, dim } = node.attrs as CumulativeAttrs;
    const [x, dy] = [node.inputs[0] as Node, cotangents[0] as Node];
    switch (kind) {
      case "sum":
        // Each element is in its own sum and in all later ones.
        return [emit.reverse(emit.cumsum(emit.reverse(dy, [dim]), dim), [dim])];
      case "prod":
        return [inFloat32([x, dy], (wide, along) => productGradient(wide, along, dim))];
      case "logSumExp":
        return [
          inFloat32([x, dy], (wide, along) => {
            // The exponential would multiply the error of a rounded result.
            const y = wide === x ? node : emit.cumulative(kind, wide, dim);
            return logSumExpGradient(wide, y, along, dim);
          }),
        ];
      default:
        return [extremeGradient(kind, x, node, dy, dim)];
    }
  },
  batch: batchByEquation(({ kind, dim }) => ({ kind, dim: dim + 1 })),
  localize: absent("attributes hold no sizes"),
  cost: ([input]) => sizeOf((input as TensorType).shape),
  reference: ([x], { kind, dim }) => {
    const { shape, dtype, data } = x as HostTensor;
    // Floats run in f64 and are rounded once each: the oracle is more exact than any kernel.
    const total = isFloat(dtype) ? Float64Array.from(data) : dtypes[dtype].create(data);
    const step = stridesOf(shape)[dim] as number;
    const rule = ruleOf(kind);
    const exact = isFloat(dtype) ? "f64" : dtype;
    total.forEach((value, at) => {
      if (Math.floor(at / step) % (shape[dim] as number) > 0)
        total[at] = rule(total[at - step] as number, value, exact);
    });
    return [dtypes[dtype].create(Array.from(total, (value) => roundTo(dtype, value)))];
  },
  form: { kind: "kernel" },
  lower: { strided: [0], emit: shiftedPasses },
});

/** Instructions that combine registers 0 and 1; the last instruction gives the result. */
function instructions(kind: emit.CumulativeKind, dtype: DType): readonly (readonly unknown[])[] {
  switch (kind) {
    case "sum":
      return [["add", dtype, 0, 1]];
    case "prod":
      return [["mul", dtype, 0, 1]];
    case "max":
    case "min":
      return [[kind, dtype, 0, 1]];
    case "logSumExp":
      return [
        ["max", dtype, 0, 1],
        ["min", dtype, 0, 1],
        ["sub", dtype, 3, 2],
        ["exp", dtype, 4],
        ["log1p", dtype, 5],
        ["eq", dtype, 0, 1],
        ["const", dtype, Math.LN2],
        ["select", dtype, 7, 8, 6],
        ["add", dtype, 2, 9],
      ];
  }
}

/**
 * Combines with the elements 1 before, then 2, 4, … before (Hillis and Steele, 1986): after each pass an element holds
 * twice as many, and a pass is one elementwise call over everything.
 */
function shiftedPasses(context: KernelContext<CumulativeAttrs>): KernelCall[] {
  const { kind, dim } = context.attrs;
  const x = context.inputs[0] as View;
  const out = context.outputs[0] as View;
  const size = x.shape[dim] as number;
  const passes = Math.ceil(Math.log2(Math.max(1, size)));
  if (passes === 0 || sizeOf(x.shape) === 0) return [copyCall(context, x, out)];
  // The last pass writes the result; earlier passes alternate between two buffers.
  const other = passes > 1 ? context.temporary(out) : out;
  const operand = (view: View) => ({ at: context.at(view), dtype: view.dtype, strides: view.strides });
  const ops = instructions(kind, x.dtype);
  let from = x;
  return Array.from({ length: passes }, (_unused, pass) => 2 ** pass).flatMap((distance, pass) => {
    const to = (passes - 1 - pass) % 2 === 0 ? out : other;
    const combined = partOfDim(to, dim, distance, size - distance);
    const call: KernelCall = kernels.fused.call({
      shape: combined.shape,
      in: [operand(partOfDim(from, dim, distance, size - distance)), operand(partOfDim(from, dim, 0, size - distance))],
      ops,
      out: [{ ...operand(combined), reg: ops.length + 1 }],
    });
    const calls = [copyCall(context, partOfDim(from, dim, 0, distance), partOfDim(to, dim, 0, distance)), call];
    from = to;
    return calls;
  });
}
