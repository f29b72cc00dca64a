/** @module Floats as 8-bit integers with a scale, and back. */
import { checkDType } from "../../tensor/arguments.ts";
import { checkTensor, type Tensor } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { select } from "../functions.ts";
import { maximum, minimum, round } from "../methods/index.ts";
import { max, min } from "../methods/reductions.ts";

/** Options of {@link quantize}. */
export interface QuantizeOptions {
  /**
   * `i8` (default): symmetric, zero is 0 and the values go from -127 to 127, as for weights. `u8`: affine, the values go from 0 to 255
   * and zero is one of them, as for activations.
   */
  readonly dtype?: "i8" | "u8";
  /** A dim whose positions have a scale each, as for the channels of a weight; default: one scale for all. */
  readonly dim?: number;
}

/** Integers that stand for `(values - zeroPoint) · scale`; a type, so that it can be a part of a tree. */
export type Quantized = {
  /** i8 or u8. */
  readonly values: Tensor;
  /** f32: a scalar, or one for each position of a dim, the other dims being 1. */
  readonly scale: Tensor;
  /** i32, in the shape of `scale`: the integer that stands for 0; it is 0 for i8. */
  readonly zeroPoint: Tensor;
};

/**
 * Floats as 8-bit integers of a scale that just holds them all: `round(x / scale) + zeroPoint`, rounded to even. u8 is what ONNX's
 * DynamicQuantizeLinear gives. {@link dequantize} is the way back; the error is at most half of the scale. `NaN` has no integer: the
 * scale is then NaN. It has no gradient.
 *
 * @throws HeddleError `dtype` for a tensor that is not float or a dtype other than i8 and u8; `option` for a dim that does not exist
 * @example matmul(quantize(x, { dtype: "u8" }).values, quantize(weight, { dim: 1 }).values, { dtype: "i32" })
 */
export function quantize(x: Tensor, options: QuantizeOptions = {}): Quantized {
  checkTensor("quantize", x);
  checkOptions("quantize", options, ["dtype", "dim"]);
  const { dtype = "i8", dim } = options;
  checkDType("quantize", dtype);
  if (dtype !== "i8" && dtype !== "u8")
    throw new HeddleError("dtype", `quantize: quantises to i8 and u8, not to ${String(dtype)}`);
  if (!["f32", "f64", "f16", "bf16"].includes(x.dtype))
    throw new HeddleError("dtype", `quantize: takes floats, got ${x.dtype}`);
  const rank = x.shape.length;
  if (dim !== undefined) checkInteger("quantize", "dim", dim, -rank, rank - 1);
  const over = x.shape.flatMap((_size, other) => (dim !== undefined && other === (dim + rank) % rank ? [] : [other]));
  const kept = { keepDims: dim !== undefined };
  const wide = x.cast("f32");
  const [low, high] = [minimum(min(wide, over, kept), 0), maximum(max(wide, over, kept), 0)];
  const [least, most] = dtype === "i8" ? [-127, 127] : [0, 255];
  const span = dtype === "i8" ? maximum(high, low.neg()) : high.sub(low);
  // All values are 0: any scale holds them.
  const scale = select(span.eq(0), 1 / most, span.div(most));
  const zero = dtype === "i8" ? low.mul(0) : minimum(maximum(round(low.neg().div(scale)), 0), 255);
  const values = minimum(maximum(round(wide.div(scale)).add(zero), least), most);
  return { values: values.cast(dtype), scale, zeroPoint: zero.cast("i32") };
}

/**
 * The f32 numbers that quantised integers stand for: `(values - zeroPoint) · scale`.
 *
 * @throws HeddleError `option` for another record, `argument` where one of the three is no tensor
 */
export function dequantize(quantized: Quantized): Tensor {
  checkOptions("dequantize", quantized, ["values", "scale", "zeroPoint"]);
  const { values, scale, zeroPoint } = quantized;
  for (const part of [values, scale, zeroPoint]) checkTensor("dequantize", part);
  return values.cast("i32").sub(zeroPoint).cast("f32").mul(scale);
}
