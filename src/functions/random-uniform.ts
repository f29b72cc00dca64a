/** @module Keys of random tensors, random bits, and the distributions computed from them directly: uniform, normal, Bernoulli. */

import { type DType, dtypes, isFloat, isHalf, roundTo } from "../ir/dtype.ts";
import { halfBelow } from "../ir/half.ts";
import type { Node } from "../ir/node.ts";
import type { Shape } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkDType, checkShape } from "../tensor/arguments.ts";
import { isTensor, operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { tensor } from "./create.ts";

/**
 * The key of a seed, a whole number from 0 to 2^53 - 1.
 *
 * @throws HeddleError `option` for another number, so that no two seeds share a key by rounding.
 */
export function key(seed: number): Tensor {
  checkInteger("random.key", "seed", seed);
  return tensor(Uint32Array.of(seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0));
}

/**
 * A new key for a number or an i32 scalar from 0 to 2^30 - 1: steps, layers and loops get distinct keys this way.
 *
 * @throws HeddleError `option` for a number that is not in that range.
 */
export function foldIn(from: Tensor, data: TensorLike): Tensor {
  checkKey("random.foldIn", from);
  if (typeof data !== "number") return operate("foldIn", ops.foldIn, [from, data]);
  checkInteger("random.foldIn", "data", data, 0, 2 ** 30 - 1);
  return operate("foldIn", ops.foldIn, [from], data);
}

/** Checks a key. @throws HeddleError `argument` unless it is a tensor; a seed is not a key. */
export function checkKey(what: string, from: unknown): void {
  if (!isTensor(from))
    throw new HeddleError("argument", `${what}: takes a key first, got ${shown(from)}`, {
      hint: typeof from === "number" ? `make one of the seed: random.key(${from})` : "make one: random.key(seed)",
    });
}

/** Uniform u32 words of this shape. */
export function bits(from: Tensor, shape: Shape): Tensor {
  checkKey("random.bits", from);
  checkShape("random.bits", shape);
  return operate("random.bits", ops.randomBits, [from], shape);
}

/** Checks shape and options of a function that draws floats. @throws HeddleError `option`, `dtype` or `shape`. */
export function checkFloats(what: string, shape: Shape, options: FloatOptions, names: readonly string[] = []): void {
  checkOptions(what, options, ["dtype", ...names]);
  const { dtype = "f32" } = options;
  checkDType(what, dtype);
  if (!isFloat(dtype))
    throw new HeddleError("dtype", `${what}: gives floats, not ${dtype}`, { hint: "cast the result" });
  checkShape(what, shape);
}

/** Options of functions that draw floats. */
export interface FloatOptions {
  /** Default f32. */
  readonly dtype?: DType;
}

/** A block of rows of a matrix that has `of` rows; the block begins at row `from`. */
export interface RowBlock {
  readonly from: number;
  readonly of: number;
}

/** Random words of a shape, or of a block among those of the matrix. */
function bitsOf(from: Node, shape: Shape, stream: number, rows: RowBlock | undefined): Node {
  if (rows === undefined) return ops.randomBits(from, shape, { stream });
  const start = ops.concat([ops.full("i32", [1], rows.from), ops.full("i32", [1], 0)], 0);
  return ops.call("randomBits", [from, start], { shape, total: [rows.of, ...shape.slice(1)], stream });
}

const unitBits = { f32: 24, f16: 11, bf16: 8 };

/** Numbers in [0, 1), multiples of 2^-bits with as many bits as the dtype holds, so that none is rounded up to 1. */
function buildUnit(from: Node, shape: Shape, dtype: DType, rows?: RowBlock): Node {
  const part = (words: Node, bits: number, exponent: number): Node =>
    ops.mul(ops.cast(bits === 32 ? words : ops.shiftRight(words, 32 - bits), dtype), 2 ** -exponent);
  const words = bitsOf(from, shape, 0, rows);
  // f64 takes 32 bits of one word and 21 of another stream.
  if (dtype === "f64") return ops.add(part(words, 32, 32), part(bitsOf(from, shape, 2, rows), 21, 53));
  const bits = unitBits[dtype as "f32"];
  return part(words, bits, bits);
}

/**
 * Numbers in [low, high). A number that rounds up to `high` becomes `low`: each takes half of a rounding interval, so all numbers
 * in between have their share.
 */
function buildUniform(from: Node, shape: Shape, low: number, high: number, dtype: DType): Node {
  if (low === 0 && high === 1) return buildUnit(from, shape, dtype);
  const wide = isHalf(dtype) ? "f32" : dtype;
  // A width that overflows is computed at half its size.
  const scale = Number.isFinite(roundTo(wide, high - low)) ? 1 : 0.5;
  const width = high * scale - low * scale;
  const drawn = ops.add(ops.mul(buildUnit(from, shape, wide), width), low * scale);
  const end = roundTo(dtype, high);
  // For 16-bit floats, the first f32 number that rounds to the end: the comparison comes before rounding.
  const limit = isHalf(dtype) ? (halfBelow(dtype, end) + end) / 2 : end;
  const spread = scale === 1 ? drawn : ops.div(drawn, scale);
  return ops.cast(ops.select(ops.lt(spread, limit), spread, low), dtype);
}

/**
 * Uniform numbers in [min, max), by default [0, 1), with as many random bits as the dtype holds: 53 for f64, 24 for f32, and in [0, 1)
 * 11 for f16 and 8 for bf16; other intervals of 16-bit floats are drawn in f32 and rounded once. The bounds are rounded to the dtype;
 * if no number is left between them, all numbers are `min`.
 *
 * @throws HeddleError `option` for a bound that the dtype does not have (NaN, infinite, too large), or a `max` below `min`;
 * `dtype` unless it is a float dtype
 */
export function uniform(
  from: Tensor,
  shape: Shape,
  options: FloatOptions & { readonly min?: number; readonly max?: number } = {},
): Tensor {
  checkKey("random.uniform", from);
  checkFloats("random.uniform", shape, options, ["min", "max"]);
  const { min = 0, max = 1, dtype = "f32" } = options;
  const { lowest, highest } = dtypes[dtype];
  checkNumber("random.uniform", "min", min, lowest, highest);
  checkNumber("random.uniform", "max", max, Math.max(min, lowest), highest);
  // -0 and 0 are the same bound.
  return operate("random.uniform", buildUniform, [from], shape, min + 0, max + 0, dtype);
}

function buildNormal(from: Node, shape: Shape, dtype: DType, rows?: RowBlock): Node {
  // 8 or 11 bits would give no tails.
  if (isHalf(dtype)) return ops.cast(buildNormal(from, shape, "f32"), dtype);
  // Box and Muller, with 1 - u so that the logarithm never sees 0.
  const radius = buildUnit(ops.foldIn(from, 0), shape, dtype, rows);
  const angle = ops.mul(buildUnit(ops.foldIn(from, 1), shape, dtype, rows), 2 * Math.PI);
  return ops.mul(ops.sqrt(ops.mul(ops.log(ops.sub(1, radius)), -2)), ops.cos(angle));
}

/**
 * Numbers of the standard normal distribution (Box and Muller, 1958): up to 5.8 in f32, from which 16-bit floats are rounded, and up to
 * 8.6 in f64.
 */
export function normal(from: Tensor, shape: Shape, options: FloatOptions = {}): Tensor {
  checkKey("random.normal", from);
  checkFloats("random.normal", shape, options, []);
  return operate("random.normal", buildNormal, [from], shape, options.dtype ?? "f32");
}

/** A block of the rows that `uniform` or `normal` give in f64 for the whole matrix. `shape` is that of the block. */
export const randomRows = (from: Tensor, shape: Shape, kind: "uniform" | "normal", rows: RowBlock): Tensor =>
  operate(`random.${kind}`, kind === "normal" ? buildNormal : buildUnit, [from], shape, "f64", rows);

function buildBernoulli(from: Node, probability: number, shape: Shape): Node {
  const below = Math.round(probability * 2 ** 32);
  if (below === 2 ** 32) return ops.full("bool", shape, 1);
  return ops.lt(ops.randomBits(from, shape), ops.full("u32", shape, below));
}

/**
 * Bool of this shape, true with the given probability in [0, 1], rounded to a multiple of 2^-32: 0 is never true, 1 always. Bits are compared as
 * integers, so the mask is the same for every dtype of the data.
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
