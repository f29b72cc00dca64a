/** @module Random tensors. A key (u32[2]) stands for a stream; the same key and shape give the same bits on any mesh. */
import type { DType } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import type { Shape } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { tensor } from "./functions.ts";
import { operate, type Tensor, type TensorLike } from "./tensor.ts";

/** The key of a seed (a non-negative integer up to 2^53). */
export const key = (seed: number): Tensor => tensor(Uint32Array.of(seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0));

/** A new key for a number or an i32 scalar: how steps, layers and loops get keys of their own. */
export const foldIn = (from: Tensor, data: TensorLike): Tensor =>
  typeof data === "number" ? operate("foldIn", ops.foldIn, [from], data) : operate("foldIn", ops.foldIn, [from, data]);

/** Uniform u32 words. */
export const bits = (from: Tensor, shape: Shape): Tensor => operate("randomBits", ops.randomBits, [from], shape);

interface FloatOptions {
  /** Default f32. */
  readonly dtype?: DType;
}

function buildUniform(from: Node, shape: Shape, low: number, high: number, dtype: DType): Node {
  // 24 bits are exact in f32; f64 takes all 32.
  const words = ops.randomBits(from, shape);
  const unit =
    dtype === "f64"
      ? ops.mul(ops.cast(words, "f64"), 2 ** -32)
      : ops.mul(ops.cast(ops.shiftRight(words, 8), dtype), 2 ** -24);
  return ops.add(ops.mul(unit, high - low), low);
}

/** Uniform numbers in [min, max). */
export function uniform(
  from: Tensor,
  shape: Shape,
  options: FloatOptions & { readonly min?: number; readonly max?: number } = {},
): Tensor {
  return operate("uniform", buildUniform, [from], shape, options.min ?? 0, options.max ?? 1, options.dtype ?? "f32");
}

function buildNormal(from: Node, shape: Shape, dtype: DType): Node {
  // Box and Muller, with 1 - u so that the logarithm never sees 0.
  const radius = buildUniform(ops.foldIn(from, 0), shape, 0, 1, dtype);
  const angle = buildUniform(ops.foldIn(from, 1), shape, 0, 2 * Math.PI, dtype);
  return ops.mul(ops.sqrt(ops.mul(ops.log(ops.sub(1, radius)), -2)), ops.cos(angle));
}

/** Numbers of the standard normal distribution. */
export const normal = (from: Tensor, shape: Shape, options: FloatOptions = {}): Tensor =>
  operate("normal", buildNormal, [from], shape, options.dtype ?? "f32");

function buildBernoulli(from: Node, probability: number, shape: Shape): Node {
  if (probability >= 1) return ops.full("bool", shape, 1);
  return ops.lt(ops.randomBits(from, shape), ops.full("u32", shape, Math.round(probability * 2 ** 32)));
}

/** True with the given probability. Bits are compared as integers, so the mask is the same for every dtype of the data. */
export const bernoulli = (from: Tensor, probability: number, shape: Shape): Tensor =>
  operate(
    "bernoulli",
    (node: Node, ...rest: [number, Shape]) => buildBernoulli(node, ...rest),
    [from],
    probability,
    shape,
  );
