/** @module ONNX's quantised values, and products of them. */

import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { type DType, dtypes, range } from "../../ir/index.ts";
import { type NodeContext, type Result, type Rows, row } from "./context.ts";
import { convolve } from "./convolve.ts";
import { dtypeOfCode } from "./tensors.ts";
import { autoPadding } from "./window.ts";

/** Quantised values: rounded to even, moved by the zero point, kept within the type. */
function quantize(c: NodeContext): Tensor {
  const [x, scale] = [c.x(0), c.x(1)];
  const dtype = c.has(2) ? c.dtype(2) : c.hasAttribute("output_dtype") ? dtypeOfCode(c.int("output_dtype"), "y") : "u8";
  const steps = h.round(x.cast("f32").div(perAxis(c, scale.cast("f32"))));
  const point = c.has(2) ? perAxis(c, c.x(2)).cast("f32") : undefined;
  const placed = point === undefined ? steps : steps.add(point);
  return saturated(placed, dtype);
}

function dequantize(c: NodeContext): Tensor {
  const scale = perAxis(c, c.x(1));
  const x = c.x(0).cast(scale.dtype);
  return (c.has(2) ? x.sub(perAxis(c, c.x(2)).cast(scale.dtype)) : x).mul(scale);
}

/** A scale for all, or one for each position of an axis. */
function perAxis(c: NodeContext, scale: Tensor): Tensor {
  if (c.int("block_size", 0) !== 0) return blocks(c, scale);
  if (scale.size === 1 && scale.shape.length <= 1) return scale.reshape([]);
  const axis = c.axis("axis", 1);
  return scale.reshape(c.shape().map((_size, dim) => (dim === axis ? -1 : 1)));
}

/** A scale for each block along an axis, repeated for its elements. */
function blocks(c: NodeContext, scale: Tensor): Tensor {
  const axis = c.axis("axis", 1);
  const [size, length] = [c.int("block_size"), c.shape()[axis] as number];
  const index = Int32Array.from({ length }, (_unused, position) => Math.floor(position / size));
  return h.take(scale, h.tensor(index, { shape: [length] }), axis);
}

/** Whole numbers kept within a dtype. */
function saturated(x: Tensor, dtype: DType): Tensor {
  const { lowest, highest } = dtypes[dtype];
  return x.maximum(lowest).minimum(highest).cast(dtype);
}

/** The scale and the zero point that use the range of u8 best for the values, and the quantised values. */
function dynamicQuantize(c: NodeContext): Result[] {
  const x = c.x();
  const [low, high] = [x.min().minimum(0), x.max().maximum(0)];
  const scale = h.select(high.eq(low), 1 / 255, high.sub(low).div(255));
  const point = h.round(low.neg().div(scale).maximum(0).minimum(255));
  const steps = h.round(x.div(scale)).add(point);
  return [saturated(steps, "u8"), scale, point.cast("u8")];
}

/** A vector for rows (dim 0) of the operand, or for all of it. */
const forRows = (x: Tensor, rank: number): Tensor =>
  x.shape.length === 1 && x.size > 1 ? x.reshape([-1, ...range(rank - 1).map(() => 1)]) : x;

/** Integers less their zero points, in i32, or in f64 where convolutions of them are exact. */
function centred(c: NodeContext, index: number, point: number, byRow: boolean, dtype: DType = "f64"): Tensor {
  const x = c.x(index).cast(dtype);
  if (!c.has(point)) return x;
  const zeroPoint = c.x(point).cast(dtype);
  return x.sub(byRow ? forRows(zeroPoint, x.shape.length) : zeroPoint);
}

const matmulInteger = (c: NodeContext): Tensor =>
  centred(c, 0, 2, c.rank() === 2, "i32").matmul(centred(c, 1, 3, false, "i32"));

function convInteger(c: NodeContext): Tensor {
  const window = autoPadding(c, c.shape(1).slice(2));
  const groups = c.int("group", 1);
  return convolve(centred(c, 0, 2, false), centred(c, 1, 3, true), window, groups).cast("i32");
}

/** Sums of products by `x scale · y scale / result's scale`, moved by the result's zero point. */
function requantized(c: NodeContext, sums: Tensor, scales: readonly [Tensor, Tensor]): Tensor {
  const [left, right] = scales;
  const by = left.mul(right).div(c.x(6).cast("f32")).cast("f64");
  const placed = h.round(sums.mul(by).add(c.x(7).cast("f64")));
  return saturated(placed, c.dtype(7));
}

function qLinearMatMul(c: NodeContext): Tensor {
  const byRow = c.rank() === 2;
  const sums = centred(c, 0, 2, byRow, "i32")
    .matmul(centred(c, 3, 5, false, "i32"))
    .cast("f64");
  const scale = c.x(1).cast("f32");
  return requantized(c, sums, [byRow ? forRows(scale, 2) : scale, c.x(4).cast("f32")]);
}

function qLinearConv(c: NodeContext): Tensor {
  const window = autoPadding(c, c.shape(3).slice(2));
  const kernel = centred(c, 3, 5, true);
  const sums = convolve(centred(c, 0, 2, false), kernel, window, c.int("group", 1));
  const perChannel = (x: Tensor): Tensor => forRows(x, c.rank() - 1);
  const biased = c.has(8) ? sums.add(perChannel(c.x(8).cast("f64"))) : sums;
  return requantized(c, biased, [c.x(1).cast("f32"), perChannel(c.x(4).cast("f32"))]);
}

export const quantizedRows: Rows = {
  ConvInteger: row(10, convInteger),
  DequantizeLinear: row(10, dequantize),
  DynamicQuantizeLinear: row(11, dynamicQuantize),
  MatMulInteger: row(10, matmulInteger),
  QLinearConv: row(10, qLinearConv),
  QLinearMatMul: row(10, qLinearMatMul),
  QuantizeLinear: row(10, quantize),
};
