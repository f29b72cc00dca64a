/** @module Ops that move elements and compute nothing: broadcast, reshape, transpose, reverse, iota. */

import { type DType, dtypes } from "../ir/dtype.ts";
import { equationOf, letters } from "../ir/equation.ts";
import { type KernelCall, type KernelContext, reshapeView, type View } from "../ir/kernel.ts";
import { absent, type Batched, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatShape, formatType, otherDims, type Shape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import * as kernels from "../kernels/index.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation, behind, spreadBatch, withBatch } from "./batch.ts";
import * as emit from "./emit.ts";
import { gatherStrided, inverseOrder } from "./host-arrays.ts";
import { blockStart, splitShape } from "./local.ts";

/** An f32 tensor, for examples. */
export const f32 = (shape: Shape, values: readonly number[]): HostTensor => ({
  dtype: "f32",
  shape,
  data: Float32Array.from(values),
});

/** The input of an op with one input. */
export function onlyInput(name: string, inputs: readonly TensorType[]): TensorType {
  const [input] = inputs;
  if (input === undefined || inputs.length !== 1)
    throw new HeddleError("op", `${name}: takes 1 input, got ${inputs.length}`);
  return input;
}

/** The arithmetic cost of ops that only move elements. */
export const moves = (): number => 0;

/** A fused call that copies one view onto another of the same shape. */
export function copyCall(context: Pick<KernelContext<never>, "at">, from: View, to: View): KernelCall {
  return kernels.fused.call({
    shape: to.shape,
    in: [{ at: context.at(from), dtype: from.dtype, strides: from.strides }],
    ops: [],
    out: [{ at: context.at(to), dtype: to.dtype, strides: to.strides, reg: 0 }],
  });
}

/** A call that casts one view's values into another view of the same shape. */
export function castCall(context: Pick<KernelContext<never>, "at">, from: View, to: View): KernelCall {
  const copy = copyCall(context, from, to);
  const out = { at: context.at(to), dtype: to.dtype, strides: to.strides, reg: 1 };
  return { ...copy, ops: [["cast", to.dtype, 0]], out: [out] };
}

defineOp<{ shape: Shape; dims: readonly number[] }>({
  name: "broadcast",
  doc: "Input dim i becomes output dim dims[i]; dims of size 1 and missing dims are repeated (StableHLO broadcast_in_dim).",
  example: { inputs: [f32([2], [1, 2])], attrs: { shape: [2, 2], dims: [1] }, outputs: [f32([2, 2], [1, 2, 1, 2])] },
  infer: (inputs, { shape, dims }) => {
    const input = onlyInput("broadcast", inputs);
    const fits =
      dims.length === input.shape.length &&
      input.shape.every((size, dim) => size === 1 || size === shape[dims[dim] as number]);
    if (!fits || dims.some((dim, index) => dim < 0 || dim >= shape.length || dim <= (dims[index - 1] ?? -1))) {
      throw new HeddleError(
        "shape",
        `broadcast: ${formatType(input)} does not go to ${formatShape(shape)} by dims ${formatShape(dims)}`,
      );
    }
    sizeOf(shape);
    return { dtype: input.dtype, shape };
  },
  equation: ([input], { shape, dims }) => {
    const out = letters(shape.length);
    // A repeated dim of size 1 corresponds to nothing on the other side.
    return equationOf(
      [
        dims.map((dim, index) =>
          input?.shape[index] === 1 && shape[dim] !== 1 ? `one${index}` : (out[dim] as string),
        ),
      ],
      [out],
      { whole: dims.map((_dim, index) => `one${index}`) },
    );
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => {
    const input = node.inputs[0] as Node;
    const dims = node.attrs.dims as readonly number[];
    const added = otherDims(node.shape.length, dims);
    const stretched = dims.filter((dim, index) => input.shape[index] === 1 && node.shape[dim] !== 1);
    return [emit.reshape(emit.sum(cotangents[0] as Node, [...added, ...stretched]), input.shape)];
  },
  batch: batchByEquation(({ shape, dims }, size) => ({ shape: [size, ...shape], dims: [0, ...behind(dims)] })),
  localize: (context) =>
    emit.broadcastInDim(context.inputs[0] as Node, splitShape(context.attrs.shape, context.splits), context.attrs.dims),
  cost: moves,
  reference: ([x], { shape, dims }) => {
    const inputStrides = stridesOf((x as HostTensor).shape);
    const strides = new Array<number>(shape.length).fill(0);
    dims.forEach((dim, index) => {
      strides[dim] = x?.shape[index] === 1 ? 0 : (inputStrides[index] as number);
    });
    return [gatherStrided((x as HostTensor).data, (x as HostTensor).dtype, shape, strides)];
  },
  form: {
    kind: "view",
    view: (input, { shape, dims }) => {
      const strides = new Array<number>(shape.length).fill(0);
      dims.forEach((dim, index) => {
        strides[dim] = input.shape[index] === 1 ? 0 : (input.strides[index] as number);
      });
      return { ...input, shape, strides };
    },
  },
});

/** Runs of input dims and output dims with equal products, outermost first. */
export function reshapeGroups(from: Shape, to: Shape): { input: number[]; output: number[] }[] {
  const groups: { input: number[]; output: number[] }[] = [];
  let i = 0;
  let o = 0;
  while (i < from.length || o < to.length) {
    const group = { input: [] as number[], output: [] as number[] };
    let left = 1;
    let right = 1;
    const takeInput = (): void => {
      left *= from[i] as number;
      group.input.push(i++);
    };
    const takeOutput = (): void => {
      right *= to[o] as number;
      group.output.push(o++);
    };
    if (i < from.length) takeInput();
    if (o < to.length) takeOutput();
    while (left !== right) {
      if (left < right && i < from.length) takeInput();
      else if (o < to.length) takeOutput();
      else if (i < from.length) takeInput();
      else break;
    }
    groups.push(group);
  }
  return groups;
}

defineOp<{ shape: Shape }>({
  name: "reshape",
  doc: "The same elements in row-major order under another shape.",
  example: { inputs: [f32([2, 2], [1, 2, 3, 4])], attrs: { shape: [4] }, outputs: [f32([4], [1, 2, 3, 4])] },
  infer: (inputs, { shape }) => {
    const input = onlyInput("reshape", inputs);
    if (sizeOf(shape) !== sizeOf(input.shape)) {
      throw new HeddleError(
        "shape",
        `reshape: ${formatType(input)} has ${sizeOf(input.shape)} elements, ${formatShape(shape)} needs ${sizeOf(shape)}`,
      );
    }
    return { dtype: input.dtype, shape };
  },
  equation: ([input], { shape }) => {
    const from = (input as TensorType).shape;
    const left = letters(from.length, "i");
    const right = letters(shape.length, "o");
    const whole = new Set([...left, ...right]);
    // The outermost dim of a run keeps its meaning when the run is split or merged.
    reshapeGroups(from, shape).forEach((group, index) => {
      // Dims of size 1 keep their meaning, too: a batch of one row is a batch.
      const source = group.input.find((dim) => from[dim] !== 1) ?? group.input[0];
      const target = group.output.find((dim) => shape[dim] !== 1) ?? group.output[0];
      if (source === undefined || target === undefined) return;
      left[source] = `g${index}`;
      right[target] = `g${index}`;
    });
    return equationOf([left], [right], { whole });
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => [emit.reshape(cotangents[0] as Node, (node.inputs[0] as Node).shape)],
  batch: ({ node, inputs, size }) => [
    withBatch(emit.reshape(spreadBatch(inputs[0] as Batched, size), [size, ...node.shape])),
  ],
  localize: (context) => emit.reshape(context.inputs[0] as Node, splitShape(context.attrs.shape, context.splits)),
  cost: moves,
  reference: ([x]) => [(x as HostTensor).data.slice()],
  form: { kind: "view", view: (input, { shape }) => reshapeView(input, shape) },
});

defineOp<{ order: readonly number[] }>({
  name: "transpose",
  doc: "Permutes dims: output dim i is input dim order[i].",
  example: { inputs: [f32([2, 2], [1, 2, 3, 4])], attrs: { order: [1, 0] }, outputs: [f32([2, 2], [1, 3, 2, 4])] },
  infer: (inputs, { order }) => {
    const input = onlyInput("transpose", inputs);
    if (order.length !== input.shape.length || [...order].sort((a, b) => a - b).some((dim, index) => dim !== index)) {
      throw new HeddleError(
        "shape",
        `transpose: ${formatShape(order)} is not an order of the ${input.shape.length} dims of ${formatType(input)}`,
      );
    }
    return { dtype: input.dtype, shape: order.map((dim) => input.shape[dim] as number) };
  },
  equation: ([input], { order }) => {
    const dims = letters((input as TensorType).shape.length);
    return equationOf([dims], [order.map((dim) => dims[dim] as string)]);
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => [
    emit.transpose(cotangents[0] as Node, inverseOrder(node.attrs.order as readonly number[])),
  ],
  batch: batchByEquation(({ order }) => ({ order: [0, ...behind(order)] })),
  localize: absent("attributes hold no sizes"),
  cost: moves,
  reference: ([x], { order }) => {
    const strides = stridesOf((x as HostTensor).shape);
    const shape = order.map((dim) => x?.shape[dim] as number);
    return [
      gatherStrided(
        (x as HostTensor).data,
        (x as HostTensor).dtype,
        shape,
        order.map((dim) => strides[dim] as number),
      ),
    ];
  },
  form: {
    kind: "view",
    view: (input, { order }) => ({
      ...input,
      shape: order.map((dim) => input.shape[dim] as number),
      strides: order.map((dim) => input.strides[dim] as number),
    }),
  },
});

defineOp<{ dims: readonly number[] }>({
  name: "reverse",
  doc: "Reverses the order of elements along some dims.",
  example: { inputs: [f32([3], [1, 2, 3])], attrs: { dims: [0] }, outputs: [f32([3], [3, 2, 1])] },
  infer: (inputs, { dims }) => {
    const input = onlyInput("reverse", inputs);
    if (dims.some((dim) => dim < 0 || dim >= input.shape.length))
      throw new HeddleError("shape", `reverse: dims ${formatShape(dims)} are not in ${formatType(input)}`);
    return input;
  },
  equation: ([input], { dims }) => {
    const all = letters((input as TensorType).shape.length);
    return equationOf([all], [all], { whole: dims.map((dim) => all[dim] as string) });
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => [emit.reverse(cotangents[0] as Node, node.attrs.dims as readonly number[])],
  batch: batchByEquation(({ dims }) => ({ dims: behind(dims) })),
  localize: absent("attributes hold no sizes"),
  cost: moves,
  reference: ([x], { dims }) => {
    const { shape, dtype, data } = x as HostTensor;
    const strides = stridesOf(shape);
    const first = dims.reduce(
      (offset, dim) => offset + (strides[dim] as number) * Math.max(0, (shape[dim] as number) - 1),
      0,
    );
    return [
      gatherStrided(
        data,
        dtype,
        shape,
        strides.map((step, dim) => (dims.includes(dim) ? -step : step)),
        first,
      ),
    ];
  },
  form: {
    kind: "view",
    view: (input, { dims }) => ({
      ...input,
      offset:
        input.offset +
        dims.reduce(
          (offset, dim) => offset + (input.strides[dim] as number) * Math.max(0, (input.shape[dim] as number) - 1),
          0,
        ),
      // Not -step: the executor does not take -0 for an integer.
      strides: input.strides.map((step, dim) => (dims.includes(dim) ? 0 - step : step)),
    }),
  },
});

defineOp<{ dtype: DType; shape: Shape; dim: number }>({
  name: "iota",
  doc: "Counts up from 0 along one dim.",
  example: {
    inputs: [],
    attrs: { dtype: "i32", shape: [3], dim: 0 },
    outputs: [{ dtype: "i32", shape: [3], data: Int32Array.of(0, 1, 2) }],
  },
  infer: (_inputs, { dtype, shape, dim }) => {
    sizeOf(shape);
    if (dim < 0 || dim >= shape.length || dtype === "bool")
      throw new HeddleError("shape", `iota: cannot count along dim ${dim} of ${formatType({ dtype, shape })}`);
    return { dtype, shape };
  },
  equation: (_inputs, { shape }) => equationOf([], [letters(shape.length)]),
  linear: [],
  gradient: absent("has no inputs"),
  batch: absent("has no inputs"),
  localize: (context) => {
    const { dtype, shape, dim } = context.attrs;
    const local = emit.iota(dtype, splitShape(shape, context.splits), dim);
    const start = blockStart(shape[dim] as number, dim, context.splits);
    return start === undefined ? local : emit.add(local, emit.cast(start, dtype));
  },
  cost: moves,
  reference: (_inputs, { dtype, shape, dim }) => {
    const stride = stridesOf(shape)[dim] as number;
    const at = (_unused: unknown, index: number): number => Math.floor(index / stride) % (shape[dim] as number);
    return [dtypes[dtype].create(Array.from({ length: sizeOf(shape) }, at))];
  },
  form: { kind: "pointwise", instruction: (attrs) => ({ name: "iota", dtype: attrs.dtype, literal: attrs.dim }) },
});
