/** @module Ops that cut and join tensors: slice, pad, concat. */

import { dtypes } from "../ir/dtype.ts";
import { equationOf, letters, type WindowRule } from "../ir/equation.ts";
import { type KernelCall, type KernelContext, movingKernel, type View } from "../ir/kernel.ts";
import { absent, type BatchContext, type Batched, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import {
  formatShape,
  formatType,
  range,
  type Shape,
  sameShape,
  sizeOf,
  stridesOf,
  type TensorType,
} from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation, spreadBatch, withBatch } from "./batch.ts";
import * as emit from "./emit.ts";
import { eachOffset, gatherStrided } from "./host-arrays.ts";
import { splitShape } from "./local.ts";
import { copyCall, f32, moves, onlyInput } from "./movement.ts";

const perDim = (name: string, lists: readonly (readonly number[])[], rank: number): void => {
  if (lists.some((list) => list.length !== rank || !list.every(Number.isInteger))) {
    throw new HeddleError(
      "shape",
      `${name}: needs one whole number per dim (${rank}), got ${lists.map(formatShape).join(", ")}`,
    );
  }
};

/** A device with a part of an output dim needs the elements of the same input dim that land in its part. */
function windowsWhere(
  dims: readonly string[],
  cut: readonly boolean[],
  rule: (dim: number) => Pick<WindowRule, "stride" | "low" | "dilation">,
): WindowRule[] {
  return dims.flatMap((letter, dim) =>
    cut[dim] ? [{ by: `${letter}'`, of: letter, ...rule(dim), span: 1, solid: false }] : [],
  );
}

/** For each input of a concat, the part that lands in a device's part of the result. */
function concatWindows(inputs: readonly TensorType[], dim: number): WindowRule[] {
  let low = 0;
  return inputs.map((input, index): WindowRule => {
    const rule = { by: "c", of: `c${index}`, stride: 1, low, span: 1, dilation: 1, solid: false };
    low += input.shape[dim] as number;
    return rule;
  });
}

export type SliceAttrs = { start: readonly number[]; limit: readonly number[]; stride: readonly number[] };

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
    const input = onlyInput("slice", inputs);
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
      windows: windowsWhere(dims, cut, (dim) => ({
        stride: attrs.stride[dim] as number,
        low: -(attrs.start[dim] as number) || 0,
        dilation: 1,
      })),
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
  batch: batchByEquation(({ start, limit, stride }, size) => ({
    start: [0, ...start],
    limit: [size, ...limit],
    stride: [1, ...stride],
  })),
  localize: (context) => {
    const input = context.inputs[0] as Node;
    const windowed = new Set(context.splits.flatMap(({ windows = [] }) => windows.map(({ dim }) => dim)));
    // A window begins at the first element that is taken and ends at the last.
    const start = context.attrs.start.map((from, dim) => (windowed.has(dim) ? 0 : from));
    const limit = splitShape(context.attrs.limit, context.splits, "inputs").map((to, dim) =>
      windowed.has(dim) ? (input.shape[dim] as number) : to,
    );
    return emit.call("slice", [input], { start, limit, stride: context.attrs.stride });
  },
  cost: moves,
  reference: ([x], { start, stride }, [type]) => {
    const inputStrides = stridesOf((x as HostTensor).shape);
    const first = start.reduce((offset, from, dim) => offset + from * (inputStrides[dim] as number), 0);
    const strides = inputStrides.map((step, dim) => step * (stride[dim] as number));
    return [gatherStrided((x as HostTensor).data, (x as HostTensor).dtype, (type as TensorType).shape, strides, first)];
  },
  form: {
    kind: "view",
    view: (input, { start, stride }, output) => ({
      ...input,
      offset: input.offset + start.reduce((offset, from, dim) => offset + from * (input.strides[dim] as number), 0),
      shape: output.shape,
      strides: input.strides.map((step, dim) => step * (stride[dim] as number)),
    }),
  },
});

export type PadAttrs = { low: readonly number[]; high: readonly number[]; interior: readonly number[] };

const padded = (rank: number, { low, high, interior }: PadAttrs): boolean[] =>
  range(rank).map((dim) => low[dim] !== 0 || high[dim] !== 0 || interior[dim] !== 0);

/** The part of the input that survives negative padding: first kept element and count, along one dim. */
function keptPart(size: number, low: number, outSize: number, step: number): { first: number; count: number } {
  const first = Math.max(0, Math.ceil(-low / step));
  const last = Math.min(size - 1, Math.floor((outSize - 1 - low) / step));
  return { first, count: Math.max(0, last - first + 1) };
}

const padOp = defineOp<PadAttrs>({
  name: "pad",
  doc: "Puts the second input, a scalar, around (low, high) and between (interior) the elements; negative amounts cut elements off.",
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
      windows: windowsWhere(dims, cut, (dim) => ({
        stride: 1,
        low: attrs.low[dim] as number,
        dilation: (attrs.interior[dim] as number) + 1,
      })),
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
    const inputCotangent = emit.slice(
      cut,
      cut.shape.map(() => 0),
      cut.shape,
      interior.map((between) => between + 1),
    );
    return [inputCotangent, emit.sub(emit.sum(dy), emit.sum(inputCotangent))];
  },
  batch: batchPad,
  localize: ({ attrs, inputs, splits }) => {
    const [low, high] = [[...attrs.low], [...attrs.high]];
    for (const window of splits.flatMap(({ windows = [] }) => windows)) {
      low[window.dim] = window.low;
      high[window.dim] = window.high;
    }
    return emit.call("pad", inputs, { low, high, interior: attrs.interior });
  },
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
        const position = (rest % size) * ((interior[dim] as number) + 1) + (low[dim] as number);
        if (position < 0 || position >= (shape[dim] as number)) return;
        offset += position * (outStrides[dim] as number);
        rest = Math.floor(rest / size);
      }
      out[offset] = input.data[linear] as number;
    });
    return [out];
  },
  form: movingKernel,
  lower: { strided: [0, 1], emit: lowerPad },
});

/** If the value differs by element of the batch, a padded mask says where it goes. */
function batchPad({ node, inputs, size }: BatchContext<PadAttrs>): Batched[] {
  const [x, value] = inputs as [Batched, Batched];
  const { low, high, interior } = node.attrs;
  const wide = spreadBatch(x, size);
  const padBatch = (what: Node, by: Node): Node => emit.pad(what, by, [0, ...low], [0, ...high], [0, ...interior]);
  if (!value.batched) return [withBatch(padBatch(wide, value.node))];
  const zeroFilled = padBatch(wide, emit.constant(node.dtype, 0));
  const around = padBatch(emit.full("bool", wide.shape, 0), emit.constant("bool", 1));
  return [withBatch(emit.select(around, emit.broadcastInDim(value.node, zeroFilled.shape, [0]), zeroFilled))];
}

function lowerPad(context: KernelContext<PadAttrs>): KernelCall[] {
  const { low, interior } = context.attrs;
  const [x, value] = context.inputs as [View, View];
  const out = context.outputs[0] as View;
  const fill = copyCall(context, { ...value, shape: out.shape, strides: out.shape.map(() => 0) }, out);
  const keptParts = x.shape.map((size, dim) =>
    keptPart(size, low[dim] as number, out.shape[dim] as number, (interior[dim] as number) + 1),
  );
  const shape = keptParts.map((part) => part.count);
  if (shape.some((count) => count === 0)) return [fill];
  const from = {
    ...x,
    shape,
    offset: x.offset + keptParts.reduce((offset, part, dim) => offset + part.first * (x.strides[dim] as number), 0),
  };
  const firstAt = (dim: number): number =>
    (keptParts[dim]?.first as number) * ((interior[dim] as number) + 1) + (low[dim] as number);
  const to = {
    ...out,
    shape,
    offset: out.offset + out.strides.reduce((offset, step, dim) => offset + firstAt(dim) * step, 0),
    strides: out.strides.map((step, dim) => step * ((interior[dim] as number) + 1)),
  };
  return [fill, copyCall(context, from, to)];
}

/** The sum of two cotangents. Parts of a value that lie side by side, as the cotangents of slices do, are joined instead. */
export const sumOfCotangents = (x: Node, y: Node): Node => joined(x, y) ?? joined(y, x) ?? emit.add(x, y);

/** The sum of two values within zeros, where the second lies right behind the first along one dim. */
function joined(x: Node, y: Node): Node | undefined {
  if (x.op !== padOp || y.op !== padOp || x.inputs[1] !== y.inputs[1]) return undefined;
  const [{ low, ...first }, second] = [x.attrs as PadAttrs, y.attrs as PadAttrs];
  const [part, zero] = x.inputs as [Node, Node];
  const dim = low.findIndex((amount, index) => amount !== second.low[index]);
  const behind = low.map((amount, index) => (index === dim ? amount + (part.shape[dim] as number) : amount));
  const isBehind = sameShape(second.low, behind) && first.high.every((by, at) => at === dim || by === second.high[at]);
  const between = [...first.interior, ...second.interior].some((amount) => amount > 0);
  if (dim < 0 || !isBehind || between || zero.attrs["value"] !== 0) return undefined;
  const parts = [part, y.inputs[0] as Node].flatMap((node) =>
    node.op.name === "concat" && node.attrs["dim"] === dim ? node.inputs : [node],
  );
  const value = emit.concat(parts, dim);
  return sameShape(value.shape, x.shape) ? value : emit.pad(value, zero, low, second.high);
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
      if (input.dtype !== first.dtype)
        throw new HeddleError("dtype", `concat: dtypes differ: ${inputs.map(formatType).join(", ")}`, {
          hint: "cast them to one",
        });
      if (!fits) {
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
      { whole: ["c", ...inputs.map((_input, index) => `c${index}`)], windows: concatWindows(inputs, dim) },
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
  batch: batchByEquation(({ dim }) => ({ dim: dim + 1 })),
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
  form: movingKernel,
  lower: {
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
