/** @module Reductions over dims, and the index of the largest element. */

import { type DType, dtypes, isFloat, isLong, longBounds, roundTo, wrapLong } from "../ir/dtype.ts";
import { equationOf, letters, type Reduction } from "../ir/equation.ts";
import type { FoldRule, KernelContext, View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatShape, formatType, otherDims, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation, behind } from "./batch.ts";
import * as emit from "./emit.ts";
import { eachOffset, inverseOrder, larger, smaller } from "./host-arrays.ts";
import { productCalls } from "./reduce-prod.ts";

/** How a reduction combines two elements. */
export type Combination = Exclude<FoldRule["op"], "argMax"> | "prod";

export type ReduceAttrs = { op: Combination; dims: readonly number[] };

/** A product of integers; numbers wrap as they would in 32 bits, bigints are exact. */
const times = (x: number, y: number): number => (typeof x === "bigint" ? x * y : Math.imul(x, y));

/** The reference of each combination, on numbers of a dtype. */
export const combine: { readonly [Op in ReduceAttrs["op"]]: (x: number, y: number, dtype: DType) => number } = {
  sum: (x, y, dtype) => (isFloat(dtype) ? x + y : roundTo(dtype, x + y)),
  max: larger,
  min: smaller,
  prod: (x, y, dtype) => (isFloat(dtype) ? x * y : roundTo(dtype, times(x, y))),
  and: (x, y) => x & y,
  or: (x, y) => x | y,
};

/** The value that a reduction starts from; a bigint for 64-bit integers. */
export function identityOf(op: ReduceAttrs["op"], dtype: DType): number {
  if (isLong(dtype)) return longIdentity(op, dtype) as unknown as number;
  const { lowest, highest } = dtypes[dtype];
  switch (op) {
    case "sum":
    case "or":
      return 0;
    case "prod":
      return 1;
    case "and":
      return dtype === "bool" ? 1 : roundTo(dtype, -1);
    case "max":
      return isFloat(dtype) ? -Infinity : lowest;
    case "min":
      return isFloat(dtype) ? Infinity : highest;
  }
}

function longIdentity(op: ReduceAttrs["op"], dtype: "i64" | "u64"): bigint {
  const [lowest, highest] = longBounds[dtype];
  const starts = { sum: 0n, or: 0n, prod: 1n, and: wrapLong(dtype, -1n), max: lowest, min: highest };
  return starts[op];
}

/** Whether a combination is defined for a dtype. */
export const combines = (op: Combination, dtype: DType): boolean =>
  op === "and" || op === "or" ? !isFloat(dtype) : dtype !== "bool";

function inferReduce(inputs: readonly TensorType[], { op, dims }: ReduceAttrs): TensorType {
  const [input] = inputs as [TensorType];
  const rank = input.shape.length;
  if (inputs.length !== 1 || dims.some((dim, index) => dim < 0 || dim >= rank || dim <= (dims[index - 1] ?? -1))) {
    throw new HeddleError(
      "shape",
      `reduce ${op}: dims ${formatShape(dims)} are not ascending dims of ${formatType(input)}`,
    );
  }
  if (!combines(op, input.dtype)) throw new HeddleError("dtype", `reduce ${op}: not defined for ${formatType(input)}`);
  if ((op === "max" || op === "min") && dims.some((dim) => input.shape[dim] === 0)) {
    throw new HeddleError(
      "shape",
      `reduce ${op}: the ${op} of no elements is not defined (${formatType(input)}, dims ${formatShape(dims)})`,
    );
  }
  return { dtype: input.dtype, shape: otherDims(rank, dims).map((dim) => input.shape[dim] as number) };
}

/** Back to the input's shape, repeated along the reduced dims. */
function spread(value: Node, shape: readonly number[], dims: readonly number[]): Node {
  return emit.broadcastInDim(value, shape, otherDims(shape.length, dims));
}

/** For each element, the product of all other elements along dims; exact also where elements are 0. */
function productsOfOthers(x: Node, dims: readonly number[]): Node {
  const order = [...otherDims(x.shape.length, dims), ...dims];
  const moved = emit.transpose(x, order);
  const lead = moved.shape.slice(0, order.length - dims.length);
  const flat = emit.reshape(moved, [...lead, sizeOf(moved.shape.slice(lead.length))]);
  const last = lead.length;
  const before = (y: Node): Node => emit.shifted(emit.cumulative("prod", y, last), last, 1, 1);
  const backwards = (y: Node): Node => emit.reverse(y, [last]);
  const others = emit.mul(before(flat), backwards(before(backwards(flat))));
  return emit.transpose(emit.reshape(others, moved.shape), inverseOrder(order));
}

defineOp<ReduceAttrs>({
  name: "reduce",
  doc: "Combines the elements along dims by sum, prod, max, min, and, or. Max and min propagate NaN; ties, and NaN, share the gradient.",
  example: {
    inputs: [{ dtype: "f32", shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) }],
    attrs: { op: "sum", dims: [1] },
    outputs: [{ dtype: "f32", shape: [2], data: Float32Array.of(3, 7) }],
  },
  infer: inferReduce,
  equation: ([input], { op, dims }) => {
    const all = letters((input as TensorType).shape.length);
    const keptLetters = all.filter((_letter, dim) => !dims.includes(dim));
    // No collective does prod, and, or: their dims stay whole.
    const collective = op === "sum" || op === "max" || op === "min";
    return equationOf([all], [keptLetters], {
      reduction: collective ? (op as Reduction) : "max",
      whole: collective ? [] : dims.map((dim) => all[dim] as string),
    });
  },
  linear: ({ op }) => (op === "sum" ? [[0]] : []),
  gradient: ({ node, cotangents }) => {
    const { op, dims } = node.attrs as ReduceAttrs;
    const x = node.inputs[0] as Node;
    const dy = cotangents[0] as Node;
    if (op === "sum") return [spread(dy, x.shape, dims)];
    if (op === "prod") return [emit.mul(spread(dy, x.shape, dims), productsOfOthers(x, dims))];
    // If an element is NaN, the result is NaN, which equals no element.
    const wins = emit.or(emit.eq(x, spread(node, x.shape, dims)), emit.ne(x, x));
    const count = emit.sum(emit.cast(wins, x.dtype), dims);
    return [emit.select(wins, spread(emit.div(dy, count), x.shape, dims), 0)];
  },
  batch: batchByEquation(({ op, dims }) => ({ op, dims: behind(dims) })),
  localize: absent("attributes hold no sizes"),
  cost: ([input]) => sizeOf((input as TensorType).shape),
  reference: ([x], { op, dims }, [type]) => {
    const { shape, dtype, data } = x as HostTensor;
    const outShape = (type as TensorType).shape;
    // Sums run in f64 and are rounded once: the oracle is more exact than any kernel.
    const storage = isLong(dtype) ? dtypes[dtype].create(sizeOf(outShape)) : new Float64Array(sizeOf(outShape));
    const out = storage.fill(identityOf(op, dtype));
    const outStrides = stridesOf(outShape);
    const strides = new Array<number>(shape.length).fill(0);
    otherDims(shape.length, dims).forEach((dim, index) => {
      strides[dim] = outStrides[index] as number;
    });
    const rule = combine[op];
    eachOffset(shape, strides, 0, (linear, offset) => {
      out[offset] = rule(out[offset] as number, data[linear] as number, dtype);
    });
    return [dtypes[dtype].create(Array.from(out as ArrayLike<number>, (value) => roundTo(dtype, value)))];
  },
  form: { kind: "kernel" },
  lower: {
    strided: [0],
    fold: ({ op, dims }) => (op === "prod" ? undefined : { op, dims }),
    emit: (context) => {
      const x = context.inputs[0] as View;
      const { op, dims } = context.attrs;
      if (op === "prod") return productCalls(context as KernelContext<never>, dims);
      const keptDims = otherDims(x.shape.length, dims);
      const pick = (list: readonly number[], wanted: readonly number[]): number[] =>
        wanted.map((dim) => list[dim] as number);
      return [
        kernels.reduce.call({
          op,
          dtype: x.dtype,
          in: context.at(x),
          keep: pick(x.shape, keptDims),
          keepStrides: pick(x.strides, keptDims),
          over: pick(x.shape, dims),
          overStrides: pick(x.strides, dims),
          out: context.at(context.outputs[0] as View),
        }),
      ];
    },
  },
});

defineOp<{ dim: number }>({
  name: "argMax",
  doc: "Index (i32) of the largest element along a dim: the first of ties; the first NaN if there is one.",
  example: {
    inputs: [{ dtype: "f32", shape: [2, 3], data: Float32Array.of(1, 3, 2, 9, 9, 0) }],
    attrs: { dim: 1 },
    outputs: [{ dtype: "i32", shape: [2], data: Int32Array.of(1, 0) }],
  },
  infer: (inputs, { dim }) => {
    const [input] = inputs as [TensorType];
    if (dim < 0 || dim >= input.shape.length)
      throw new HeddleError("shape", `argMax: there is no dim ${dim} in ${formatType(input)}`);
    if (input.shape[dim] === 0)
      throw new HeddleError("shape", `argMax: dim ${dim} of ${formatType(input)} has no elements`);
    if (input.dtype === "bool") throw new HeddleError("dtype", `argMax: not defined for ${formatType(input)}`);
    return { dtype: "i32", shape: otherDims(input.shape.length, [dim]).map((axis) => input.shape[axis] as number) };
  },
  equation: ([input], { dim }) => {
    const all = letters((input as TensorType).shape.length);
    return equationOf([all], [all.filter((_letter, index) => index !== dim)], { whole: [all[dim] as string] });
  },
  linear: [],
  gradient: () => [undefined],
  batch: batchByEquation(({ dim }) => ({ dim: dim + 1 })),
  localize: absent("attributes hold no sizes"),
  cost: ([input]) => sizeOf((input as TensorType).shape),
  reference: ([x], { dim }, [type]) => {
    const { shape, data } = x as HostTensor;
    const outShape = (type as TensorType).shape;
    const best = new Int32Array(sizeOf(outShape)).fill(-1);
    const strides = stridesOf(shape);
    const keptDims = otherDims(shape.length, [dim]);
    eachOffset(
      outShape,
      keptDims.map((index) => strides[index] as number),
      0,
      (linear, offset) => {
        let winner = 0;
        for (let index = 1; index < (shape[dim] as number); index++) {
          const value = data[offset + index * (strides[dim] as number)] as number;
          const held = data[offset + winner * (strides[dim] as number)] as number;
          if (!Number.isNaN(held) && (Number.isNaN(value) || value > held)) winner = index;
        }
        best[linear] = winner;
      },
    );
    return [best];
  },
  form: { kind: "kernel" },
  lower: {
    strided: [0],
    fold: ({ dim }) => ({ op: "argMax", dims: [dim] }),
    emit: (context) => {
      const x = context.inputs[0] as View;
      const { dim } = context.attrs;
      const order = [...otherDims(x.shape.length, [dim]), dim];
      const moved = {
        ...x,
        shape: order.map((index) => x.shape[index] as number),
        strides: order.map((index) => x.strides[index] as number),
      };
      const { view, calls } = context.contiguous(moved);
      const cols = x.shape[dim] as number;
      const rows = sizeOf(x.shape) / cols;
      return [
        ...calls,
        kernels.argMax.call({
          dtype: x.dtype,
          rows,
          cols,
          in: context.at(view),
          out: context.at(context.outputs[0] as View),
        }),
      ];
    },
  },
});
