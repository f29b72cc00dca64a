/** @module Reductions over sliding windows, and what their gradients need. */

import { dtypes, isFloat } from "../ir/dtype.ts";
import { equationOf, letters, type WindowRule } from "../ir/equation.ts";
import { denseOrder, isContiguous, type KernelCall, type KernelContext, permuteView, type View } from "../ir/kernel.ts";
import type { HostTensor, LocalContext, Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, range, type Shape, sameShape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import { type HloValue, hloCombine, hloIntegers, hloTable } from "../ir/stablehlo.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import * as emit from "./emit.ts";
import { hloExtreme, hloKeeps, hloPlaces, hloReductions } from "./hlo.ts";
import { identityOf } from "./reduce.ts";
import { copyCall } from "./structure.ts";

export type WindowAttrs = {
  op: "max" | "min" | "sum";
  window: readonly number[];
  strides: readonly number[];
  padding: readonly (readonly [number, number])[];
};

const untouched = (attrs: WindowAttrs, dim: number): boolean =>
  attrs.window[dim] === 1 && attrs.strides[dim] === 1 && attrs.padding[dim]?.[0] === 0 && attrs.padding[dim]?.[1] === 0;

/** Windows do not move along the batch. */
const batchWindows = batchByEquation<WindowAttrs>(({ op, window, strides, padding }) => ({
  op,
  window: [1, ...window],
  strides: [1, ...strides],
  padding: [[0, 0], ...padding],
}));

function windowShape(name: string, input: TensorType, attrs: WindowAttrs): number[] {
  const rank = input.shape.length;
  if ([attrs.window, attrs.strides, attrs.padding].some((list) => list.length !== rank)) {
    throw new HeddleError(
      "shape",
      `${name}: window, strides and padding need one entry per dim of ${formatType(input)}`,
    );
  }
  return input.shape.map((size, dim) => {
    // Also where there is nothing: no window needs to fit.
    if (untouched(attrs, dim)) return size;
    const [low, high] = attrs.padding[dim] as readonly [number, number];
    const [window, stride] = [attrs.window[dim] as number, attrs.strides[dim] as number];
    // A window that lies in the padding alone has no extreme.
    if (
      window < 1 ||
      stride < 1 ||
      low < 0 ||
      high < 0 ||
      low >= window ||
      high >= window ||
      size + low + high < window
    ) {
      throw new HeddleError(
        "shape",
        `${name}: a window of ${window} by ${stride} with padding ${low}, ${high} does not fit dim ${dim} of ${formatType(input)}`,
      );
    }
    return Math.floor((size + low + high - window) / stride) + 1;
  });
}

function windowEquation(operands: readonly ("input" | "output")[], output: "input" | "output") {
  return (inputs: readonly TensorType[], attrs: WindowAttrs) => {
    const all = letters((inputs[0] as TensorType).shape.length);
    const outside = all.map((letter, dim) => (untouched(attrs, dim) ? letter : `${letter}'`));
    const side = (kind: "input" | "output"): string[] => (kind === "input" ? all : outside);
    const whole = all.flatMap((letter, dim) => (untouched(attrs, dim) ? [] : [letter, `${letter}'`]));
    const windows = all.flatMap((letter, dim): WindowRule[] =>
      untouched(attrs, dim)
        ? []
        : [
            {
              by: `${letter}'`,
              of: letter,
              stride: attrs.strides[dim] as number,
              low: attrs.padding[dim]?.[0] as number,
              span: attrs.window[dim] as number,
              dilation: 1,
              solid: true,
            },
          ],
    );
    return equationOf(operands.map(side), [side(output)], { whole, windows });
  };
}

/** The op on windows that a device's neighbours have completed: only at the borders is there padding. */
function localWindows(name: string) {
  return ({ attrs, inputs, splits }: LocalContext<WindowAttrs>): Node => {
    const padding = splits
      .flatMap(({ windows = [] }) => windows)
      .filter(({ side, operand }) => side === "input" && operand === 0)
      .reduce<WindowAttrs["padding"]>(
        (list, { dim, low, high }) => list.map((old, d) => (d === dim ? [low, high] : old)),
        attrs.padding,
      );
    return emit.call(name, inputs, { ...attrs, padding });
  };
}

/** Calls `visit(position, offsets)` with the input offsets of each window, in row-major order. */
function eachWindow(
  input: Shape,
  output: Shape,
  attrs: WindowAttrs,
  visit: (position: number, offsets: Int32Array, count: number) => void,
): void {
  const rank = input.length;
  const strides = stridesOf(input);
  const taps = sizeOf(attrs.window);
  const offsets = new Int32Array(taps);
  const size = sizeOf(output);
  for (let position = 0; position < size; position++) {
    let count = 0;
    for (let tap = 0; tap < taps; tap++) {
      let [p, t, offset] = [position, tap, 0];
      for (let dim = rank - 1; dim >= 0 && offset >= 0; dim--) {
        const [outSize, window] = [output[dim] as number, attrs.window[dim] as number];
        const place =
          (p % outSize) * (attrs.strides[dim] as number) + (t % window) - (attrs.padding[dim]?.[0] as number);
        p = Math.floor(p / outSize);
        t = Math.floor(t / window);
        offset = place < 0 || place >= (input[dim] as number) ? -1 : offset + place * (strides[dim] as number);
      }
      if (offset >= 0) offsets[count++] = offset;
    }
    visit(position, offsets, count);
  }
}

/** The offset in the window that holds the extreme: the first in row-major order; the first NaN. */
function winner(data: HostTensor["data"], offsets: Int32Array, count: number, op: WindowAttrs["op"]): number {
  let best = offsets[0] as number;
  for (let index = 1; index < count; index++) {
    const held = data[best] as number;
    if (Number.isNaN(held)) return best;
    const value = data[offsets[index] as number] as number;
    if (Number.isNaN(value) || (op === "min" ? value < held : value > held)) best = offsets[index] as number;
  }
  return best;
}

const hloWindow = ({ window, strides, padding }: WindowAttrs) => ({
  window_dimensions: hloIntegers(window),
  window_strides: hloIntegers(strides),
  padding: hloTable(padding, 2),
});

const example: HostTensor = { dtype: "f32", shape: [1, 4], data: Float32Array.of(1, 3, 2, 0) };
const exampleAttrs: WindowAttrs = {
  op: "max",
  window: [1, 2],
  strides: [1, 2],
  padding: [
    [0, 0],
    [0, 0],
  ],
};
const f32 = (shape: Shape, values: readonly number[]): HostTensor => ({
  dtype: "f32",
  shape,
  data: Float32Array.from(values),
});

defineOp<WindowAttrs>({
  name: "reduceWindow",
  doc: "Reduces each window of a sliding window by sum, max or min; padding counts as the identity. Max propagates NaN.",
  example: { inputs: [example], attrs: exampleAttrs, outputs: [f32([1, 2], [3, 2])] },
  infer: (inputs, attrs) => {
    const input = inputs[0] as TensorType;
    if (input.dtype === "bool") throw new HeddleError("dtype", `reduceWindow: not defined for ${formatType(input)}`);
    return { dtype: input.dtype, shape: windowShape("reduceWindow", input, attrs) };
  },
  equation: windowEquation(["input"], "output"),
  linear: ({ op }) => (op === "sum" ? [[0]] : []),
  gradient: ({ node, cotangents }) => {
    const x = node.inputs[0] as Node;
    const dy = cotangents[0] as Node;
    const attrs = node.attrs as WindowAttrs;
    if (attrs.op !== "sum") return [emit.call("selectAndScatter", [x, dy], attrs)];
    // Each input is in the windows that cover it: a sum over windows of the cotangent, spread out by the strides.
    const spread = attrs.strides.map((stride) => stride - 1);
    const low = attrs.window.map((window, dim) => window - 1 - (attrs.padding[dim]?.[0] as number));
    const high = x.shape.map(
      (size, dim) =>
        size +
        (attrs.window[dim] as number) -
        1 -
        (low[dim] as number) -
        (dy.shape[dim] === 0 ? 0 : ((dy.shape[dim] as number) - 1) * (attrs.strides[dim] as number) + 1),
    );
    const padded = emit.pad(dy, emit.constant(dy.dtype, 0), low, high, spread);
    return [
      emit.call("reduceWindow", [padded], {
        op: "sum",
        window: attrs.window,
        strides: attrs.window.map(() => 1),
        padding: attrs.window.map(() => [0, 0]),
      }),
    ];
  },
  batch: batchWindows,
  localize: localWindows("reduceWindow"),
  cost: (_inputs, outputs, attrs) => sizeOf((outputs[0] as TensorType).shape) * sizeOf(attrs.window),
  reference: ([x], attrs, [type]) => {
    const { dtype, data, shape } = x as HostTensor;
    const outShape = (type as TensorType).shape;
    const out = dtypes[dtype].create(sizeOf(outShape)).fill(identityOf(attrs.op, dtype));
    eachWindow(shape, outShape, attrs, (position, offsets, count) => {
      if (attrs.op === "sum") {
        let total = identityOf("sum", dtype);
        for (let index = 0; index < count; index++) total += data[offsets[index] as number] as number;
        out[position] = total;
      } else if (count > 0) out[position] = data[winner(data, offsets, count, attrs.op)] as number;
    });
    return [out];
  },
  stablehlo: ({ hlo, inputs, outputs, attrs }) => {
    const { dtype } = outputs[0] as TensorType;
    const start = hlo.constant({ shape: [], dtype }, identityOf(attrs.op, dtype));
    const combined = hloCombine(hloReductions[attrs.op], dtype);
    return hlo.op("reduce_window", [inputs[0] as HloValue, start], outputs, hloWindow(attrs), [combined]);
  },
  lower: {
    kind: "kernel",
    strided: [0],
    outputOrder: windowOrder,
    emit: (context) => windowCalls(context, "reduceWindow", { in: 0 }),
  },
});

function inferWithSource(name: string, source: "input" | "output") {
  return (inputs: readonly TensorType[], attrs: WindowAttrs): TensorType => {
    const [x, values] = inputs as [TensorType, TensorType];
    const outside = windowShape(name, x, attrs);
    const expected = source === "input" ? x.shape : outside;
    if (attrs.op === "sum") throw new HeddleError("op", `${name}: a sum has no extreme; use max or min`);
    if (!isFloat(x.dtype)) throw new HeddleError("dtype", `${name}: not defined for ${formatType(x)}`);
    if (values.dtype !== x.dtype || !sameShape(values.shape, expected)) {
      throw new HeddleError(
        "shape",
        `${name}: for ${formatType(x)} the second input must be ${formatType({ dtype: x.dtype, shape: expected })}, got ${formatType(values)}`,
      );
    }
    return { dtype: x.dtype, shape: source === "input" ? outside : x.shape };
  };
}

defineOp<WindowAttrs>({
  name: "selectAndScatter",
  doc: "Adds each value of the second input at the place of its window's extreme in the first (first in row-major order): the gradient of windowed max.",
  example: { inputs: [example, f32([1, 2], [5, 7])], attrs: exampleAttrs, outputs: [f32([1, 4], [0, 5, 7, 0])] },
  infer: inferWithSource("selectAndScatter", "output"),
  equation: windowEquation(["input", "output"], "input"),
  linear: [[1]],
  gradient: ({ node, cotangents }) => [
    undefined,
    emit.call("windowTake", [node.inputs[0] as Node, cotangents[0] as Node], node.attrs as WindowAttrs),
  ],
  batch: batchWindows,
  localize: localWindows("selectAndScatter"),
  cost: (inputs, _outputs, attrs) => sizeOf((inputs[1] as TensorType).shape) * sizeOf(attrs.window),
  reference: ([x, source], attrs) => {
    const { dtype, data, shape } = x as HostTensor;
    const total = new Float64Array(data.length);
    eachWindow(shape, (source as HostTensor).shape, attrs, (position, offsets, count) => {
      (total[winner(data, offsets, count, attrs.op)] as number) += source?.data[position] as number;
    });
    return [dtypes[dtype].create(total)];
  },
  stablehlo: ({ hlo, inputs, outputs, attrs }) => {
    const { dtype } = outputs[0] as TensorType;
    const zero = hlo.constant({ shape: [], dtype }, 0);
    const regions = [hloKeeps(attrs.op, dtype), hloCombine("add", dtype)];
    return hlo.op("select_and_scatter", [...inputs, zero], outputs, hloWindow(attrs), regions);
  },
  lower: {
    kind: "kernel",
    strided: [0, 1],
    outputOrder: windowOrder,
    emit: (context) => windowCalls(context, "selectAndScatter", { in: 0, source: 1 }),
  },
});

defineOp<WindowAttrs>({
  name: "windowTake",
  doc: "For each window, the value of the second input at the place of the window's extreme in the first: the transpose of selectAndScatter.",
  example: { inputs: [example, f32([1, 4], [10, 20, 30, 40])], attrs: exampleAttrs, outputs: [f32([1, 2], [20, 30])] },
  infer: inferWithSource("windowTake", "input"),
  equation: windowEquation(["input", "input"], "output"),
  linear: [[1]],
  gradient: ({ node, cotangents }) => [
    undefined,
    emit.call("selectAndScatter", [node.inputs[0] as Node, cotangents[0] as Node], node.attrs as WindowAttrs),
  ],
  batch: batchWindows,
  localize: localWindows("windowTake"),
  cost: (_inputs, outputs, attrs) => sizeOf((outputs[0] as TensorType).shape) * sizeOf(attrs.window),
  reference: ([x, source], attrs, [type]) => {
    const { dtype, data, shape } = x as HostTensor;
    const outShape = (type as TensorType).shape;
    const out = dtypes[dtype].create(sizeOf(outShape));
    eachWindow(shape, outShape, attrs, (position, offsets, count) => {
      out[position] = source?.data[winner(data, offsets, count, attrs.op)] as number;
    });
    return [out];
  },
  stablehlo: ({ hlo, inputs, outputs, attrs }) => {
    const [x, source] = inputs as [HloValue, HloValue];
    const { shape, dtype } = outputs[0] as TensorType;
    const places = hloPlaces(hlo, x.type.shape);
    const scalar = (value: number): HloValue => hlo.constant({ shape: [], dtype }, value);
    const starts = [scalar(identityOf(attrs.op, dtype)), places.none, scalar(0)];
    const types = [outputs[0] as TensorType, { shape, dtype: "i32" as const }, outputs[0] as TensorType];
    const region = hloExtreme(attrs.op === "min" ? "min" : "max", [dtype, "i32", dtype]);
    return hlo.op("reduce_window", [x, places.places, source, ...starts], types, hloWindow(attrs), [region]).slice(2);
  },
  lower: {
    kind: "kernel",
    strided: [0, 1],
    outputOrder: windowOrder,
    emit: (context) => windowCalls(context, "windowTake", { in: 0, source: 1 }),
  },
});

/**
 * The order in which the kernels see dims: the input's own, if in it the moving dims are neighbours in ascending order
 * (so that the first of ties is the same); else row-major.
 */
function windowOrder(attrs: WindowAttrs, [input]: readonly View[]): number[] {
  const rank = (input as View).shape.length;
  const order = denseOrder(input as View) ?? range(rank);
  const moving = range(rank).filter((dim) => !untouched(attrs, dim));
  const first = order.indexOf(moving[0] ?? 0);
  return moving.every((dim, index) => order[first + index] === dim) ? order : range(rank);
}

/** The kernels slide over two neighbouring dims; dims before them merge into n, dims after into c. */
function windowCalls(
  context: KernelContext<WindowAttrs>,
  k: string,
  operands: { readonly in: number; readonly source?: number },
): KernelCall[] {
  const order = windowOrder(context.attrs, context.inputs);
  const pick = <T>(list: readonly T[]): T[] => order.map((dim) => list[dim] as T);
  const attrs: WindowAttrs = {
    op: context.attrs.op,
    window: pick(context.attrs.window),
    strides: pick(context.attrs.strides),
    padding: pick(context.attrs.padding),
  };
  const x = context.contiguous(permuteView(context.inputs[operands.in] as View, order));
  const source =
    operands.source === undefined
      ? undefined
      : context.contiguous(permuteView(context.inputs[operands.source] as View, order));
  const target = permuteView(context.outputs[0] as View, order);
  const out = isContiguous(target) ? target : context.temporary(target);
  const windowed = k === "selectAndScatter" && source !== undefined ? source.view.shape : out.shape;
  const { shape } = x.view;
  const moving = range(shape.length).filter((dim) => !untouched(attrs, dim));
  const last = Math.max(1, moving.at(-1) ?? 1);
  const first = last - 1;
  if (shape.length < 2 || moving.some((dim) => dim < first))
    throw new HeddleError("lower", `${k}: no native kernel for windows over dims ${moving.join(", ")}`);
  const call: KernelCall = {
    k,
    op: attrs.op,
    dtype: x.view.dtype,
    n: sizeOf(shape.slice(0, first)),
    h: shape[first],
    w: shape[last],
    c: sizeOf(shape.slice(last + 1)),
    oh: windowed[first],
    ow: windowed[last],
    window: attrs.window.slice(first, last + 1),
    strides: attrs.strides.slice(first, last + 1),
    padding: attrs.padding.slice(first, last + 1),
    in: context.at(x.view),
    ...(source === undefined ? {} : { source: context.at(source.view) }),
    out: context.at(out),
  };
  return [...x.calls, ...(source?.calls ?? []), call, ...(out === target ? [] : [copyCall(context, out, target)])];
}
