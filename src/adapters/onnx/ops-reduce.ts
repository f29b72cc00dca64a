/** @module ONNX ops that reduce or accumulate over dims. */

import type { ReduceOptions, Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { type DType, dtypes, isFloat, range, sizeOf } from "../../ir/index.ts";
import { type NodeContext, type Row, type Rows, row } from "./context.ts";
import { positions } from "./helpers.ts";
import { int64 } from "./tensors.ts";

type Reduction = (x: Tensor, dims: readonly number[], options: ReduceOptions) => Tensor;

/** Axes are an attribute up to opset 17 (up to 12 for ReduceSum), an input from then on. */
const reduction = (fn: Reduction, map: (x: Tensor) => Tensor = (x) => x): Row =>
  row(1, (c) => {
    const axes = c.listed(1, "axes") ?? [];
    // With no axes and noop_with_empty_axes nothing is reduced, but each element is still mapped.
    const none = axes.length === 0;
    const noop = none && c.flag("noop_with_empty_axes", false);
    const dims = none && !noop ? range(c.rank()) : c.dims(axes);
    return fn(map(c.x()), dims, { keepDims: c.flag("keepdims", true) });
  });

const sum: Reduction = (x, dims, options) => x.sum(dims, options);
const square = (x: Tensor): Tensor => x.mul(x);

/** Bool is reduced as bytes; the extreme of no elements is the lowest or the highest value, where Heddle's is an error. */
const extreme = (name: "max" | "min"): Reduction => {
  const reduce: Reduction = (x, dims, options) => {
    if (x.dtype === "bool") return reduce(x.cast("u8"), dims, options).cast("bool");
    if (dims.every((dim) => x.shape[dim] !== 0)) return x[name](dims, options);
    const shape = x.shape.map((size, dim) => (dims.includes(dim) ? 1 : size));
    const outShape = options.keepDims === true ? shape : shape.filter((_size, dim) => !dims.includes(dim));
    return h.full(outShape, limitOf(name, x.dtype), { dtype: x.dtype });
  };
  return reduce;
};

function limitOf(name: "max" | "min", dtype: DType): number {
  if (isFloat(dtype)) return name === "max" ? -Infinity : Infinity;
  return name === "max" ? dtypes[dtype].lowest : dtypes[dtype].highest;
}

function logSumExp(x: Tensor, dims: readonly number[], options: ReduceOptions): Tensor {
  const most = extreme("max")(x, dims, { keepDims: true });
  // An infinite maximum is its own result: the difference would be NaN.
  const finite = h.select(h.isFinite(most), most, h.zerosLike(most));
  const logs = h.log(h.exp(x.sub(finite)).sum(dims, { keepDims: true })).add(finite);
  return options.keepDims === true ? logs : logs.reshape(x.shape.filter((_size, dim) => !dims.includes(dim)));
}

const mean: Reduction = (x, dims, options) =>
  x
    .cast(isFloat(x.dtype) ? x.dtype : "f64")
    .mean(dims, options)
    .cast(x.dtype);

function extremeIndex(c: NodeContext, sign: 1 | -1): Tensor {
  const axis = c.axis("axis", 0);
  const last = c.flag("select_last_index", false);
  const ordered = sign === 1 ? c.x() : negated(c.x());
  const first = (last ? h.reverse(ordered, [axis]) : ordered).argMax(axis);
  const index = last ? h.sub((c.shape()[axis] as number) - 1, first) : first;
  const outShape = c.shape().map((size, dim) => (dim === axis ? 1 : size));
  return (c.flag("keepdims", true) ? index.reshape(outShape) : index).cast(int64);
}

/**
 * Values in the opposite order. Integers become f64: unsigned numbers and the lowest number of a dtype cannot be
 * negated.
 */
const negated = (x: Tensor): Tensor => (isFloat(x.dtype) ? x.neg() : x.cast("f64").neg());

function hardmax(x: Tensor, axis: number): Tensor {
  const outShape = x.shape.map((size, dim) => (dim === axis ? 1 : size));
  return x
    .argMax(axis)
    .reshape(outShape)
    .eq(positions(x.shape[axis] as number, axis, x.shape.length))
    .cast(x.dtype);
}

const cumulative =
  (kind: "sum" | "prod") =>
  (c: NodeContext): Tensor => {
    const [axis] = c.dims([c.number(1)]) as [number];
    const backwards = c.flag("reverse", false);
    const x = backwards ? h.reverse(c.x(), [axis]) : c.x();
    let sums = kind === "sum" ? x.cumsum(axis) : x.cumprod(axis);
    // The sum of the elements before each: moved by one position, since a sum less its element would not be exact.
    if (c.flag("exclusive", false))
      sums = h.pad(
        sums,
        c.shape().map((_size, dim): [number, number] => (dim === axis ? [1, -1] : [0, 0])),
        kind === "sum" ? 0 : 1,
      );
    return backwards ? h.reverse(sums, [axis]) : sums;
  };

/** Up to opset 12 the dims from the axis on are flattened into one. */
const overMatrix = (fn: (x: Tensor, axis: number) => Tensor): Row => ({
  since: 1,
  until: 12,
  build: (c) => {
    const axis = c.axis("axis", 1);
    const [rows, columns] = [sizeOf(c.shape().slice(0, axis)), sizeOf(c.shape().slice(axis))];
    return fn(c.x().reshape([rows, columns]), 1).reshape(c.shape());
  },
});
const overAxis = (fn: (x: Tensor, axis: number) => Tensor): Row => row(13, (c) => fn(c.x(), c.axis("axis", -1)));
/** An op over an axis, by the meaning that the opset gives it. */
const alongAxis = (fn: (x: Tensor, axis: number) => Tensor): readonly Row[] => [overMatrix(fn), overAxis(fn)];

/** The Euclidean length; that of integers, which `norm` refuses, is computed in f64 and truncated. */
function length(x: Tensor, dims: readonly number[], { keepDims = false }: { readonly keepDims?: boolean }): Tensor {
  const floats = isFloat(x.dtype) ? x : x.cast("f64");
  return h.linalg.norm(floats, { dims, keepDims }).cast(x.dtype);
}

export const reduceRows: Rows = {
  ArgMax: row(1, (c) => extremeIndex(c, 1)),
  ArgMin: row(1, (c) => extremeIndex(c, -1)),
  CumProd: row(26, cumulative("prod")),
  CumSum: row(11, cumulative("sum")),
  Hardmax: alongAxis(hardmax),
  LogSoftmax: alongAxis((x, axis) => h.logSoftmax(x, axis)),
  ReduceL1: reduction(sum, h.abs),
  ReduceL2: reduction(length),
  ReduceLogSum: reduction((x, dims, options) => h.log(sum(x, dims, options))),
  ReduceLogSumExp: reduction(logSumExp),
  ReduceMax: reduction(extreme("max")),
  ReduceMean: reduction(mean),
  ReduceMin: reduction(extreme("min")),
  ReduceProd: reduction((x, dims, options) => x.prod(dims, options)),
  ReduceSum: reduction(sum),
  ReduceSumSquare: reduction(sum, square),
  Softmax: alongAxis((x, axis) => x.softmax(axis)),
};
