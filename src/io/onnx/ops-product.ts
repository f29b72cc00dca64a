/** @module ONNX's products: matrices, and convolutions. */
import { isFloat } from "../../ir/dtype.ts";
import { range } from "../../ir/shape.ts";
import type { Tensor } from "../../tensor/index.ts";
import * as h from "../../tensor/index.ts";
import { einsum } from "../../tensor/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { convolve } from "../convolve.ts";
import type { Window } from "../windows.ts";
import { type NodeContext, type Rows, row } from "./context.ts";
import { autoPadding, perSpatial } from "./window.ts";

/** Products of integers are exact in f64 up to 2^53. */
function matmul(x: Tensor, y: Tensor): Tensor {
  if (isFloat(x.dtype)) return x.matmul(y);
  return x.cast("f64").matmul(y.cast("f64")).cast(x.dtype);
}

const turned = (x: Tensor, turn: boolean): Tensor => (turn ? x.transpose() : x);

function gemm(c: NodeContext): Tensor {
  const [a, b] = [turned(c.x(0), c.flag("transA", false)), turned(c.x(1), c.flag("transB", false))];
  const [alpha, beta] = [c.float("alpha", 1), c.float("beta", 1)];
  const product = alpha === 1 ? matmul(a, b) : matmul(a, b).mul(alpha);
  if (!c.has(2)) return product;
  return product.add(beta === 1 ? c.x(2) : c.x(2).mul(beta));
}

/** Integers less their zero points, multiplied exactly. */
function matmulInteger(c: NodeContext): Tensor {
  const centred = (index: number, byRow: boolean): Tensor => {
    const x = c.x(index).cast("f64");
    if (!c.has(index + 2)) return x;
    const point = c.x(index + 2).cast("f64");
    return x.sub(byRow && point.shape.length === 1 && point.size > 1 ? point.reshape([-1, 1]) : point);
  };
  return centred(0, true).matmul(centred(1, false)).cast("i32");
}

const withBias = (y: Tensor, bias: Tensor | undefined): Tensor =>
  bias === undefined ? y : y.add(bias.reshape([-1, ...range(y.shape.length - 2).map(() => 1)]));

function conv(c: NodeContext): Tensor {
  const sizes = c.shape(1).slice(2);
  return withBias(
    convolve(c.x(0), c.x(1), "oi", { window: autoPadding(c, sizes), groups: c.int("group", 1) }),
    c.optional(2),
  );
}

/** The gradient of a convolution by its input: strides become gaps, the kernel is reversed. */
function convTranspose(c: NodeContext): Tensor {
  const sizes = c.shape(1).slice(2);
  const rank = sizes.length;
  const strides = perSpatial(c, "strides", rank, 1);
  const dilations = perSpatial(c, "dilations", rank, 1);
  const extra = perSpatial(c, "output_padding", rank, 0);
  const spans = sizes.map((size, dim) => (size - 1) * (dilations[dim] as number) + 1);
  const pads = transposedPads(c, spans, strides, extra);
  const padding = spans.map((span, dim): [number, number] => {
    const [low, high] = pads[dim] as [number, number];
    return [span - 1 - low, span - 1 - high + (extra[dim] as number)];
  });
  const reversed = h.reverse(
    c.x(1),
    range(rank).map((dim) => dim + 2),
  );
  const window: Window = { sizes, strides: sizes.map(() => 1), dilations, padding };
  const y = convolve(c.x(0), reversed, "io", { window, groups: c.int("group", 1), inputDilation: strides });
  return withBias(y, c.optional(2));
}

/** Padding as given, or so that the output has the shape asked for. */
function transposedPads(
  c: NodeContext,
  spans: readonly number[],
  strides: readonly number[],
  extra: readonly number[],
): [number, number][] {
  const rank = spans.length;
  const mode = c.string("auto_pad", "NOTSET");
  if (mode === "NOTSET" && !c.hasAttribute("output_shape")) {
    const pads = c.ints("pads", new Array<number>(2 * rank).fill(0));
    return range(rank).map((dim) => [pads[dim] as number, pads[dim + rank] as number]);
  }
  if (mode === "VALID") return spans.map(() => [0, 0]);
  return spans.map((span, dim) => {
    const [size, stride] = [c.shape()[dim + 2] as number, strides[dim] as number];
    const wanted = c.hasAttribute("output_shape") ? c.ints("output_shape").slice(-rank)[dim] : size * stride;
    const total = (size - 1) * stride + span + (extra[dim] as number) - (wanted as number);
    const half = Math.floor(total / 2);
    return mode === "SAME_UPPER" ? [half, total - half] : [total - half, half];
  });
}

function convInteger(c: NodeContext): Tensor {
  const centred = (index: number): Tensor => {
    const x = c.x(index).cast("f64");
    return c.has(index + 2) ? x.sub(c.x(index + 2).cast("f64")) : x;
  };
  if (c.has(3) && c.rank(3) > 0) throw new HeddleError("op", "a zero point for each output channel is not imported");
  const window = autoPadding(c, c.shape(1).slice(2));
  return convolve(centred(0), centred(1), "oi", { window, groups: c.int("group", 1) }).cast("i32");
}

export const productRows: Rows = {
  Conv: row(1, conv),
  ConvInteger: row(10, convInteger),
  ConvTranspose: row(1, convTranspose),
  Einsum: row(12, (c) => einsum(c.string("equation"), ...c.all())),
  Gemm: row(7, gemm),
  MatMul: row(1, (c) => matmul(c.x(0), c.x(1))),
  MatMulInteger: row(10, matmulInteger),
};
