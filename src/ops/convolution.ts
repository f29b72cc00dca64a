/**
 * @module Convolution in the general form of StableHLO. `layout` names the dims by letters: `b` batch, `f` feature, `i`
 * and `o` input and output feature of the kernel, digits for spatial dims; `"bf01,oi01->bf01"` is PyTorch's. Because any
 * dim may play any part, both gradients are convolutions too.
 */

import { dtypes, isFloat } from "../ir/dtype.ts";
import { type Equation, equationOf, type WindowRule } from "../ir/equation.ts";
import { type KernelCall, type KernelContext, permuteView, type View } from "../ir/kernel.ts";
import type { BatchContext, Batched, HostTensor, Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, type Shape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import { hloFullPrecision, hloIntegers, hloTable } from "../ir/stablehlo.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByLoop, moveDim, withBatch } from "./batch.ts";
import * as emit from "./emit.ts";
import { gatherStrided, inverseOrder, permuted } from "./host.ts";
import { copyCall } from "./structure.ts";

export type ConvAttrs = {
  layout: string;
  strides: readonly number[];
  padding: readonly (readonly [number, number])[];
  inputDilation: readonly number[];
  kernelDilation: readonly number[];
};

interface ConvDims {
  /** Letters of each operand. */
  readonly x: string;
  readonly kernel: string;
  readonly out: string;
  readonly spatial: readonly string[];
}

export function convDims(layout: string): ConvDims {
  const [left, out] = layout.split("->");
  const [x, kernel] = (left ?? "").split(",");
  if (x === undefined || kernel === undefined || out === undefined)
    throw new HeddleError("op", `conv: '${layout}' is not a layout`);
  return { x, kernel, out, spatial: [...x].filter((letter) => letter >= "0" && letter <= "9").sort() };
}

/** Each operand must have each of its letters once, and all the same digits from 0 up. */
function checkLayout(layout: string): void {
  const { x, kernel, out, spatial } = convDims(layout);
  const digits = spatial.map((_digit, index) => String(index)).join("");
  const sorted = (letters: string): string => [...letters].sort().join("");
  if (sorted(x) !== `${digits}bf` || sorted(kernel) !== `${digits}io` || sorted(out) !== `${digits}bf`) {
    throw new HeddleError("op", `conv: '${layout}' is not a layout`, {
      hint: "name each dim once, as in 'bf01,oi01->bf01'",
    });
  }
}

const sizeAt = (shape: Shape, letters: string, letter: string): number => shape[letters.indexOf(letter)] as number;

/** Sizes of the parts of a convolution, spatial sizes in order of their digits. */
function convSizes(inputs: readonly TensorType[], attrs: ConvAttrs) {
  const [x, kernel] = inputs as [TensorType, TensorType];
  const dims = convDims(attrs.layout);
  return {
    dims,
    batch: sizeAt(x.shape, dims.x, "b"),
    features: sizeAt(x.shape, dims.x, "f"),
    outFeatures: sizeAt(kernel.shape, dims.kernel, "o"),
    input: dims.spatial.map((digit) => sizeAt(x.shape, dims.x, digit)),
    window: dims.spatial.map((digit) => sizeAt(kernel.shape, dims.kernel, digit)),
  };
}

const dilated = (size: number, dilation: number): number => (size === 0 ? 0 : (size - 1) * dilation + 1);

function inferConv(inputs: readonly TensorType[], attrs: ConvAttrs): TensorType {
  const [x, kernel] = inputs as [TensorType, TensorType];
  if (inputs.length !== 2) throw new HeddleError("op", `conv: takes 2 inputs, got ${inputs.length}`);
  const dims = convDims(attrs.layout);
  checkLayout(attrs.layout);
  const what = `conv ${attrs.layout} of ${formatType(x)} by ${formatType(kernel)}`;
  if (x.shape.length !== dims.x.length || kernel.shape.length !== dims.kernel.length) {
    throw new HeddleError("shape", `${what}: needs ${dims.x.length} and ${dims.kernel.length} dims`);
  }
  if (x.dtype !== kernel.dtype || !isFloat(x.dtype))
    throw new HeddleError("dtype", `${what}: needs two floats of one dtype`);
  const sizes = convSizes(inputs, attrs);
  if (sizeAt(kernel.shape, dims.kernel, "i") !== sizes.features) {
    throw new HeddleError(
      "shape",
      `${what}: the input has ${sizes.features} features, the kernel takes ${sizeAt(kernel.shape, dims.kernel, "i")}`,
    );
  }
  const rank = dims.spatial.length;
  if ([attrs.strides, attrs.padding, attrs.inputDilation, attrs.kernelDilation].some((list) => list.length !== rank)) {
    throw new HeddleError("shape", `${what}: strides, padding and dilations need one entry per spatial dim (${rank})`);
  }
  if (
    ![...attrs.strides, ...attrs.inputDilation, ...attrs.kernelDilation].every(
      (step) => Number.isInteger(step) && step >= 1,
    )
  ) {
    throw new HeddleError("shape", `${what}: strides and dilations are 1 or more`);
  }
  const shape = [...dims.out].map((letter) => {
    if (letter === "b") return sizes.batch;
    if (letter === "f") return sizes.outFeatures;
    const d = dims.spatial.indexOf(letter);
    const [low, high] = attrs.padding[d] as readonly [number, number];
    const length = dilated(sizes.input[d] as number, attrs.inputDilation[d] as number) + low + high;
    const span = dilated(sizes.window[d] as number, attrs.kernelDilation[d] as number);
    if (length < span) {
      throw new HeddleError(
        "shape",
        `${what}: a window of ${span} does not fit ${length} padded elements of spatial dim ${d}`,
      );
    }
    return Math.floor((length - span) / (attrs.strides[d] as number)) + 1;
  });
  return { dtype: x.dtype, shape };
}

function convEquation(inputs: readonly TensorType[], attrs: ConvAttrs): Equation {
  const dims = convDims(attrs.layout);
  const name = (prefix: string, feature: string) => (letter: string) =>
    letter === "b" ? "b" : letter === "f" ? feature : letter === "i" || letter === "o" ? letter : `${prefix}${letter}`;
  const whole = dims.spatial.flatMap((digit) => [`x${digit}`, `k${digit}`, `y${digit}`]);
  const { input, window } = convSizes(inputs, attrs);
  const windows = dims.spatial.flatMap((digit, d): WindowRule[] => {
    const [stride, gap] = [attrs.strides[d] as number, attrs.kernelDilation[d] as number];
    const [low, high] = attrs.padding[d] as readonly [number, number];
    const dilation = attrs.inputDilation[d] as number;
    const span = dilated(window[d] as number, gap);
    const positions = Math.floor((dilated(input[d] as number, dilation) + low + high - span) / stride);
    const rule = { of: `x${digit}`, low, dilation, solid: true };
    // Positions and taps play the same part: split positions leave parts of the output, split taps parts of the sums.
    return [
      { ...rule, by: `y${digit}`, stride, span },
      { ...rule, by: `k${digit}`, stride: gap, span: positions * stride + 1 },
    ];
  });
  return equationOf(
    [[...dims.x].map(name("x", "i")), [...dims.kernel].map(name("k", "?"))],
    [[...dims.out].map(name("y", "o"))],
    { whole, windows },
  );
}

const swap = (letters: string, from: string, to: string): string =>
  [...letters].map((letter) => to[from.indexOf(letter)] ?? letter).join("");

/** Gradient by the input: the output's cotangent convolved with the reversed kernel. */
function inputGradient(node: Node, dy: Node): Node {
  const attrs = node.attrs as ConvAttrs;
  const [x, kernel] = node.inputs as [Node, Node];
  const { dims, input, window } = convSizes([x, kernel], attrs);
  const outSpatial = dims.spatial.map((digit) => sizeAt(node.shape, dims.out, digit));
  const padding = dims.spatial.map((_digit, d): [number, number] => {
    const span = dilated(window[d] as number, attrs.kernelDilation[d] as number);
    const before = span - 1 - (attrs.padding[d]?.[0] as number);
    const after =
      dilated(input[d] as number, attrs.inputDilation[d] as number) +
      span -
      1 -
      dilated(outSpatial[d] as number, attrs.strides[d] as number) -
      before;
    return [before, after];
  });
  const reversed = emit.reverse(
    kernel,
    dims.spatial.map((digit) => dims.kernel.indexOf(digit)).sort((a, b) => a - b),
  );
  return emit.call("conv", [dy, reversed], {
    layout: `${dims.out},${swap(dims.kernel, "io", "oi")}->${dims.x}`,
    strides: attrs.inputDilation,
    padding,
    inputDilation: attrs.strides,
    kernelDilation: attrs.kernelDilation,
  });
}

/** Gradient by the kernel: the input convolved with the output's cotangent, batch and features changing parts. */
function kernelGradient(node: Node, dy: Node): Node {
  const attrs = node.attrs as ConvAttrs;
  const [x, kernel] = node.inputs as [Node, Node];
  const { dims, input, window } = convSizes([x, kernel], attrs);
  const padding = dims.spatial.map((digit, d): [number, number] => {
    const low = attrs.padding[d]?.[0] as number;
    const span = dilated(window[d] as number, attrs.kernelDilation[d] as number);
    const covered = dilated(sizeAt(node.shape, dims.out, digit), attrs.strides[d] as number);
    return [low, covered - dilated(input[d] as number, attrs.inputDilation[d] as number) + span - 1 - low];
  });
  return emit.call("conv", [x, dy], {
    layout: `${swap(dims.x, "bf", "fb")},${swap(dims.out, "bf", "io")}->${swap(dims.kernel, "io", "bf")}`,
    strides: attrs.kernelDilation,
    padding,
    inputDilation: attrs.inputDilation,
    kernelDilation: attrs.strides,
  });
}

/**
 * A batch of inputs is more of dim `b`, a batch of kernels more of dim `o`. With both there is no one convolution that says
 * it (it has no groups), so one runs after the other.
 */
function batchConv(context: BatchContext<ConvAttrs>): Batched[] {
  const { node, size } = context;
  const [x, kernel] = context.inputs as [Batched, Batched];
  if (x.batched && kernel.batched) return batchByLoop(context);
  const { dims } = convSizes(node.inputs, node.attrs);
  const [wide, at, out] = x.batched
    ? [x.node, dims.x.indexOf("b"), dims.out.indexOf("b")]
    : [kernel.node, dims.kernel.indexOf("o"), dims.out.indexOf("f")];
  const moved = moveDim(wide, 0, at);
  const merged = emit.reshape(moved, [...moved.shape.slice(0, at), -1, ...moved.shape.slice(at + 2)]);
  const made = emit.call("conv", x.batched ? [merged, kernel.node] : [x.node, merged], node.attrs);
  const apart = emit.reshape(made, [...node.shape.slice(0, out), size, ...node.shape.slice(out)]);
  return [withBatch(moveDim(apart, out, 0))];
}

const orderFor = (letters: string, wanted: string): number[] => [...wanted].map((letter) => letters.indexOf(letter));

defineOp<ConvAttrs>({
  name: "conv",
  doc: "Convolution (cross-correlation, as everywhere in the field) of x by a kernel, with strides, padding (may be negative) and dilation of input and kernel. `layout` says which dim plays which part.",
  example: {
    inputs: [
      { dtype: "f32", shape: [1, 1, 3], data: Float32Array.of(1, 2, 3) },
      { dtype: "f32", shape: [1, 1, 2], data: Float32Array.of(1, 10) },
    ],
    attrs: { layout: "bf0,oi0->bf0", strides: [1], padding: [[0, 0]], inputDilation: [1], kernelDilation: [1] },
    outputs: [{ dtype: "f32", shape: [1, 1, 2], data: Float32Array.of(21, 32) }],
  },
  infer: inferConv,
  equation: convEquation,
  linear: [[0], [1]],
  gradient: ({ node, cotangents }) => [
    inputGradient(node, cotangents[0] as Node),
    kernelGradient(node, cotangents[0] as Node),
  ],
  batch: batchConv,
  localize: ({ attrs, inputs, splits }) => {
    const { x, spatial } = convDims(attrs.layout);
    const padding = splits
      .flatMap(({ windows = [] }) => windows)
      .reduce<readonly (readonly [number, number])[]>(
        (list, { dim, low, high }) =>
          list.map((old, d) => (x.indexOf(spatial[d] as string) === dim ? ([low, high] as const) : old)),
        attrs.padding,
      );
    return emit.call("conv", inputs, { ...attrs, padding });
  },
  cost: (inputs, outputs, attrs) => {
    const { features, window } = convSizes(inputs, attrs);
    return 2 * sizeOf((outputs[0] as TensorType).shape) * features * sizeOf(window);
  },
  reference: ([x, kernel], attrs, [type]) => {
    const { dims } = convSizes([x as HostTensor, kernel as HostTensor], attrs);
    const spatial = dims.spatial.join("");
    const plainX = permuted(x as HostTensor, orderFor(dims.x, `b${spatial}f`));
    const plainKernel = permuted(kernel as HostTensor, orderFor(dims.kernel, `${spatial}io`));
    const order = orderFor(dims.out, `b${spatial}f`);
    const { shape, dtype } = type as TensorType;
    const plainShape = order.map((dim) => shape[dim] as number);
    const data = plainConv(plainX, plainKernel, plainShape, attrs);
    const strides = stridesOf(plainShape);
    const back = inverseOrder(order);
    return [
      gatherStrided(
        data,
        dtype,
        shape,
        back.map((dim) => strides[dim] as number),
      ),
    ];
  },
  lower: { kind: "kernel", strided: [0, 1], outputOrder, emit: lowerConv },
  stablehlo: ({ hlo, inputs, outputs, attrs }) => {
    const { x, kernel, out, spatial } = convDims(attrs.layout);
    const parts = [x, kernel, out].map((letters) => `[${[...letters].join(", ")}]`);
    return hlo.op("convolution", inputs, outputs, {
      dimension_numbers: `#stablehlo.conv<${parts[0]}x${parts[1]}->${parts[2]}>`,
      window_strides: hloIntegers(attrs.strides),
      padding: hloTable(attrs.padding, 2),
      lhs_dilation: hloIntegers(attrs.inputDilation),
      rhs_dilation: hloIntegers(attrs.kernelDilation),
      window_reversal: spatial.length === 0 ? "array<i1>" : `array<i1: ${spatial.map(() => "false").join(", ")}>`,
      feature_group_count: "1 : i64",
      batch_group_count: "1 : i64",
      precision_config: hloFullPrecision,
    });
  },
});

/** Convolution of x [b, spatial…, i] by kernel [spatial…, i, o]. */
function plainConv(x: HostTensor, kernel: HostTensor, outShape: Shape, attrs: ConvAttrs) {
  const rank = outShape.length - 2;
  const [features, outFeatures] = kernel.shape.slice(rank) as [number, number];
  const input = x.shape.slice(1, rank + 1);
  const window = kernel.shape.slice(0, rank);
  const positions = outShape.slice(1, rank + 1);
  const taps = sizeOf(window);
  const points = sizeOf(positions);
  const out = dtypes[x.dtype].create(sizeOf(outShape));
  const row = new Float64Array(outFeatures);
  // For each output position and tap, the input position it reads, or -1 in the padding.
  const source = new Int32Array(points * taps);
  for (let point = 0; point < points; point++)
    for (let tap = 0; tap < taps; tap++)
      source[point * taps + tap] = sourceOf(point, tap, positions, window, input, attrs);
  const inputPoints = sizeOf(input);
  for (let b = 0; b < (outShape[0] as number); b++) {
    for (let point = 0; point < points; point++) {
      row.fill(0);
      for (let tap = 0; tap < taps; tap++) {
        const from = source[point * taps + tap] as number;
        if (from < 0) continue;
        const base = (b * inputPoints + from) * features;
        for (let i = 0; i < features; i++) {
          const value = x.data[base + i] as number;
          const weights = (tap * features + i) * outFeatures;
          for (let o = 0; o < outFeatures; o++) (row[o] as number) += value * (kernel.data[weights + o] as number);
        }
      }
      out.set(row, (b * points + point) * outFeatures);
    }
  }
  return out;
}

function sourceOf(point: number, tap: number, positions: Shape, window: Shape, input: Shape, attrs: ConvAttrs): number {
  let offset = 0;
  let stride = 1;
  let [p, t] = [point, tap];
  for (let d = positions.length - 1; d >= 0; d--) {
    const [size, taps, length] = [positions[d] as number, window[d] as number, input[d] as number];
    const place =
      (p % size) * (attrs.strides[d] as number) +
      (t % taps) * (attrs.kernelDilation[d] as number) -
      (attrs.padding[d]?.[0] as number);
    const step = attrs.inputDilation[d] as number;
    if (place < 0 || place % step !== 0 || place / step >= length) return -1;
    offset += (place / step) * stride;
    stride *= length;
    p = Math.floor(p / size);
    t = Math.floor(t / taps);
  }
  return offset;
}

const roundUp64 = (bytes: number): number => Math.ceil(bytes / 64) * 64;

const reorder = (view: View, letters: string, wanted: string): View => permuteView(view, orderFor(letters, wanted));

/** Inserts a second spatial dim of size 1 into a 1-D convolution, for kernels that are 2-D. */
function asPlane(view: View, at: number): View {
  const shape = [...view.shape];
  const strides = [...view.strides];
  shape.splice(at, 0, 1);
  strides.splice(at, 0, 0);
  return { ...view, shape, strides };
}

/** Whether the window is larger than the output: a gradient by the kernel, better as columns-transposed times cotangent. */
function isFilterGradient(dims: ConvDims, kernel: Shape, out: Shape): boolean {
  const spatialSize = (shape: Shape, letters: string): number =>
    dims.spatial.reduce((size, digit) => size * sizeAt(shape, letters, digit), 1);
  return spatialSize(kernel, dims.kernel) > spatialSize(out, dims.out);
}

/** Channels last, as the kernels write. */
function outputOrder(attrs: ConvAttrs, inputs: readonly View[], output: TensorType): number[] {
  const dims = convDims(attrs.layout);
  const spatial = dims.spatial.join("");
  const byFilter = isFilterGradient(dims, (inputs[1] as View).shape, output.shape);
  return orderFor(dims.out, byFilter ? `${spatial}bf` : `b${spatial}f`);
}

function lowerConv(context: KernelContext<ConvAttrs>): KernelCall[] {
  const { attrs } = context;
  const dims = convDims(attrs.layout);
  const rank = dims.spatial.length;
  if (rank < 1 || rank > 2) throw new HeddleError("lower", `conv: no native kernel for ${rank} spatial dims`);
  const plane = <T>(list: readonly T[], neutral: T): T[] => (rank === 2 ? [...list] : [neutral, ...list]);
  const [x, kernel] = context.inputs as [View, View];
  const out = context.outputs[0] as View;
  const spatial = dims.spatial.join("");
  const planar = (view: View, at: number): View => (rank === 2 ? view : asPlane(view, at));
  const fields = {
    strides: plane(attrs.strides, 1),
    padding: plane<readonly [number, number]>(attrs.padding, [0, 0]),
    inputDilation: plane(attrs.inputDilation, 1),
    kernelDilation: plane(attrs.kernelDilation, 1),
  };
  return isFilterGradient(dims, kernel.shape, out.shape) ? lowerFilter() : lowerForward();

  function finish(calls: readonly KernelCall[], made: View, wanted: View): KernelCall[] {
    return made === wanted ? [...calls] : [...calls, copyCall(context, made, wanted)];
  }

  function place(target: View): View {
    const { shape, dtype } = target;
    const strides = stridesOf(shape);
    return target.strides.every((stride, dim) => stride === strides[dim] || shape[dim] === 1)
      ? target
      : context.temporary({ shape, dtype });
  }

  function lowerForward(): KernelCall[] {
    const input = context.contiguous(planar(reorder(x, dims.x, `b${spatial}f`), 1));
    const weight = planar(reorder(kernel, dims.kernel, `${spatial}io`), 0);
    const target = planar(reorder(out, dims.out, `b${spatial}f`), 1);
    const made = place(target);
    const [n, h, w, c] = input.view.shape as [number, number, number, number];
    const [kh, kw, , o] = weight.shape as [number, number, number, number];
    const [, oh, ow] = made.shape as [number, number, number];
    const bytes = dtypes[x.dtype].bytes;
    const scratch = roundUp64(kh * kw * c * o * bytes) + context.slots * roundUp64(oh * ow * kh * kw * c * bytes);
    const call = {
      k: "conv",
      dtype: x.dtype,
      ...{ n, h, w, c, kh, kw, o, oh, ow },
      ...fields,
      x: context.at(input.view),
      weight: { at: context.at(weight), strides: weight.strides },
      out: context.at(made),
      scratch: context.scratch(scratch),
      slots: context.slots,
    };
    return finish([...input.calls, call], made, target);
  }

  function lowerFilter(): KernelCall[] {
    const input = context.contiguous(planar(reorder(x, dims.x, `f${spatial}b`), 1));
    const cotangent = context.contiguous(planar(reorder(kernel, dims.kernel, `i${spatial}o`), 1));
    const target = planar(reorder(out, dims.out, `${spatial}bf`), 0);
    const made = place(target);
    const [n, h, w, c] = input.view.shape as [number, number, number, number];
    const [, oh, ow, o] = cotangent.view.shape as [number, number, number, number];
    const [kh, kw] = made.shape as [number, number];
    const bytes = dtypes[x.dtype].bytes;
    const chunks = Math.min(n, 8);
    const scratch =
      chunks * roundUp64(kh * kw * c * o * bytes) + context.slots * roundUp64(oh * ow * kh * kw * c * bytes);
    const call = {
      k: "convFilter",
      dtype: x.dtype,
      ...{ n, h, w, c, kh, kw, o, oh, ow },
      // As a gradient by the kernel, strides and kernel dilation have changed parts.
      strides: fields.kernelDilation,
      padding: fields.padding,
      inputDilation: fields.inputDilation,
      kernelDilation: fields.strides,
      x: context.at(input.view),
      dy: context.at(cotangent.view),
      out: context.at(made),
      scratch: context.scratch(scratch),
      slots: context.slots,
    };
    return finish([...input.calls, ...cotangent.calls, call], made, target);
  }
}
