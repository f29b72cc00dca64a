/** @module Sorting along a dim, argsort, and the k largest elements. */
import { dtypes } from "../ir/dtype.ts";
import { equationOf, letters } from "../ir/equation.ts";
import type { View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node, type OpDef } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, normalizeDim, otherDims, range, sameShape, sizeOf, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import * as emit from "./emit.ts";
import { inverseOrder } from "./host-arrays.ts";
import { resultsOf } from "./results.ts";

export type SortAttrs = { descending: boolean };

/** The order of keys: numbers by size, -0 beside 0, NaN above all. */
function compare(x: number, y: number): number {
  const [xNaN, yNaN] = [Number.isNaN(x), Number.isNaN(y)];
  if (xNaN || yNaN) return Number(xNaN) - Number(yNaN);
  return x < y ? -1 : Number(x > y);
}

/** Positions of a row in the order of its keys; equal keys keep their order. */
function orderOf(keys: ArrayLike<number>, start: number, length: number, descending: boolean): number[] {
  const sign = descending ? -1 : 1;
  return range(length).sort((a, b) => sign * compare(keys[start + a] as number, keys[start + b] as number) || a - b);
}

const lastOf = (type: TensorType): number => type.shape.at(-1) as number;
const rowsOf = (type: TensorType): number => sizeOf(type.shape.slice(0, -1));
const positions = (shape: readonly number[]): Node => emit.iota("i32", shape, shape.length - 1);
/** Gathers along the last dim, row by row. */
const along = (x: Node, indices: Node): Node => emit.gather(x, indices, x.shape.length - 1);

const sortOp: OpDef<SortAttrs> = defineOp<SortAttrs>({
  name: "sort",
  doc: "All inputs in the order of the first one's elements along the last dim, stable. -0 and 0 are equal, NaN is above all numbers: last, or first if `descending`.",
  example: {
    inputs: [
      { dtype: "f32", shape: [3], data: Float32Array.of(3, 1, 2) },
      { dtype: "i32", shape: [3], data: Int32Array.of(0, 1, 2) },
    ],
    attrs: { descending: false },
    outputs: [
      { dtype: "f32", shape: [3], data: Float32Array.of(1, 2, 3) },
      { dtype: "i32", shape: [3], data: Int32Array.of(1, 2, 0) },
    ],
  },
  infer: (inputs) => {
    const [first] = inputs;
    if (first === undefined) throw new HeddleError("op", "sort: takes at least one input");
    if (first.shape.length === 0) throw new HeddleError("shape", `sort: ${formatType(first)} has no dim to sort along`);
    if (inputs.some((input) => !sameShape(input.shape, first.shape)))
      throw new HeddleError("shape", `sort: shapes differ: ${inputs.map(formatType).join(", ")}`);
    return inputs;
  },
  equation: (inputs) => {
    const all = letters((inputs[0] as TensorType).shape.length);
    const each = inputs.map(() => all);
    return equationOf(each, each, { whole: [all.at(-1) as string] });
  },
  linear: [],
  // Each cotangent goes back to where its element came from; the keys decide the order, which has no derivative.
  gradient: ({ node, cotangents }) => {
    const [key] = node.inputs as [Node];
    const order = resultsOf(apply(sortOp, [key, positions(key.shape)], node.attrs as SortAttrs))[1] as Node;
    const back = argsort(order);
    return cotangents.map((dy) => dy && along(dy, back));
  },
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: ([input]) => {
    const { shape } = input as TensorType;
    return 10 * sizeOf(shape) * Math.max(1, Math.log2(shape.at(-1) as number));
  },
  reference: (inputs, { descending }) => {
    const [key] = inputs as [HostTensor];
    const length = lastOf(key);
    const results = inputs.map(({ dtype, data }) => dtypes[dtype].create(data.length));
    for (let row = 0; row < rowsOf(key); row++) {
      orderOf(key.data, row * length, length, descending).forEach((from, to) => {
        results.forEach((result, index) => {
          result[row * length + to] = inputs[index]?.data[row * length + from] as number;
        });
      });
    }
    return results;
  },
  form: { kind: "kernel" },
  lower: {
    emit: (context) => [
      kernels.sort.call({
        rows: rowsOf(context.inputs[0] as View),
        cols: lastOf(context.inputs[0] as View),
        descending: context.attrs.descending,
        operands: context.inputs.map((input, index) => ({
          dtype: input.dtype,
          in: context.at(input),
          out: context.at(context.outputs[index] as View),
        })),
      }),
    ],
  },
});

const topKOp: OpDef<{ k: number }> = defineOp<{ k: number }>({
  name: "topK",
  doc: "The k largest elements along the last dim, from the largest on, and their indices (i32). Equal elements come in order of their indices; NaN is above all numbers.",
  example: {
    inputs: [{ dtype: "f32", shape: [4], data: Float32Array.of(1, 3, 2, 3) }],
    attrs: { k: 2 },
    outputs: [
      { dtype: "f32", shape: [2], data: Float32Array.of(3, 3) },
      { dtype: "i32", shape: [2], data: Int32Array.of(1, 3) },
    ],
  },
  infer: (inputs, { k }) => {
    const [input] = inputs as [TensorType];
    if (inputs.length !== 1) throw new HeddleError("op", `topK: takes 1 input, got ${inputs.length}`);
    if (input.shape.length === 0) throw new HeddleError("shape", `topK: ${formatType(input)} has no dim`);
    if (!Number.isInteger(k) || k < 0 || k > lastOf(input))
      throw new HeddleError(
        "shape",
        `topK: there are no ${k} largest of ${lastOf(input)} elements (${formatType(input)})`,
      );
    const shape = [...input.shape.slice(0, -1), k];
    return [
      { dtype: input.dtype, shape },
      { dtype: "i32", shape },
    ];
  },
  equation: ([input]) => {
    const all = letters((input as TensorType).shape.length);
    const some = [...all.slice(0, -1), "k"];
    return equationOf([all], [some, some], { whole: [all.at(-1) as string, "k"] });
  },
  linear: [],
  gradient: ({ node, cotangents }) => {
    const [x] = node.inputs as [Node];
    const [dy] = cotangents;
    const at = resultsOf(node)[1] as Node;
    return [dy && emit.scatterAdd(dy, at, x.shape.at(-1) as number, x.shape.length - 1)];
  },
  batch: batchByEquation(),
  localize: absent("k is of a dim that is never split"),
  cost: ([input]) => 4 * sizeOf((input as TensorType).shape),
  reference: ([x], { k }, outputs) => {
    const { data, ...type } = x as HostTensor;
    const length = lastOf(type);
    const [values, indices] = outputs.map(({ dtype, shape }) => dtypes[dtype].create(sizeOf(shape)));
    for (let row = 0; row < rowsOf(type); row++) {
      orderOf(data, row * length, length, true)
        .slice(0, k)
        .forEach((from, to) => {
          if (values !== undefined) values[row * k + to] = data[row * length + from] as number;
          if (indices !== undefined) indices[row * k + to] = from;
        });
    }
    return [values, indices].filter((result) => result !== undefined);
  },
  form: { kind: "kernel" },
  lower: {
    emit: (context) => {
      const [x] = context.inputs as [View];
      const [values, indices] = context.outputs as [View, View];
      return [
        kernels.topK.call({
          dtype: x.dtype,
          rows: rowsOf(x),
          cols: lastOf(x),
          count: context.attrs.k,
          in: context.at(x),
          out: [context.at(values), context.at(indices)],
        }),
      ];
    },
  },
});

/** Moves a dim last, runs `body`, and moves the dim back in the results. */
function alongDim(name: string, inputs: readonly Node[], dim: number, body: (last: Node[]) => Node[]): Node[] {
  const rank = inputs[0]?.shape.length ?? 0;
  const at = normalizeDim(dim, rank, name);
  const order = [...otherDims(rank, [at]), at];
  return body(inputs.map((input) => emit.transpose(input, order))).map((result) =>
    emit.transpose(result, inverseOrder(order)),
  );
}

interface SortOptions {
  readonly descending?: boolean;
}

/** All inputs in the order of the first one's elements along a dim (default the last). */
export const sortTogether = (inputs: readonly Node[], dim = -1, { descending = false }: SortOptions = {}): Node[] =>
  alongDim("sort", inputs, dim, (last) => resultsOf(apply(sortOp, last, { descending })));

/** The elements in ascending order, or `descending`, along a dim (default the last); stable, NaN above all numbers, -0 like 0. */
export const sort = (x: Node, dim = -1, options: SortOptions = {}): Node => sortTogether([x], dim, options)[0] as Node;

/** Indices (i32) along a dim that sort it. */
export function argsort(x: Node, dim = -1, { descending = false }: SortOptions = {}): Node {
  const [result] = alongDim("argsort", [x], dim, ([last]) =>
    resultsOf(apply(sortOp, [last as Node, positions((last as Node).shape)], { descending })).slice(1),
  );
  return result as Node;
}

/** The k largest elements along a dim and their indices. */
export const topK = (x: Node, k: number, dim = -1): Node[] =>
  alongDim("topK", [x], dim, (last) => resultsOf(apply(topKOp, last, { k })));
