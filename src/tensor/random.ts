/** @module Random tensors. A key (u32[2]) stands for a stream; the same key and shape give the same bits on any mesh. */
import { type DType, isFloat, isHalf } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import type { Shape } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { checkDType, checkShape } from "./arguments.ts";
import { tensor } from "./create.ts";
import { isTensor, operate, type Tensor, type TensorLike } from "./tensor.ts";

/**
 * The key of a seed, a whole number from 0 to 2^53 - 1.
 *
 * @throws HeddleError `option` for another number: two seeds never share a key by being rounded or cut.
 */
export function key(seed: number): Tensor {
  checkInteger("random.key", "seed", seed);
  return tensor(Uint32Array.of(seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0));
}

/**
 * A new key for a number or an i32 scalar from 0 to 2^30 - 1: how steps, layers and loops get keys of their own.
 *
 * @throws HeddleError `option` for a number that is not in that range.
 */
export function foldIn(from: Tensor, data: TensorLike): Tensor {
  checkKey("random.foldIn", from);
  if (typeof data !== "number") return operate("foldIn", ops.foldIn, [from, data]);
  checkInteger("random.foldIn", "data", data, 0, 2 ** 30 - 1);
  return operate("foldIn", ops.foldIn, [from], data);
}

/** @throws HeddleError `argument` unless it is a tensor: a seed is no key. */
function checkKey(what: string, from: unknown): void {
  if (!isTensor(from))
    throw new HeddleError("argument", `${what}: takes a key first, got ${shown(from)}`, {
      hint: typeof from === "number" ? `make one of the seed: random.key(${from})` : "make one: random.key(seed)",
    });
}

/** Uniform u32 words. */
export function bits(from: Tensor, shape: Shape): Tensor {
  checkKey("random.bits", from);
  checkShape("random.bits", shape);
  return operate("random.bits", ops.randomBits, [from], shape);
}

function checkFloats(what: string, shape: Shape, options: FloatOptions, names: readonly string[]): void {
  checkOptions(what, options, ["dtype", ...names]);
  const { dtype = "f32" } = options;
  checkDType(what, dtype);
  if (!isFloat(dtype))
    throw new HeddleError("dtype", `${what}: gives floats, not ${dtype}`, { hint: "cast the result" });
  checkShape(what, shape);
}

interface FloatOptions {
  /** Default f32. */
  readonly dtype?: DType;
}

function buildUniform(from: Node, shape: Shape, low: number, high: number, dtype: DType): Node {
  // As many bits as are exact, so that nothing is rounded up to 1.
  const bits = { f64: 32, f32: 24, f16: 11, bf16: 8 }[dtype as "f64"];
  const words = ops.randomBits(from, shape);
  const kept = bits === 32 ? words : ops.shiftRight(words, 32 - bits);
  const unit = ops.mul(ops.cast(kept, dtype), 2 ** -bits);
  return ops.add(ops.mul(unit, high - low), low);
}

/** Uniform numbers in [min, max). */
export function uniform(
  from: Tensor,
  shape: Shape,
  options: FloatOptions & { readonly min?: number; readonly max?: number } = {},
): Tensor {
  checkKey("random.uniform", from);
  checkFloats("random.uniform", shape, options, ["min", "max"]);
  for (const bound of ["min", "max"] as const) {
    if (options[bound] !== undefined) checkBound(bound, options[bound]);
  }
  return operate(
    "random.uniform",
    buildUniform,
    [from],
    shape,
    options.min ?? 0,
    options.max ?? 1,
    options.dtype ?? "f32",
  );
}

function checkBound(name: string, value: unknown): void {
  if (typeof value === "number" && !Number.isNaN(value)) return;
  throw new HeddleError("option", `random.uniform: ${name} must be a number, got ${shown(value)}`);
}

function buildNormal(from: Node, shape: Shape, dtype: DType): Node {
  // With 8 or 11 bits there would be no tails.
  if (isHalf(dtype)) return ops.cast(buildNormal(from, shape, "f32"), dtype);
  // Box and Muller, with 1 - u so that the logarithm never sees 0.
  const radius = buildUniform(ops.foldIn(from, 0), shape, 0, 1, dtype);
  const angle = buildUniform(ops.foldIn(from, 1), shape, 0, 2 * Math.PI, dtype);
  return ops.mul(ops.sqrt(ops.mul(ops.log(ops.sub(1, radius)), -2)), ops.cos(angle));
}

/** Numbers of the standard normal distribution. */
export function normal(from: Tensor, shape: Shape, options: FloatOptions = {}): Tensor {
  checkKey("random.normal", from);
  checkFloats("random.normal", shape, options, []);
  return operate("random.normal", buildNormal, [from], shape, options.dtype ?? "f32");
}

function buildBernoulli(from: Node, probability: number, shape: Shape): Node {
  if (probability >= 1) return ops.full("bool", shape, 1);
  return ops.lt(ops.randomBits(from, shape), ops.full("u32", shape, Math.round(probability * 2 ** 32)));
}

/**
 * True with the given probability, in [0, 1]. Bits are compared as integers, so the mask is the same for every dtype of
 * the data.
 *
 * @throws HeddleError `option` for another probability.
 */
export function bernoulli(from: Tensor, probability: number, shape: Shape): Tensor {
  checkKey("random.bernoulli", from);
  checkNumber("random.bernoulli", "probability", probability, 0, 1);
  checkShape("random.bernoulli", shape);
  return operate(
    "bernoulli",
    (node: Node, ...rest: [number, Shape]) => buildBernoulli(node, ...rest),
    [from],
    probability,
    shape,
  );
}
