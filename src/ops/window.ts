/** @module Reductions over sliding windows, and the ops of their gradients. */

import { dtypes, isFloat } from "../ir/dtype.ts";
import { equationOf, letters, type WindowRule } from "../ir/equation.ts";
import type { KernelContext } from "../ir/kernel.ts";
import type { HostTensor, LocalContext, Node, OpDef } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, range, type Shape, sameShape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation } from "./batch.ts";
import * as emit from "./emit.ts";
import { f32 } from "./movement.ts";
import { takesExtreme, takesGradient } from "./narrow-conv/windows.ts";
import { combine, combines, identityOf } from "./reduce.ts";
import { windowProducts } from "./reduce-prod.ts";
import { untouched, type WindowAttrs, windowCalls, windowOrder } from "./window-lower.ts";

/** The extent of a window along a dim, with the gaps of its dilation. */
const spanOf = ({ window, dilation }: WindowAttrs, dim: number): number =>
  ((window[dim] as number) - 1) * (dilation?.[dim] ?? 1) + 1;

/** Windows do not move along the batch dim. */
const batchWindows = batchByEquation<WindowAttrs>(({ op, window, strides, padding, dilation }) => ({
  op,
  window: [1, ...window],
  strides: [1, ...strides],
  padding: [[0, 0], ...padding],
  ...(dilation === undefined ? {} : { dilation: [1, ...dilation] }),
}));

function windowShape(name: string, input: TensorType, attrs: WindowAttrs): number[] {
  const rank = input.shape.length;
  const lists = [attrs.window, attrs.strides, attrs.padding, attrs.dilation ?? attrs.window];
  if (lists.some((list) => list.length !== rank)) {
    throw new HeddleError(
      "shape",
      `${name}: window, strides and padding need one entry per dim of ${formatType(input)}`,
    );
  }
  return input.shape.map((size, dim) => {
    // The size may be 0: no window needs to fit.
    if (untouched(attrs, dim)) return size;
    const fault = faultOf(attrs, dim, size);
    if (fault !== undefined)
      throw new HeddleError("shape", `${name}: ${fault}, along dim ${dim} of ${formatType(input)}`);
    const [low, high] = attrs.padding[dim] as readonly [number, number];
    return Math.floor((size + low + high - spanOf(attrs, dim)) / (attrs.strides[dim] as number)) + 1;
  });
}

/** What is wrong with the windows along a dim: an attribute, or that they do not fit; undefined if nothing is. */
function faultOf(attrs: WindowAttrs, dim: number, size: number): string | undefined {
  const [low, high] = attrs.padding[dim] as readonly [number, number];
  const [window, stride] = [attrs.window[dim] as number, attrs.strides[dim] as number];
  const [gap, span] = [attrs.dilation?.[dim] ?? 1, spanOf(attrs, dim)];
  const named = Object.entries({ window, strides: stride, dilation: gap }).find(([, value]) => value < 1);
  if (named !== undefined) return `${named.join(" ")} is less than 1`;
  const least = Math.min(low, high);
  if (least < 0) return `padding ${least} is less than 0`;
  const spread = gap === 1 ? `window ${window}` : `window ${window} with dilation ${gap}, which spans ${span},`;
  const padded = low === 0 && high === 0 ? "" : `, with padding ${low} and ${high}`;
  if (size + low + high < span) return `${spread} does not fit into the ${size} elements${padded}`;
  // A window that lies in the padding only has no extreme.
  const most = Math.max(low, high);
  if (most >= span) return `padding ${most} holds a whole window of ${span}`;
  return meetsInput(attrs, dim, size) ? undefined : `${spread} steps over all ${size} elements${padded}`;
}

/** Whether every window has an element inside: with gaps between its elements it may step over a short input. */
function meetsInput(attrs: WindowAttrs, dim: number, size: number): boolean {
  const gap = attrs.dilation?.[dim] ?? 1;
  if (gap <= size) return true;
  const [low, high] = attrs.padding[dim] as readonly [number, number];
  const [stride, span] = [attrs.strides[dim] as number, spanOf(attrs, dim)];
  const positions = range(Math.floor((size + low + high - span) / stride) + 1);
  return positions.every((position) =>
    range(attrs.window[dim] as number).some((tap) => {
      const element = position * stride + tap * gap - low;
      return element >= 0 && element < size;
    }),
  );
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
              span: spanOf(attrs, dim),
              dilation: 1,
              solid: true,
            },
          ],
    );
    return equationOf(operands.map(side), [side(output)], { whole, windows });
  };
}

/** The op on one device, whose neighbours have sent the rest of its windows: padding is only at the borders. */
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
        const element =
          (p % outSize) * (attrs.strides[dim] as number) +
          (t % window) * (attrs.dilation?.[dim] ?? 1) -
          (attrs.padding[dim]?.[0] as number);
        p = Math.floor(p / outSize);
        t = Math.floor(t / window);
        offset = element < 0 || element >= (input[dim] as number) ? -1 : offset + element * (strides[dim] as number);
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

const example = f32([1, 4], [1, 3, 2, 0]);
const exampleAttrs: WindowAttrs = {
  op: "max",
  window: [1, 2],
  strides: [1, 2],
  padding: [
    [0, 0],
    [0, 0],
  ],
};

defineOp<WindowAttrs>({
  name: "reduceWindow",
  doc: "Reduces each window of a sliding window by sum, prod, max, min, and, or; padding counts as the identity, `dilation` puts gaps between a window's elements. Max and min propagate NaN.",
  example: { inputs: [example], attrs: exampleAttrs, outputs: [f32([1, 2], [3, 2])] },
  infer: (inputs, attrs) => {
    const input = inputs[0] as TensorType;
    if (!combines(attrs.op, input.dtype))
      throw new HeddleError("dtype", `reduceWindow ${attrs.op}: not defined for ${formatType(input)}`);
    return { dtype: input.dtype, shape: windowShape("reduceWindow", input, attrs) };
  },
  equation: windowEquation(["input"], "output"),
  linear: ({ op }) => (op === "sum" ? [[0]] : []),
  gradient: ({ node, cotangents }) => {
    const x = node.inputs[0] as Node;
    const dy = cotangents[0] as Node;
    const attrs = node.attrs as WindowAttrs;
    if (attrs.op === "prod") return [windowProductGradient(x, dy, attrs)];
    if (attrs.op !== "sum") return [emit.call("selectAndScatter", [x, dy], attrs)];
    // Each input sums the cotangents of the windows that cover it: a windowed sum of the cotangent, spread out by the strides.
    const spread = attrs.strides.map((stride) => stride - 1);
    const low = attrs.window.map((_window, dim) => spanOf(attrs, dim) - 1 - (attrs.padding[dim]?.[0] as number));
    const high = x.shape.map(
      (size, dim) =>
        size +
        spanOf(attrs, dim) -
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
        ...(attrs.dilation === undefined ? {} : { dilation: attrs.dilation }),
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
      let total = identityOf(attrs.op, dtype);
      const rule = combine[attrs.op];
      for (let index = 0; index < count; index++) total = rule(total, data[offsets[index] as number] as number, dtype);
      out[position] = total;
    });
    return [out];
  },
  form: { kind: "kernel" },
  lower: {
    strided: [0],
    outputOrder: windowOrder,
    takesHalf: takesExtreme,
    emit: (context) =>
      context.attrs.op === "prod"
        ? windowProducts(context as KernelContext<never>, context.attrs)
        : windowCalls(context, "reduceWindow"),
  },
});

/** For each element, the sum over its windows of the cotangent times the product of the window's other elements. */
function windowProductGradient(x: Node, dy: Node, attrs: WindowAttrs): Node {
  const { window, strides, padding } = attrs;
  const [low, high] = [padding.map(([before]) => before), padding.map(([, after]) => after)];
  const padded = emit.pad(x, emit.constant(x.dtype, 1), low, high);
  const starts = range(sizeOf(window)).map((tap) =>
    window.map(
      (size, dim) => (Math.floor(tap / (stridesOf(window)[dim] as number)) % size) * (attrs.dilation?.[dim] ?? 1),
    ),
  );
  const limit = (start: readonly number[]): number[] =>
    start.map((from, dim) => from + ((dy.shape[dim] as number) - 1) * (strides[dim] as number) + 1);
  const taps = starts.map((start) => emit.slice(padded, start, limit(start), strides));
  // Products of the taps before and after each one.
  const before: Node[] = [dy];
  for (const tap of taps.slice(0, -1)) before.push(emit.mul(before.at(-1) as Node, tap));
  let after: Node | undefined;
  let total: Node | undefined;
  for (let tap = taps.length - 1; tap >= 0; tap--) {
    const share = after === undefined ? (before[tap] as Node) : emit.mul(before[tap] as Node, after);
    after = after === undefined ? (taps[tap] as Node) : emit.mul(after, taps[tap] as Node);
    const start = starts[tap] as number[];
    const end = limit(start);
    const placed = emit.pad(
      share,
      emit.constant(x.dtype, 0),
      start,
      padded.shape.map((size, dim) => size - (end[dim] as number)),
      strides.map((stride) => stride - 1),
    );
    total = total === undefined ? placed : emit.add(total, placed);
  }
  const inside = x.shape.map((size, dim) => size + (low[dim] as number));
  return emit.slice(total as Node, low, inside);
}

/** Defines an op whose second input has a value for each window, or element, of the first, the transpose of another op. */
function defineWithSource(
  name: "selectAndScatter" | "windowTake",
  source: "input" | "output",
  definition: Pick<OpDef<WindowAttrs>, "doc" | "example" | "reference">,
): void {
  const result = source === "input" ? "output" : "input";
  const transpose = source === "input" ? "selectAndScatter" : "windowTake";
  defineOp<WindowAttrs>({
    ...definition,
    name,
    infer(inputs, attrs) {
      const [x, values] = inputs as [TensorType, TensorType];
      const shapes = { input: x.shape, output: windowShape(name, x, attrs) };
      const expected = { dtype: x.dtype, shape: shapes[source] };
      if (attrs.op !== "max" && attrs.op !== "min")
        throw new HeddleError("op", `${name}: ${attrs.op} has no extreme; use max or min`);
      if (!isFloat(x.dtype)) throw new HeddleError("dtype", `${name}: not defined for ${formatType(x)}`);
      if (values.dtype === x.dtype && sameShape(values.shape, expected.shape))
        return { dtype: x.dtype, shape: shapes[result] };
      const wrong = `for ${formatType(x)} the second input must be ${formatType(expected)}, got ${formatType(values)}`;
      throw new HeddleError("shape", `${name}: ${wrong}`);
    },
    equation: windowEquation(["input", source], result),
    linear: [[1]],
    gradient: ({ node, cotangents }) => [
      undefined,
      emit.call(transpose, [node.inputs[0] as Node, cotangents[0] as Node], node.attrs as WindowAttrs),
    ],
    batch: batchWindows,
    localize: localWindows(name),
    cost: (inputs, outputs, attrs) => {
      const windows = (source === "output" ? inputs[1] : outputs[0]) as TensorType;
      return sizeOf(windows.shape) * sizeOf(attrs.window);
    },
    form: { kind: "kernel" },
    lower: {
      strided: [0, 1],
      outputOrder: windowOrder,
      takesHalf: (inputs, attrs) => source === "output" && takesGradient(inputs, attrs),
      emit: (context) => windowCalls(context, name),
    },
  });
}

defineWithSource("selectAndScatter", "output", {
  doc: "Adds each value of the second input at the position of its window's extreme in the first (first in row-major order): the gradient of windowed max.",
  example: { inputs: [example, f32([1, 2], [5, 7])], attrs: exampleAttrs, outputs: [f32([1, 4], [0, 5, 7, 0])] },
  reference: ([x, source], attrs) => {
    const { dtype, data, shape } = x as HostTensor;
    const total = new Float64Array(data.length);
    eachWindow(shape, (source as HostTensor).shape, attrs, (position, offsets, count) => {
      (total[winner(data, offsets, count, attrs.op)] as number) += source?.data[position] as number;
    });
    return [dtypes[dtype].create(total)];
  },
});

defineWithSource("windowTake", "input", {
  doc: "For each window, the value of the second input at the position of the window's extreme in the first: the transpose of selectAndScatter.",
  example: { inputs: [example, f32([1, 4], [10, 20, 30, 40])], attrs: exampleAttrs, outputs: [f32([1, 2], [20, 30])] },
  reference: ([x, source], attrs, [type]) => {
    const { dtype, data, shape } = x as HostTensor;
    const outShape = (type as TensorType).shape;
    const out = dtypes[dtype].create(sizeOf(outShape));
    eachWindow(shape, outShape, attrs, (position, offsets, count) => {
      out[position] = source?.data[winner(data, offsets, count, attrs.op)] as number;
    });
    return [out];
  },
});
