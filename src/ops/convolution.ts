/**
 * @module Convolution in the general form of StableHLO. `layout` names the dims by letters: `b` batch, `f` feature, `i`
 * and `o` input and output feature of the kernel, digits for spatial dims; `"bf01,oi01->bf01"` is PyTorch's. Because any
 * dim may play any part, both gradients are convolutions too. A dim `g` of all three operands holds independent groups, as
 * a batch dim does in a product.
 */

import { dtypes, isFloat } from "../ir/dtype.ts";
import { type Equation, equationOf, type WindowRule } from "../ir/equation.ts";
import type { BatchContext, Batched, HostTensor, Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, type Shape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { moveDim, withBatch } from "./batch.ts";
import {
  type ConvAttrs,
  type ConvDims,
  convDims,
  convOutputOrder,
  lowerConv,
  orderFor,
  sizeAt,
} from "./convolution-lower.ts";
import * as emit from "./emit.ts";
import { gatherStrided, inverseOrder, permuted, sliceOf } from "./host-arrays.ts";
import { takesHalf } from "./narrow-conv/takes.ts";

/** Checks that each operand has each of its letters once, and all operands the same digits from 0 up. */
function checkLayout(layout: string): void {
  const { x, kernel, out, spatial, grouped } = convDims(layout);
  const digits = spatial.map((_digit, index) => String(index)).join("");
  const group = grouped ? "g" : "";
  const sorted = (letters: string): string => [...letters].sort().join("");
  const image = `${digits}bf${group}`;
  if (sorted(x) !== image || sorted(kernel) !== sorted(`${digits}io${group}`) || sorted(out) !== image) {
    throw new HeddleError("op", `conv: '${layout}' is not a layout`, {
      hint: "name each dim once, as in 'bf01,oi01->bf01', or with groups as in 'bgf01,goi01->bgf01'",
    });
  }
}

/** Sizes of the parts of a convolution, spatial sizes in order of their digits. */
function convSizes(inputs: readonly TensorType[], attrs: ConvAttrs) {
  const [x, kernel] = inputs as [TensorType, TensorType];
  const dims = convDims(attrs.layout);
  return {
    dims,
    groups: dims.grouped ? sizeAt(x.shape, dims.x, "g") : 1,
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
  if (dims.grouped && sizeAt(kernel.shape, dims.kernel, "g") !== sizes.groups) {
    throw new HeddleError(
      "shape",
      `${what}: the input has ${sizes.groups} groups, the kernel ${sizeAt(kernel.shape, dims.kernel, "g")}`,
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
    if (letter === "g") return sizes.groups;
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
    letter === "f" ? feature : "bgio".includes(letter) ? letter : `${prefix}${letter}`;
  const whole = dims.spatial.flatMap((digit) => [`x${digit}`, `k${digit}`, `y${digit}`]);
  const { input, window } = convSizes(inputs, attrs);
  const windows = dims.spatial.flatMap((digit, d): WindowRule[] => {
    const [stride, gap] = [attrs.strides[d] as number, attrs.kernelDilation[d] as number];
    const [low, high] = attrs.padding[d] as readonly [number, number];
    const dilation = attrs.inputDilation[d] as number;
    const span = dilated(window[d] as number, gap);
    const positions = Math.floor((dilated(input[d] as number, dilation) + low + high - span) / stride);
    const rule = { of: `x${digit}`, low, dilation, solid: true };
    // Positions and taps are alike: split positions leave parts of the output, split taps parts of the sums.
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

/** Places of the spatial dims in the kernel, ascending. */
const spatialDims = (dims: ConvDims): number[] =>
  dims.spatial.map((digit) => dims.kernel.indexOf(digit)).sort((a, b) => a - b);

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
  const reversed = emit.reverse(kernel, spatialDims(dims));
  return emit.call("conv", [dy, reversed], {
    layout: `${dims.out},${swap(dims.kernel, "io", "oi")}->${dims.x}`,
    strides: attrs.inputDilation,
    padding,
    inputDilation: attrs.strides,
    kernelDilation: attrs.kernelDilation,
  });
}

/** Gradient by the kernel: the input convolved with the output's cotangent, with batch and features swapped. */
function kernelGradient(node: Node, dy: Node): Node {
  const attrs = node.attrs as ConvAttrs;
  const [x, kernel] = node.inputs as [Node, Node];
  const { dims, input, window } = convSizes([x, kernel], attrs);
  const dilates = attrs.inputDilation.some((step) => step > 1) && attrs.strides.every((step) => step === 1);
  const padding = dims.spatial.map((digit, d): [number, number] => {
    const low = attrs.padding[d]?.[0] as number;
    const span = dilated(window[d] as number, attrs.kernelDilation[d] as number);
    const covered = dilated(sizeAt(node.shape, dims.out, digit), attrs.strides[d] as number);
    const spread = dilated(input[d] as number, attrs.inputDilation[d] as number);
    if (dilates) return [span - 1 - low, spread - covered + low];
    return [low, covered - spread + span - 1 - low];
  });
  if (dilates) {
    // The input takes the kernel's place, where its gaps cost nothing; the taps come out in reverse order.
    const turned = emit.call("conv", [dy, x], {
      layout: `${swap(dims.out, "bf", "fb")},${swap(dims.x, "bf", "io")}->${swap(dims.kernel, "io", "fb")}`,
      strides: attrs.kernelDilation,
      padding,
      inputDilation: attrs.strides,
      kernelDilation: attrs.inputDilation,
    });
    return emit.reverse(turned, spatialDims(dims));
  }
  return emit.call("conv", [x, dy], {
    layout: `${swap(dims.x, "bf", "fb")},${swap(dims.out, "bf", "io")}->${swap(dims.kernel, "io", "bf")}`,
    strides: attrs.kernelDilation,
    padding,
    inputDilation: attrs.inputDilation,
    kernelDilation: attrs.strides,
  });
}

/** A batch of inputs extends dim `b`, a batch of kernels dim `o`; a batch of both extends the groups. */
function batchConv(context: BatchContext<ConvAttrs>): Batched[] {
  const { node, size } = context;
  const [x, kernel] = context.inputs as [Batched, Batched];
  const { dims } = convSizes(node.inputs, node.attrs);
  const { out } = dims;
  if (x.batched && kernel.batched && !dims.grouped) {
    const layout = `g${dims.x},g${dims.kernel}->g${out}`;
    return [withBatch(emit.call("conv", [x.node, kernel.node], { ...node.attrs, layout }))];
  }
  const merged = ({ node: operand, batched }: Batched, letters: string, letter: string): Node => {
    if (!batched) return operand;
    const at = letters.indexOf(letter);
    const moved = moveDim(operand, 0, at);
    const both = size * (moved.shape[at + 1] as number);
    return emit.reshape(moved, [...moved.shape.slice(0, at), both, ...moved.shape.slice(at + 2)]);
  };
  const [ofX, ofKernel, ofOut] = x.batched && kernel.batched ? "ggg" : x.batched ? "b_b" : "_of";
  const inputs = [merged(x, dims.x, ofX as string), merged(kernel, dims.kernel, ofKernel as string)];
  const at = out.indexOf(ofOut as string);
  const convolved = emit.call("conv", inputs, node.attrs);
  const apart = emit.reshape(convolved, [...node.shape.slice(0, at), size, ...node.shape.slice(at)]);
  return [withBatch(moveDim(apart, at, 0))];
}

defineOp<ConvAttrs>({
  name: "conv",
  doc: "Convolution (cross-correlation, as everywhere in the field) of x by a kernel, with strides, padding (may be negative), dilation of input and kernel, and groups. `layout` gives the role of each dim.",
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
  contracts: true,
  cost: (inputs, outputs, attrs) => {
    const { features, window } = convSizes(inputs, attrs);
    return 2 * sizeOf((outputs[0] as TensorType).shape) * features * sizeOf(window);
  },
  reference: ([x, kernel], attrs, [type]) => {
    const { dims } = convSizes([x as HostTensor, kernel as HostTensor], attrs);
    const spatial = dims.spatial.join("");
    const group = dims.grouped ? "g" : "";
    const plainX = permuted(x as HostTensor, orderFor(dims.x, `${group}b${spatial}f`));
    const plainKernel = permuted(kernel as HostTensor, orderFor(dims.kernel, `${group}${spatial}io`));
    const order = orderFor(dims.out, `${group}b${spatial}f`);
    const { shape, dtype } = type as TensorType;
    const plainShape = order.map((dim) => shape[dim] as number);
    const data = dims.grouped
      ? dtypes[dtype].create(sizeOf(plainShape))
      : plainConv(plainX, plainKernel, plainShape, attrs);
    const part = sizeOf(plainShape.slice(1));
    for (let at = 0; dims.grouped && at < (plainShape[0] as number); at++)
      data.set(plainConv(sliceOf(plainX, at), sliceOf(plainKernel, at), plainShape.slice(1), attrs), at * part);
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
  form: { kind: "kernel" },
  lower: { strided: [0, 1], outputOrder: convOutputOrder, takesHalf, emit: lowerConv },
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
    const element =
      (p % size) * (attrs.strides[d] as number) +
      (t % taps) * (attrs.kernelDilation[d] as number) -
      (attrs.padding[d]?.[0] as number);
    const step = attrs.inputDilation[d] as number;
    if (element < 0 || element % step !== 0 || element / step >= length) return -1;
    offset += (element / step) * stride;
    stride *= length;
    p = Math.floor(p / size);
    t = Math.floor(t / taps);
  }
  return offset;
}
