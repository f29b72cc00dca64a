/** @module The general matrix product. */

import { type DType, dtypes, isFloat, type TypedArray } from "../ir/dtype.ts";
import { type Equation, equationOf, letters, pointsOf, shapesByEquation } from "../ir/equation.ts";
import { type KernelCall, type KernelContext, reshapeView, type View } from "../ir/kernel.ts";
import { absent, type BatchContext, type Batched, type HostTensor, type Node } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import { formatType, otherDims, type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { batchByEquation, behind, moveDim, withBatch } from "./batch.ts";
import * as emit from "./emit.ts";
import { permuted } from "./host-arrays.ts";
import { copyCall } from "./movement.ts";
import { productCall, takesHalf } from "./narrow/dot.ts";
import { type DotAttrs, productDType } from "./narrow/dtypes.ts";
import { combine, identityOf } from "./reduce.ts";

function dotEquation(inputs: readonly TensorType[], attrs: DotAttrs): Equation {
  const [x, y] = inputs as [TensorType, TensorType];
  const left = letters(x.shape.length, "m");
  const right = letters(y.shape.length, "n");
  attrs.xBatch.forEach((dim, index) => {
    left[dim] = right[attrs.yBatch[index] as number] = `b${index}`;
  });
  attrs.xContract.forEach((dim, index) => {
    left[dim] = right[attrs.yContract[index] as number] = `k${index}`;
  });
  const free = (all: string[], taken: readonly number[]): string[] =>
    all.filter((_letter, dim) => !taken.includes(dim));
  const out = [
    ...attrs.xBatch.map((_dim, index) => `b${index}`),
    ...free(left, [...attrs.xBatch, ...attrs.xContract]),
    ...free(right, [...attrs.yBatch, ...attrs.yContract]),
  ];
  return equationOf([left, right], [out]);
}

const product = (shape: Shape, dims: readonly number[]): number =>
  dims.reduce((size, dim) => size * (shape[dim] as number), 1);

defineOp<DotAttrs>({
  name: "dot",
  doc: "Contracts dims of x with dims of y, for each position of the batch dims (StableHLO dot_general). Output dims: batch, free dims of x, free dims of y. Sums accumulate in the dtype itself, or in the wider `dtype`; integers wrap.",
  example: {
    inputs: [
      { dtype: "f32", shape: [1, 2], data: Float32Array.of(1, 2) },
      { dtype: "f32", shape: [2, 1], data: Float32Array.of(3, 4) },
    ],
    attrs: { xBatch: [], yBatch: [], xContract: [1], yContract: [0] },
    outputs: [{ dtype: "f32", shape: [1, 1], data: Float32Array.of(11) }],
  },
  infer: (inputs, attrs) => {
    const [x, y] = inputs as [TensorType, TensorType];
    if (inputs.length !== 2) throw new HeddleError("op", `dot: takes 2 inputs, got ${inputs.length}`);
    const dtype = productDType(x.dtype, y.dtype, attrs.dtype);
    if (dtype === undefined) {
      const wanted = attrs.dtype === undefined ? "needs two numbers of one dtype" : `has no ${attrs.dtype} of these`;
      throw new HeddleError("dtype", `dot: ${wanted}, got ${formatType(x)}, ${formatType(y)}`);
    }
    const valid = (type: TensorType, dims: readonly number[]): boolean =>
      new Set(dims).size === dims.length &&
      dims.every((dim) => Number.isInteger(dim) && dim >= 0 && dim < type.shape.length);
    const paired = attrs.xBatch.length === attrs.yBatch.length && attrs.xContract.length === attrs.yContract.length;
    if (
      !paired ||
      !valid(x, [...attrs.xBatch, ...attrs.xContract]) ||
      !valid(y, [...attrs.yBatch, ...attrs.yContract])
    ) {
      throw new HeddleError(
        "shape",
        `dot: dims ${JSON.stringify(attrs)} do not pair the dims of ${formatType(x)} and ${formatType(y)}`,
      );
    }
    const differ = attrs.xContract.findIndex(
      (dim, index) => x.shape[dim] !== y.shape[attrs.yContract[index] as number],
    );
    if (differ >= 0) {
      const [left, right] = [attrs.xContract[differ] as number, attrs.yContract[differ] as number];
      throw new HeddleError(
        "shape",
        `dot: dim ${left} of ${formatType(x)} (${x.shape[left]}) and dim ${right} of ${formatType(y)} (${y.shape[right]}) are contracted but differ`,
      );
    }
    return { dtype, shape: shapesByEquation("dot", dotEquation(inputs, attrs), inputs)[0] as Shape };
  },
  equation: dotEquation,
  linear: [[0], [1]],
  gradient: ({ node, cotangents }) => {
    const [x, y] = node.inputs as [Node, Node];
    const dy = cotangents[0] as Node;
    const { inputs, outputs } = dotEquation([x, y], node.attrs as DotAttrs);
    const [xLetters, yLetters] = inputs as [string[], string[]];
    const out = outputs[0] as string[];
    const [wideX, wideY] = [emit.cast(x, dy.dtype), emit.cast(y, dy.dtype)];
    return [
      emit.cast(emit.einsumPair(dy, out, wideY, yLetters, xLetters), x.dtype),
      emit.cast(emit.einsumPair(wideX, xLetters, dy, out, yLetters), y.dtype),
    ];
  },
  batch: batchDot,
  localize: absent("attributes hold no sizes"),
  contracts: true,
  cost: (inputs, outputs, attrs) => 2 * pointsOf(dotEquation(inputs, attrs), inputs, outputs),
  reference: ([x, y], attrs, [type]) => {
    const [left, right] = [x as HostTensor, y as HostTensor];
    const xFree = otherDims(left.shape.length, [...attrs.xBatch, ...attrs.xContract]);
    const yFree = otherDims(right.shape.length, [...attrs.yBatch, ...attrs.yContract]);
    const a = permuted(left, [...attrs.xBatch, ...xFree, ...attrs.xContract]).data;
    const b = permuted(right, [...attrs.yBatch, ...attrs.yContract, ...yFree]).data;
    const [batch, m, n, k] = [
      product(left.shape, attrs.xBatch),
      product(left.shape, xFree),
      product(right.shape, yFree),
      product(left.shape, attrs.xContract),
    ];
    const { dtype, shape } = type as TensorType;
    const out = dtypes[dtype].create(sizeOf(shape));
    // Sums of products of bytes are exact in f64, and wrap as they are written.
    if (!isFloat(dtype) && Math.max(dtypes[left.dtype].bytes, dtypes[right.dtype].bytes) > 1) {
      wholeProduct(dtype, [a, b, out], batch * m, m, k, n);
      return [out];
    }
    // Arrays of one kind, for which one loop is compiled.
    const [row, x64, y64] = [new Float64Array(n), Float64Array.from(a as Int8Array), Float64Array.from(b as Int8Array)];
    for (let r = 0; r < batch * m; r++) {
      row.fill(0);
      const base = Math.floor(r / m) * k * n;
      for (let inner = 0; inner < k; inner++) {
        const value = x64[r * k + inner] as number;
        const from = base + inner * n;
        for (let col = 0; col < n; col++) (row[col] as number) += value * (y64[from + col] as number);
      }
      out.set(row, r * n);
    }
    return [out];
  },
  form: { kind: "kernel" },
  lower: { strided: [0, 1], takesHalf, emit: lowerDot },
});

/** A product of integers, whose sums wrap. */
function wholeProduct(
  dtype: DType,
  [a, b, out]: [TypedArray, TypedArray, TypedArray],
  ...[rows, perBatch, k, n]: [number, number, number, number]
): void {
  for (let r = 0; r < rows; r++) {
    const base = Math.floor(r / perBatch) * k * n;
    for (let col = 0; col < n; col++) {
      let total = identityOf("sum", dtype);
      for (let inner = 0; inner < k; inner++) {
        const [x, y] = [a[r * k + inner] as number, b[base + inner * n + col] as number];
        total = combine.sum(total, combine.prod(x, y, dtype), dtype);
      }
      out[r * n + col] = total;
    }
  }
}

/** A factor that the whole batch shares is not repeated: the batch is a free dim of the other factor, in one large product. */
function batchDot(context: BatchContext<DotAttrs>): readonly Batched[] {
  const [x, y] = context.inputs as [Batched, Batched];
  const { xBatch, yBatch, xContract, yContract, ...wider } = context.node.attrs;
  const later = {
    x: { xBatch: behind(xBatch), xContract: behind(xContract) },
    y: { yBatch: behind(yBatch), yContract: behind(yContract) },
  };
  if (x.batched && y.batched) return bothBatched(context);
  const result = x.batched
    ? emit.dotGeneral(x.node, y.node, { ...later.x, yBatch, yContract, ...wider })
    : emit.dotGeneral(x.node, y.node, { xBatch, xContract, ...later.y, ...wider });
  const free = x.batched ? xBatch.length : x.node.shape.length - xContract.length;
  return [withBatch(moveDim(result, free, 0))];
}

const bothBatched = batchByEquation<DotAttrs>(({ xBatch, yBatch, xContract, yContract, ...wider }) => ({
  ...wider,
  xBatch: [0, ...behind(xBatch)],
  yBatch: [0, ...behind(yBatch)],
  xContract: behind(xContract),
  yContract: behind(yContract),
}));

/** Merges groups of dims into one dim each, copying when strides do not allow it. */
function grouped(
  context: KernelContext<DotAttrs>,
  view: View,
  groups: readonly (readonly number[])[],
): { view: View; calls: readonly KernelCall[] } {
  const order = groups.flat();
  const moved = {
    ...view,
    shape: order.map((dim) => view.shape[dim] as number),
    strides: order.map((dim) => view.strides[dim] as number),
  };
  const shape = groups.map((dims) => product(view.shape, dims));
  const merged = reshapeView(moved, shape);
  if (merged !== undefined) return { view: merged, calls: [] };
  const copy = context.temporary({ dtype: view.dtype, shape: moved.shape });
  return { view: reshapeView(copy, shape) as View, calls: [copyCall(context, moved, copy)] };
}

function lowerDot(context: KernelContext<DotAttrs>): KernelCall[] {
  const { xBatch, yBatch, xContract, yContract } = context.attrs;
  const [x, y] = context.inputs as [View, View];
  const xFree = otherDims(x.shape.length, [...xBatch, ...xContract]);
  const yFree = otherDims(y.shape.length, [...yBatch, ...yContract]);
  const left = grouped(context, x, [xBatch, xFree, xContract]);
  const right = grouped(context, y, [yBatch, yContract, yFree]);
  return [...left.calls, ...right.calls, productCall(context, left.view, right.view)];
}
