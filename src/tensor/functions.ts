/** @module The operations on tensors, as free functions. */

import type { DType } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import type { Shape } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { checkDType, checkWhole } from "./arguments.ts";
import type { CreateOptions } from "./create.ts";
import { selected } from "./selected.ts";
import { checkTensor, type Dims, operate, type ReduceOptions, type Tensor, type TensorLike } from "./tensor.ts";

export { arange, type CreateOptions, full, type NestedNumbers, ones, tensor, zeros, zerosLike } from "./create.ts";
export type { Dims, ReduceOptions } from "./tensor.ts";

type Unary = (x: Tensor) => Tensor;
type Binary = (x: TensorLike, y: TensorLike) => Tensor;
const unary =
  (name: string, build: (x: Node) => Node): Unary =>
  (x) =>
    operate(name, build, [x]);
const binary =
  (name: string, build: (x: ops.Operand, y: ops.Operand) => Node): Binary =>
  (x, y) =>
    operate(name, build, [x, y]);

/** The tensor whose method is meant. */
function self(name: string, x: Tensor): Tensor {
  checkTensor(name, x);
  return x;
}

export const neg: Unary = unary("neg", ops.neg);
export const abs: Unary = unary("abs", ops.abs);
export const sign: Unary = unary("sign", ops.sign);
export const exp: Unary = unary("exp", ops.exp);
export const expm1: Unary = unary("expm1", ops.expm1);
export const log: Unary = unary("log", ops.log);
export const log1p: Unary = unary("log1p", ops.log1p);
export const sqrt: Unary = unary("sqrt", ops.sqrt);
export const rsqrt: Unary = unary("rsqrt", ops.rsqrt);
export const tanh: Unary = unary("tanh", ops.tanh);
export const sigmoid: Unary = unary("sigmoid", ops.logistic);
export const softplus: Unary = unary("softplus", ops.softplus);
export const erf: Unary = unary("erf", ops.erf);
export const sin: Unary = unary("sin", ops.sin);
export const cos: Unary = unary("cos", ops.cos);
export const floor: Unary = unary("floor", ops.floor);
export const ceil: Unary = unary("ceil", ops.ceil);
export const round: Unary = unary("round", ops.round);
export const not: Unary = unary("not", ops.not);
export const isFinite: Unary = unary("isFinite", ops.isFinite);
/** Rounds toward zero; keeps the sign of zero. */
export const trunc: Unary = unary("trunc", ops.trunc);
export const tan: Unary = unary("tan", ops.tan);
export const atan: Unary = unary("atan", ops.atan);
export const asin: Unary = unary("asin", ops.asin);
export const acos: Unary = unary("acos", ops.acos);
export const sinh: Unary = unary("sinh", ops.sinh);
export const cosh: Unary = unary("cosh", ops.cosh);
export const asinh: Unary = unary("asinh", ops.asinh);
export const acosh: Unary = unary("acosh", ops.acosh);
export const atanh: Unary = unary("atanh", ops.atanh);
export const exp2: Unary = unary("exp2", ops.exp2);
export const log2: Unary = unary("log2", ops.log2);
export const cbrt: Unary = unary("cbrt", ops.cbrt);
/** 1 - erf(x), exact where erf is near 1. */
export const erfc: Unary = unary("erfc", ops.erfc);
/** The inverse of erf: infinite at -1 and 1, NaN outside. */
export const erfInv: Unary = unary("erfInv", ops.erfInv);
/** log|gamma(x)|. */
export const lgamma: Unary = unary("lgamma", ops.lgamma);
/** Derivative of lgamma. */
export const digamma: Unary = unary("digamma", ops.digamma);
/** How many bits of an integer are set. */
export const popcount: Unary = unary("popcount", ops.popcount);
/** Zero bits before the highest one that is set. */
export const countLeadingZeros: Unary = unary("countLeadingZeros", ops.countLeadingZeros);
/** 1 / x. */
export const reciprocal: Unary = unary("reciprocal", ops.reciprocal);
export const square: Unary = unary("square", ops.square);
/** Whether x is NaN; bool. */
export const isNaN: Unary = unary("isNaN", ops.isNaN);
/** Whether x is infinite; bool. */
export const isInf: Unary = unary("isInf", ops.isInf);
export const relu: Unary = unary("relu", ops.relu);
/** x itself, which derivatives take for a constant. */
export const stopGradient: Unary = unary("stopGradient", ops.stopGradient);

export const add: Binary = binary("add", ops.add);
export const sub: Binary = binary("sub", ops.sub);
export const mul: Binary = binary("mul", ops.mul);
export const div: Binary = binary("div", ops.div);
export const rem: Binary = binary("rem", ops.rem);
export const pow: Binary = binary("pow", ops.pow);
export const maximum: Binary = binary("maximum", ops.maximum);
export const minimum: Binary = binary("minimum", ops.minimum);
/**
 * Each element of x within bounds: `minimum(maximum(x, low), high)`, StableHLO's `clamp`. NaN stays, and a bound that is NaN
 * gives NaN. Bounds are numbers, or tensors that broadcast with x; dtypes promote as those of `maximum`.
 *
 * The gradient by x is 1 within the bounds and 0 outside. An element that equals a bound shares it with that bound, half
 * each, and one that is NaN has 1, as `maximum` and `minimum` do; PyTorch's `clamp` gives x 1 at a bound and 0 at NaN.
 *
 * @throws HeddleError `argument` when both bounds are numbers and low is above high; of tensors, `high` is the result there.
 */
export const clamp = (x: Tensor, low: TensorLike, high: TensorLike): Tensor => self("clamp", x).clamp(low, high);
export const and: Binary = binary("and", ops.and);
export const or: Binary = binary("or", ops.or);
export const xor: Binary = binary("xor", ops.xor);
/** The angle of the point (x, y) from the first axis, given y first, in [-pi, pi] by the signs of both. */
export const atan2: Binary = binary("atan2", ops.atan2);
/** The derivative of order n of digamma at x; n whole numbers from 0 to 170 in the dtype of x, and constant for gradients. */
export const polygamma: Binary = binary("polygamma", ops.polygamma);
/** x shifted left by y bits; y of the width or more gives 0. */
export const shiftLeft: Binary = binary("shiftLeft", ops.shiftLeft);
/** x shifted right by y bits, filled with 0. */
export const shiftRightLogical: Binary = binary("shiftRightLogical", ops.shiftRightLogical);
/** x shifted right by y bits, filled with its highest bit. */
export const shiftRightArithmetic: Binary = binary("shiftRightArithmetic", ops.shiftRightArithmetic);
export const eq: Binary = binary("eq", ops.eq);
export const ne: Binary = binary("ne", ops.ne);
export const lt: Binary = binary("lt", ops.lt);
export const le: Binary = binary("le", ops.le);
export const gt: Binary = binary("gt", ops.gt);
export const ge: Binary = binary("ge", ops.ge);

/** `condition ? onTrue : onFalse`, elementwise, with broadcasting; the condition is bool. */
export const select = (condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor =>
  selected("select", condition, onTrue, onFalse);
export const cast = (x: Tensor, dtype: DType): Tensor => self("cast", x).cast(dtype);
/**
 * The bits of each element as another dtype of the same width: f32, i32 and u32; f64, i64 and u64; i8 and u8; f16 and bf16.
 * The shape stays. Bits have no derivative: gradients through it are 0. StableHLO's `bitcast_convert`, PyTorch's
 * `x.view(dtype)`. The bits of a NaN stay, but where it was computed or passed through JavaScript as a number.
 *
 * @throws HeddleError `dtype` for bool and for dtypes of two widths.
 */
export const bitcast = (x: Tensor, dtype: DType): Tensor => self("bitcast", x).bitcast(dtype);
/** Another shape for the same elements; one size may be -1. */
export const reshape = (x: Tensor, shape: Shape): Tensor => self("reshape", x).reshape(shape);
/** Output dim i is input dim order[i]; all dims reversed by default. */
export const transpose = (x: Tensor, order?: readonly number[]): Tensor => self("transpose", x).transpose(order);
export const broadcastTo = (x: Tensor, shape: Shape): Tensor => self("broadcastTo", x).broadcastTo(shape);
export const slice = (
  x: Tensor,
  start: readonly number[],
  limit: readonly number[],
  stride?: readonly number[],
): Tensor => self("slice", x).slice(start, limit, stride);
/** Joins tensors along a dim. */
export function concat(inputs: readonly Tensor[], dim = 0): Tensor {
  if (!Array.isArray(inputs) || inputs.length === 0)
    throw new HeddleError("argument", `concat: takes an array of at least one tensor, got ${shown(inputs)}`);
  return operate("concat", buildConcat, inputs, dim);
}

/** The dim comes last, after however many inputs there are. */
const buildConcat = (...given: (Node | number)[]): Node =>
  ops.concat(given.slice(0, -1) as Node[], given.at(-1) as number);
export function reverse(x: Tensor, dims: readonly number[]): Tensor {
  checkWhole("reverse", "dims", dims);
  return operate("reverse", ops.reverse, [x], dims);
}
/**
 * Pads with a value: `amounts[dim] = [low, high]`, or `[low, high, interior]` with that many between neighbours; negative
 * `low` and `high` cut off.
 */
export function pad(
  x: Tensor,
  amounts: readonly (readonly [number, number] | readonly [number, number, number])[],
  value = 0,
): Tensor {
  if (!Array.isArray(amounts))
    throw new HeddleError("argument", `pad: amounts must be [low, high] per dim, got ${shown(amounts)}`);
  amounts.forEach((amount, dim) => {
    checkWhole("pad", `amounts[${dim}]`, amount);
  });
  return operate(
    "pad",
    (node: Node, list: readonly (readonly [number, number, number?])[], value: number) =>
      ops.pad(
        node,
        ops.constant(node.dtype, value),
        list.map(([low]) => low),
        list.map(([, high]) => high),
        list.map(([, , interior]) => interior ?? 0),
      ),
    [x],
    amounts,
    value,
  );
}

export const sum = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor => self("sum", x).sum(dims, options);
export const mean = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor => self("mean", x).mean(dims, options);
export const max = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor => self("max", x).max(dims, options);
export const min = (x: Tensor, dims?: Dims, options?: ReduceOptions): Tensor => self("min", x).min(dims, options);
/** Index (i32) of the largest element along a dim (default the last): the first of ties, the first NaN. */
export const argMax = (x: Tensor, dim?: number): Tensor => self("argMax", x).argMax(dim);
/** Sum of the elements up to and including each one, along a dim (default the last); same shape and dtype, integers wrap. */
export const cumsum = (x: Tensor, dim?: number): Tensor => operate("cumsum", ops.cumsum, [x], dim);
export const matmul = (x: Tensor, y: Tensor): Tensor => self("matmul", x).matmul(y);
export const softmax = (x: Tensor, dim?: number): Tensor => self("softmax", x).softmax(dim);
export const logSoftmax = (x: Tensor, dim?: number): Tensor => operate("logSoftmax", ops.logSoftmax, [x], dim);
export function logSumExp(x: Tensor, dim?: number, options: ReduceOptions = {}): Tensor {
  checkOptions("logSumExp", options, ["keepDims"]);
  return operate("logSumExp", ops.logSumExp, [x], dim, options);
}
/** Cross-entropy per row of logits [rows…, classes] with i32 labels [rows…]. */
export const softmaxCrossEntropy = (logits: Tensor, labels: Tensor): Tensor =>
  operate("softmaxCrossEntropy", ops.softmaxCrossEntropy, [logits, labels]);
/** Elements at the i32 `indices` along a dim. */
export const take = (x: Tensor, indices: Tensor, dim = 0): Tensor => operate("take", ops.take, [x, indices], dim);
/**
 * A matrix that is zero but at (`rows`, `columns`), i32 vectors as long as the float `values`; entries of one place add up.
 * Compiled functions multiply it by other matrices, and differentiate that, on its entries alone, which an absent entry
 * times infinity shows: it counts as 0. Every other operation gets the dense matrix.
 *
 * @param shape rows and columns of the matrix
 * @throws HeddleError `value` from the run when an index lies outside.
 */
export const sparse = (values: Tensor, rows: Tensor, columns: Tensor, shape: readonly [number, number]): Tensor =>
  operate("sparse", ops.sparse, [values, rows, columns], shape);

/** Rows by index after `batchDims` common dims. */
export const gather = (x: Tensor, indices: Tensor, batchDims = 0): Tensor =>
  operate("gather", ops.gather, [x, indices], batchDims);
export function oneHot(indices: Tensor, classes: number, options: CreateOptions = {}): Tensor {
  checkOptions("oneHot", options, ["dtype"]);
  const { dtype = "f32" } = options;
  checkDType("oneHot", dtype);
  checkInteger("oneHot", "classes", classes, 0);
  return operate("oneHot", ops.oneHot, [indices], classes, dtype);
}
export const dotGeneral = (x: Tensor, y: Tensor, dims: Parameters<typeof ops.dotGeneral>[2]): Tensor =>
  operate("dotGeneral", ops.dotGeneral, [x, y], dims);

export * from "./arrange.ts";
export * from "./pooling.ts";
export * from "./windows.ts";
