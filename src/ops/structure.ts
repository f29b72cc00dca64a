/** @module Ops that move elements and compute nothing: broadcast, reshape, transpose, slice, pad, concat, reverse, iota. */

import { type DType, dtypes } from "../ir/dtype.ts";
import { equationOf, letters } from "../ir/equation.ts";
import { type KernelCall, type KernelContext, reshapeView, type View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import {
  formatShape,
  formatType,
  otherDims,
  range,
  type Shape,
  sizeOf,
  stridesOf,
  type TensorType,
} from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { eachOffset, gatherStrided, inverseOrder } from "./host.ts";
import { blockStart, splitShape } from "./local.ts";

const f32 = (shape: Shape, values: readonly number[]): HostTensor => ({
  dtype: "f32",
  shape,
  data: Float32Array.from(values),
});

function one(name: string, inputs: readonly TensorType[]): TensorType {
  const [input] = inputs;
  if (input === undefined || inputs.length !== 1)
    throw new HeddleError("op", `${name}: takes 1 input, got ${inputs.length}`);
  return input;
}

const perDim = (name: string, lists: readonly (readonly number[])[], rank: number): void => {
  if (lists.some((list) => list.length !== rank || !list.every(Number.isInteger))) {
    throw new HeddleError(
      "shape",
      `${name}: needs one whole number per dim (${rank}), got ${lists.map(formatShape).join(", ")}`,
    );
  }
};

/** Steps of zero cost in arithmetic: they only move. */
const moves = (): number => 0;

defineOp<{ shape: Shape; dims: readonly number[] }>({
  name: "broadcast",
  doc: "Input dim i becomes output dim dims[i]; sizes of 1 and missing dims are repeated (StableHLO broadcast_in_dim).",
  example: { inputs: [f32([2], [1, 2])], attrs: { shape: [2, 2], dims: [1] }, outputs: [f32([2, 2], [1, 2, 1, 2])] },
  infer: (inputs, { shape, dims }) => {
    const input = one("broadcast", inputs);
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
    const made = otherDims(node.shape.length, dims);
    const stretched = dims.filter((dim, index) => input.shape[index] === 1 && node.shape[dim] !== 1);
    return [emit.reshape(emit.sum(cotangents[0] as Node, [...made, ...stretched]), input.shape)];
  },
  localize: (context) =>
    emit.broadcastInDim(context.inputs[0] as Node, splitShape(context.attrs.shape, context.splits), context.attrs.dims),
  cost: moves,
  reference: ([x], { shape, dims }) => {
    const own = stridesOf((x as HostTensor).shape);
    const strides = new Array<number>(shape.length).fill(0);
    dims.forEach((dim, index) => {
      strides[dim] = x?.shape[index] === 1 ? 0 : (own[index] as number);
    });
    return [gatherStrided((x as HostTensor).data, (x as HostTensor).dtype, shape, strides)];
  },
  lower: {
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
function reshapeGroups(from: Shape, to: Shape): { input: number[]; output: number[] }[] {
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
    const input = one("reshape", inputs);
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
      const source = group.input.find((dim) => from[dim] !== 1);
      const target = group.output.find((dim) => shape[dim] !== 1);
      if (source === undefined || target === undefined) return;
      left[source] = `g${index}`;
      right[target] = `g${index}`;
    });
    return equationOf([left], [right], { whole });
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => [emit.reshape(cotangents[0] as Node, (node.inputs[0] as Node).shape)],
  localize: (context) => emit.reshape(context.inputs[0] as Node, splitShape(context.attrs.shape, context.splits)),
  cost: moves,
  reference: ([x]) => [(x as HostTensor).data.slice()],
  lower: { kind: "view", view: (input, { shape }) => reshapeView(input, shape) },
});

defineOp<{ order: readonly number[] }>({
  name: "transpose",
  doc: "Permutes dims: output dim i is input dim order[i].",
  example: { inputs: [f32([2, 2], [1, 2, 3, 4])], attrs: { order: [1, 0] }, outputs: [f32([2, 2], [1, 3, 2, 4])] },
  infer: (inputs, { order }) => {
    const input = one("transpose", inputs);
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
  lower: {
    kind: "view",
    view: (input, { order }) => ({
      ...input,
      shape: order.map((dim) => input.shape[dim] as number),
      strides: order.map((dim) => input.strides[dim] as number),
    }),
  },
});

type SliceAttrs = { start: readonly number[]; limit: readonly number[]; stride: readonly number[] };

const sliced = (shape: Shape, { start, limit, stride }: SliceAttrs): boolean[] =>
  shape.map((size, dim) => start[dim] !== 0 || limit[dim] !== size || stride[dim] !== 1);

defineOp<SliceAttrs>({
  name: "slice",
  doc: "Elements start, start + stride, … below limit, along each dim.",
  example: {
    inputs: [f32([4], [1, 2, 3, 4])],
    attrs: { start: [1], limit: [4], stride: [2] },
    outputs: [f32([2], [2, 4])],
  },
  infer: (inputs, { start, limit, stride }) => {
    const input = one("slice", inputs);
    perDim("slice", [start, limit, stride], input.shape.length);
    const shape = input.shape.map((size, dim) => {
      const [from, to, step] = [start[dim] as number, limit[dim] as number, stride[dim] as number];
      if (from < 0 || to > size || from > to || step < 1) {
        throw new HeddleError(
          "shape",
          `slice: [${from}, ${to}) by ${step} is not inside dim ${dim} of ${formatType(input)}`,
        );
      }
      return Math.ceil((to - from) / step);
    });
    return { dtype: input.dtype, shape };
  },
  equation: ([input], attrs) => {
    const dims = letters((input as TensorType).shape.length);
    const cut = sliced((input as TensorType).shape, attrs);
    return equationOf([dims], [dims.map((letter, dim) => (cut[dim] ? `${letter}'` : letter))], {
      whole: dims.flatMap((letter, dim) => (cut[dim] ? [letter, `${letter}'`] : [])),
    });
  },
  linear: [[0]],
  gradient: ({ node, cotangents }) => {
    const { start, stride } = node.attrs as SliceAttrs;
    const input = node.inputs[0] as Node;
    const covered = node.shape.map((size, dim) =>
      size === 0 ? 0 : (start[dim] as number) + (size - 1) * (stride[dim] as number) + 1,
    );
    const low = node.shape.map((size, dim) => (size === 0 ? 0 : (start[dim] as number)));
    const high = input.shape.map((size, dim) => size - (covered[dim] as number));
    return [
      emit.pad(
        cotangents[0] as Node,
        emit.constant(node.dtype, 0),
        low,
        high,
        stride.map((step) => step - 1),
      ),
    ];
  },
  localize: (context) => {
    const limit = splitShape(context.attrs.limit, context.splits, "inputs");
    return emit.slice(context.inputs[0] as Node, context.attrs.start, limit, context.attrs.stride);
  },
  cost: moves,
  reference: ([x], { start, stride }, [type]) => {
    const own = stridesOf((x as HostTensor).shape);
    const first = start.reduce((offset, from, dim) => offset + from * (own[dim] as number), 0);
    const strides = own.map((step, dim) => step * (stride[dim] as number));
    return [gatherStrided((x as HostTensor).data, (x as HostTensor).dtype, (type as TensorType).shape, strides, first)];
  },
  lower: {
    kind: "view",
    view: (input, { start, stride }, output) => ({
      ...input,
      offset: input.offset + start.reduce((offset, from, dim) => offset + from * (input.strides[dim] as number), 0),
      shape: output.shape,
      strides: input.strides.map((step, dim) => step * (stride[dim] as number)),
    }),
  },
});

type PadAttrs = { low: readonly number[]; high: readonly number[]; interior: readonly number[] };

const padded = (rank: number, { low, high, interior }: PadAttrs): boolean[] =>
  range(rank).map((dim) => low[dim] !== 0 || high[dim] !== 0 || interior[dim] !== 0);

/** The part of the input that survives negative padding: first kept element and count, along one dim. */
function keptPart(size: number, low: number, outSize: number, step: number): { first: number; count: number } {
  const first = Math.max(0, Math.ceil(-low / step));
  const last = Math.min(size - 1, Math.floor((outSize - 1 - low) / step));
  return { first, count: Math.max(0, last - first + 1) };
}

defineOp<PadAttrs>({
  name: "pad",
  doc: "Puts the scalar second input around (low, high) and between (interior) the elements; negative amounts cut off.",
  example: {
    inputs: [f32([2], [1, 2]), f32([], [0])],
    attrs: { low: [1], high: [0], interior: [1] },
    outputs: [f32([4], [0, 1, 0, 2])],
  },
  infer: (inputs, { low, high, interior }) => {
    const [input, value] = inputs as [TensorType, TensorType];
    if (inputs.length !== 2 || value.shape.length !== 0 || value.dtype !== input.dtype) {
      throw new HeddleError(
        "shape",
        `pad: needs a tensor and a scalar of its dtype, got ${inputs.map(formatType).join(", ")}`,
      );
    }
    perDim("pad", [low, high, interior], input.shape.length);
    const shape = input.shape.map((size, dim) => {
      const between = interior[dim] as number;
      const result = size + Math.max(0, size - 1) * between + (low[dim] as number) + (high[dim] as number);
      if (between < 0 || result < 0) {
        throw new HeddleError(
          "shape",
          `pad: low ${low[dim]}, high ${high[dim]}, interior ${between} do not fit dim ${dim} of ${formatType(input)}`,
        );
      }
      return result;
    });
    return { dtype: input.dtype, shape };
  },
  equation: ([input], attrs) => {
    const dims = letters((input as TensorType).shape.length);
    const cut = padded(dims.length, attrs);
    return equationOf([dims, []], [dims.map((letter, dim) => (cut[dim] ? `${letter}'` : letter))], {
      whole: dims.flatMap((letter, dim) => (cut[dim] ? [letter, `${letter}'`] : [])),
    });
  },
  linear: [[0, 1]],
  gradient: ({ node, cotangents }) => {
    const { low, high, interior } = node.attrs as PadAttrs;
    const dy = cotangents[0] as Node;
    const negate = (list: readonly number[]): number[] => list.map((amount) => -amount || 0);
    const zero = emit.constant(node.dtype, 0);
    // Padding by the negative amounts cuts the borders off again, then every (interior + 1)th element is the input's.
    const cut = emit.pad(dy, zero, negate(low), negate(high));
    const own = emit.slice(
      cut,
      cut.shape.map(() => 0),
      cut.shape,
      interior.map((between) => between + 1),
    );
    return [own, emit.sub(emit.sum(dy), emit.sum(own))];
  },
  localize: absent("attributes hold no sizes"),
  cost: moves,
  reference: ([x, value], { low, interior }, [type]) => {
    const input = x as HostTensor;
    const shape = (type as TensorType).shape;
    const out = dtypes[input.dtype].create(sizeOf(shape)).fill(value?.data[0] as number);
    const outStrides = stridesOf(shape);
    eachOffset(input.shape, stridesOf(input.shape), 0, (linear) => {
      let rest = linear;
      let offset = 0;
      for (let dim = shape.length - 1; dim >= 0; dim--) {
        const size = input.shape[dim] as number;
        const place = (rest % size) * ((interior[dim] as number) + 1) + (low[dim] as number);
        if (place < 0 || place >= (shape[dim] as number)) return;
        offset += place * (outStrides[dim] as number);
        rest = Math.floor(rest / size);
      }
      out[offset] = input.data[linear] as number;
    });
    return [out];
  },
  lower: { kind: "kernel", strided: [0, 1], emit: lowerPad },
});

/** A fused call that copies one view onto another of the same shape. */
export function copyCall(context: Pick<KernelContext<never>, "at">, from: View, to: View): KernelCall {
  return {
    k: "fused",
    shape: to.shape,
    in: [{ at: context.at(from), dtype: from.dtype, strides: from.strides }],
    ops: [],
    out: [{ at: context.at(to), dtype: to.dtype, strides: to.strides, reg: 0 }],
  };
}

function lowerPad(context: KernelContext<PadAttrs>): KernelCall[] {
  const { low, interior } = context.attrs;
  const [x, value] = context.inputs as [View, View];
  const out = context.outputs[0] as View;
  const fill = copyCall(context, { ...value, shape: out.shape, strides: out.shape.map(() => 0) }, out);
  const kept = x.shape.map((size, dim) =>
    keptPart(size, low[dim] as number, out.shape[dim] as number, (interior[dim] as number) + 1),
  );
  const shape = kept.map((part) => part.count);
  if (shape.some((count) => count === 0)) return [fill];
  const from = {
    ...x,
    shape,
    offset: x.offset + kept.reduce((offset, part, dim) => offset + part.first * (x.strides[dim] as number), 0),
  };
  const place = (dim: number): number =>
    (kept[dim]?.first as number) * ((interior[dim] as number) + 1) + (low[dim] as number);
  const to = {
    ...out,
    shape,
    offset: out.offset + out.strides.reduce((offset, step, dim) => offset + place(dim) * step, 0),
    strides: out.strides.map((step, dim) => step * ((interior[dim] as number) + 1)),
  };
  return [fill, copyCall(context, from, to)];
}

// Rules name inputs by index, so the number of inputs has a bound.
const maxConcat = 1024;

defineOp<{ dim: number }>({
  name: "concat",
  doc: "Joins tensors along one dim.",
  example: { inputs: [f32([1], [1]), f32([2], [2, 3])], attrs: { dim: 0 }, outputs: [f32([3], [1, 2, 3])] },
  infer: (inputs, { dim }) => {
    const first = inputs[0];
    if (first === undefined || inputs.length > maxConcat)
      throw new HeddleError("op", `concat: takes 1 to ${maxConcat} inputs, got ${inputs.length}`);
    if (dim < 0 || dim >= first.shape.length)
      throw new HeddleError("shape", `concat: there is no dim ${dim} in ${formatType(first)}`);
    for (const input of inputs) {
      const fits =
        input.shape.length === first.shape.length &&
        input.shape.every((size, index) => index === dim || size === first.shape[index]);
      if (!fits || input.dtype !== first.dtype) {
        throw new HeddleError(
          "shape",
          `concat: inputs differ outside dim ${dim}: ${inputs.map(formatType).join(", ")}`,
        );
      }
    }
    return {
      dtype: first.dtype,
      shape: first.shape.map((size, index) =>
        index === dim ? inputs.reduce((total, input) => total + (input.shape[dim] as number), 0) : size,
      ),
    };
  },
  equation: (inputs, { dim }) => {
    const dims = letters((inputs[0] as TensorType).shape.length);
    const operand = (name: string): string[] => dims.map((letter, index) => (index === dim ? name : letter));
    return equationOf(
      inputs.map((_input, index) => operand(`c${index}`)),
      [operand("c")],
      { whole: ["c", ...inputs.map((_input, index) => `c${index}`)] },
    );
  },
  linear: [range(maxConcat)],
  gradient: ({ node, cotangents }) => {
    const dim = node.attrs.dim as number;
    let from = 0;
    return node.inputs.map((input) => {
      const start = input.shape.map((_size, index) => (index === dim ? from : 0));
      from += input.shape[dim] as number;
      return emit.slice(
        cotangents[0] as Node,
        start,
        input.shape.map((size, index) => (index === dim ? from : size)),
      );
    });
  },
  localize: absent("attributes hold no sizes"),
  cost: moves,
  reference: (inputs, { dim }, [type]) => {
    const { shape, dtype } = type as TensorType;
    const out = dtypes[dtype].create(sizeOf(shape));
    const strides = stridesOf(shape);
    let from = 0;
    for (const input of inputs) {
      eachOffset(input.shape, strides, from * (strides[dim] as number), (linear, offset) => {
        out[offset] = input.data[linear] as number;
      });
      from += input.shape[dim] as number;
    }
    return [out];
  },
  lower: {
    kind: "kernel",
    strided: range(maxConcat),
    emit: (context) => {
      const out = context.outputs[0] as View;
      const { dim } = context.attrs;
      let from = 0;
      return context.inputs.map((input) => {
        const to = { ...out, shape: input.shape, offset: out.offset + from * (out.strides[dim] as number) };
        from += input.shape[dim] as number;
        return copyCall(context, input, to);
      });
    },
  },
});

defineOp<{ dims: readonly number[] }>({
  name: "reverse",
  doc: "Reverses the order of elements along some dims.",
  example: { inputs: [f32([3], [1, 2, 3])], attrs: { dims: [0] }, outputs: [f32([3], [3, 2, 1])] },
  infer: (inputs, { dims }) => {
    const input = one("reverse", inputs);
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
  localize: absent("attributes hold no sizes"),
  cost: moves,
  reference: ([x], { dims }) => {
    const { shape, dtype, data } = x as HostTensor;
    const own = stridesOf(shape);
    const first = dims.reduce(
      (offset, dim) => offset + (own[dim] as number) * Math.max(0, (shape[dim] as number) - 1),
      0,
    );
    return [
      gatherStrided(
        data,
        dtype,
        shape,
        own.map((step, dim) => (dims.includes(dim) ? -step : step)),
        first,
      ),
    ];
  },
  lower: {
    kind: "view",
    view: (input, { dims }) => ({
      ...input,
      offset:
        input.offset +
        dims.reduce(
          (offset, dim) => offset + (input.strides[dim] as number) * Math.max(0, (input.shape[dim] as number) - 1),
          0,
        ),
      strides: input.strides.map((step, dim) => (dims.includes(dim) ? -step : step)),
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
  localize: (context) => {
    const { dtype, shape, dim } = context.attrs;
    const own = emit.iota(dtype, splitShape(shape, context.splits), dim);
    const start = blockStart(shape[dim] as number, dim, context.splits);
    return start === undefined ? own : emit.add(own, emit.cast(start, dtype));
  },
  cost: moves,
  reference: (_inputs, { dtype, shape, dim }) => {
    const out = dtypes[dtype].create(sizeOf(shape));
    const stride = stridesOf(shape)[dim] as number;
    for (let index = 0; index < out.length; index++) out[index] = Math.floor(index / stride) % (shape[dim] as number);
    return [out];
  },
  lower: { kind: "scalar", instruction: (attrs) => ({ name: "iota", dtype: attrs.dtype, literal: attrs.dim }) },
});
