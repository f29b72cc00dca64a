/** @module ONNX ops on each element. */

import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { type DType, isFloat } from "../../ir/index.ts";
import { functional as f } from "../../nn/index.ts";
import { elu, hardSigmoid, lowerSlope, thresholdedRelu } from "./activations.ts";
import { type NodeContext, type Row, type Rows, row } from "./context.ts";
import { dtypeOfCode } from "./tensors.ts";

const unary = (since: number, fn: (x: Tensor) => Tensor): Row => row(since, (c) => fn(c.x()));
const binary = (since: number, fn: (x: Tensor, y: Tensor) => Tensor): Row => row(since, (c) => fn(c.x(0), c.x(1)));
const variadic = (since: number, fn: (x: Tensor, y: Tensor) => Tensor): Row =>
  row(since, (c) => c.all().reduce((x, y) => fn(x, y)));

/** Unsigned numbers have no sign to change. */
const isSigned = (dtype: DType): boolean => isFloat(dtype) || dtype.startsWith("i");

function pow(x: Tensor, y: Tensor): Tensor {
  if (isFloat(x.dtype)) return x.pow(y.cast(x.dtype));
  if (x.dtype === y.dtype) return x.pow(y);
  // The lowest bits of a wide power are those of a narrow power; exponents must not wrap.
  if (!isFloat(y.dtype)) return x.cast("i64").pow(y.cast("i64")).cast(x.dtype);
  return x.cast("f64").pow(y.cast("f64")).cast(x.dtype);
}

/** Remainder with the sign of the divisor, as Python's; with `fmod` that of the dividend. */
const mod = (c: NodeContext): Tensor => (c.flag("fmod", false) ? h.rem : h.remainder)(c.x(0), c.x(1));

/**
 * Limits that are left out do not bound; a lower limit above the upper gives the upper. Up to opset 10 limits are
 * attributes.
 */
function clip(c: NodeContext): Tensor {
  const limit = (index: number, name: string): Tensor | number | undefined =>
    c.hasAttribute(name) ? c.float(name) : c.optional(index);
  const [x, low, high] = [c.x(), limit(1, "min"), limit(2, "max")];
  if (low !== undefined && high !== undefined) return x.clamp(low, high);
  return low === undefined ? (high === undefined ? x : x.minimum(high)) : x.maximum(low);
}

function isInfinite(c: NodeContext): Tensor {
  const x = c.x();
  const [negative, positive] = [c.flag("detect_negative", true), c.flag("detect_positive", true)];
  if (negative && positive) return x.abs().eq(Infinity);
  return negative ? x.eq(-Infinity) : positive ? x.eq(Infinity) : h.and(x.eq(0), x.ne(0));
}

function shift(c: NodeContext): Tensor {
  const right = isSigned(c.dtype()) ? h.shiftRightArithmetic : h.shiftRightLogical;
  return (c.string("direction") === "LEFT" ? h.shiftLeft : right)(c.x(0), c.x(1));
}

function shrink(c: NodeContext): Tensor {
  const [x, bias, lambda] = [c.x(), c.float("bias", 0), c.float("lambd", 0.5)];
  if (!isFloat(x.dtype)) {
    const wide = x.cast("f64");
    return shrunk(wide, bias, lambda).cast(x.dtype);
  }
  return shrunk(x, bias, lambda);
}

const shrunk = (x: Tensor, bias: number, lambda: number): Tensor =>
  h.select(x.lt(-lambda), x.add(bias), h.select(x.gt(lambda), x.sub(bias), h.zerosLike(x)));

/** An element type as a cast's attribute names it. */
const castTo = (c: NodeContext, op = "Cast"): DType => dtypeOfCode(c.int("to"), `what ${op} makes`);

/** ONNX's bool is a byte, 0 or 1. */
function bitCast(c: NodeContext): Tensor {
  const x = c.x().dtype === "bool" ? c.x().cast("u8") : c.x();
  const to = castTo(c, "BitCast");
  return to === "bool" ? x.bitcast("u8").cast(to) : x.bitcast(to);
}

const exact = (x: Tensor): Tensor => x.mul(h.erf(x.mul(Math.SQRT1_2)).add(1)).mul(0.5);

export const elementwiseRows: Rows = {
  Abs: unary(6, (x) => (isSigned(x.dtype) ? x.abs() : x)),
  Acos: unary(7, h.acos),
  Acosh: unary(9, h.acosh),
  Add: binary(7, h.add),
  And: binary(7, h.and),
  Asin: unary(7, h.asin),
  Asinh: unary(9, h.asinh),
  Atan: unary(7, h.atan),
  Atanh: unary(9, h.atanh),
  BitCast: row(26, bitCast),
  BitShift: row(11, shift),
  BitwiseAnd: binary(18, h.and),
  BitwiseNot: unary(18, h.not),
  BitwiseOr: binary(18, h.or),
  BitwiseXor: binary(18, h.xor),
  Cast: row(6, (c) => c.x().cast(castTo(c))),
  CastLike: row(15, (c) => c.x().cast(c.dtype(1))),
  Ceil: unary(6, h.ceil),
  Celu: row(12, (c) => f.celu(c.x(), { alpha: c.float("alpha", 1) })),
  Clip: row(6, clip),
  Cos: unary(7, h.cos),
  Cosh: unary(9, h.cosh),
  Div: binary(7, h.div),
  Elu: row(6, (c) => elu(c.x(), c.float("alpha", 1))),
  Equal: binary(7, h.eq),
  Erf: unary(9, h.erf),
  Exp: unary(6, h.exp),
  Floor: unary(6, h.floor),
  Gelu: row(20, (c) =>
    c.string("approximate", "none") === "tanh" ? f.gelu(c.x(), { approximate: "tanh" }) : exact(c.x()),
  ),
  Greater: binary(7, h.gt),
  GreaterOrEqual: binary(12, h.ge),
  HardSigmoid: row(6, (c) => hardSigmoid(c.x(), c.float("alpha", 0.2), c.float("beta", 0.5))),
  HardSwish: unary(14, (x) =>
    x.mul(
      x
        .mul(1 / 6)
        .add(0.5)
        .maximum(0)
        .minimum(1),
    ),
  ),
  Identity: unary(1, (x) => x),
  IsInf: row(10, isInfinite),
  IsNaN: unary(9, (x) => x.ne(x)),
  LeakyRelu: row(6, (c) => lowerSlope(c.x(), c.float("alpha", 0.01))),
  Less: binary(7, h.lt),
  LessOrEqual: binary(12, h.le),
  Log: unary(6, h.log),
  Max: variadic(6, h.maximum),
  Mean: row(6, (c) =>
    c
      .all()
      .reduce((x, y) => x.add(y))
      .div(c.count),
  ),
  Min: variadic(6, h.minimum),
  Mish: unary(18, (x) => x.mul(h.tanh(h.softplus(x)))),
  Mod: row(10, mod),
  Mul: binary(7, h.mul),
  Neg: unary(6, h.neg),
  Not: unary(1, h.not),
  Or: binary(7, h.or),
  PRelu: row(7, (c) => lowerSlope(c.x(0), c.x(1))),
  Pow: binary(7, pow),
  Reciprocal: unary(6, (x) => h.div(1, x)),
  Relu: unary(6, (x) => x.maximum(0)),
  Round: unary(11, h.round),
  Selu: row(6, (c) => elu(c.x(), c.float("alpha", 1.6732632)).mul(c.float("gamma", 1.0507009))),
  Shrink: row(9, shrink),
  Sigmoid: unary(6, h.sigmoid),
  Sign: unary(9, (x) => (isSigned(x.dtype) ? h.sign(x) : x.minimum(1))),
  Sin: unary(7, h.sin),
  Sinh: unary(9, h.sinh),
  Softplus: unary(1, h.softplus),
  Softsign: unary(1, f.softsign),
  Sqrt: unary(6, h.sqrt),
  Sub: binary(7, h.sub),
  Sum: variadic(6, h.add),
  Swish: row(24, (c) => c.x().mul(h.sigmoid(c.x().mul(c.float("alpha", 1))))),
  Tan: unary(7, h.tan),
  Tanh: unary(6, h.tanh),
  ThresholdedRelu: row(10, (c) => thresholdedRelu(c.x(), c.float("alpha", 1))),
  Where: row(9, (c) => h.select(c.x(0), c.x(1), c.x(2))),
  Xor: binary(7, h.xor),
};
