/** @module ONNX's products: matrices, and convolutions. */

import * as h from "../../functions/index.ts";
import { einsum, type Tensor } from "../../functions/index.ts";
import { range } from "../../ir/index.ts";
import { type NodeContext, type Rows, row } from "./context.ts";
import { convolve, convolveApart } from "./convolve.ts";
import { autoPadding, perSpatial } from "./window.ts";
import { spanOf, type Window } from "./windows.ts";

const turned = (x: Tensor, turn: boolean): Tensor => (turn ? x.transpose() : x);

function gemm(c: NodeContext): Tensor {
  const [a, b] = [turned(c.x(0), c.flag("transA", false)), turned(c.x(1), c.flag("transB", false))];
  const [alpha, beta] = [c.float("alpha", 1), c.float("beta", 1)];
  const product = alpha === 1 ? a.matmul(b) : a.matmul(b).mul(alpha);
  if (!c.has(2)) return product;
  return product.add(beta === 1 ? c.x(2) : c.x(2).mul(beta));
}

const withBias = (y: Tensor, bias: Tensor | undefined): Tensor =>
  bias === undefined ? y : y.add(bias.reshape([-1, ...range(y.shape.length - 2).map(() => 1)]));

function conv(c: NodeContext): Tensor {
  const sizes = c.shape(1).slice(2);
  return withBias(convolve(c.x(0), c.x(1), autoPadding(c, sizes), c.int("group", 1)), c.optional(2));
}

/** The gradient of a convolution by its input: strides become gaps, the kernel is reversed. */
function convTranspose(c: NodeContext): Tensor {
  const sizes = c.shape(1).slice(2);
  const rank = sizes.length;
  const strides = perSpatial(c, "strides", rank, 1);
  const dilations = perSpatial(c, "dilations", rank, 1);
  const extra = perSpatial(c, "output_padding", rank, 0);
  const spans = sizes.map((_size, dim) => spanOf({ sizes, dilations }, dim));
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
  const y = convolveApart(c.x(0), reversed, window, c.int("group", 1), strides);
  return withBias(y, c.optional(2));
}

/** The node's padding, or the padding that gives the output the requested shape. */
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

export const productRows: Rows = {
  Conv: row(1, conv),
  ConvTranspose: row(1, convTranspose),
  Det: row(11, (c) => h.linalg.determinant(c.x())),
  Einsum: row(12, (c) => einsum(c.string("equation"), ...c.all())),
  Gemm: row(7, gemm),
  MatMul: row(1, (c) => c.x(0).matmul(c.x(1))),
};
