/** @module The operations on tensors, as free functions. */

import type { DType } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import type { Shape } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkBounds, checkDType, checkShape, checkWhole } from "../tensor/arguments.ts";
import { compared, isTensor, operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { CreateOptions } from "./create.ts";
import { fromEnd } from "./nodes.ts";
import { selected } from "./selected.ts";

export {
  arange,
  type CreateOptions,
  full,
  linspace,
  type NestedNumbers,
  type NumberArray,
  ones,
  onesLike,
  tensor,
  zeros,
  zerosLike,
} from "./create.ts";

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

/** -x; integers wrap, unsigned ones too: of 1 in u8 it is 255. Not defined for bool. */
export const neg: Unary = unary("neg", ops.neg);
/** |x| of floats and signed integers; the lowest integer stays as it is. The gradient at 0 is 0. */
export const abs: Unary = unary("abs", ops.abs);
/** -1, 0 or 1, of floats and signed integers; keeps -0 and NaN. Its gradient is 0. */
export const sign: Unary = unary("sign", ops.sign);
/** e to the x, of floats; infinite above about 88.7 in f32. */
export const exp: Unary = unary("exp", ops.exp);
/** exp(x) - 1, of floats, which keeps its digits near 0. */
export const expm1: Unary = unary("expm1", ops.expm1);
/** Natural logarithm, of floats: -Infinity at 0, NaN below. */
export const log: Unary = unary("log", ops.log);
/** log(1 + x), of floats, which keeps its digits near 0: -Infinity at -1, NaN below. */
export const log1p: Unary = unary("log1p", ops.log1p);
/** Square root, of floats: NaN below 0, and -0 of -0. The gradient at 0 is infinite. */
export const sqrt: Unary = unary("sqrt", ops.sqrt);
/** 1 / sqrt(x), of floats: NaN below 0, and infinite at zeros, with their sign. */
export const rsqrt: Unary = unary("rsqrt", ops.rsqrt);
/** Hyperbolic tangent, sinh(x) / cosh(x), of floats, in [-1, 1]. */
export const tanh: Unary = unary("tanh", ops.tanh);
/** 1 / (1 + exp(-x)), the logistic function, of floats, in [0, 1]. */
export const sigmoid: Unary = unary("sigmoid", ops.logistic);
/** log(1 + exp(x)), of floats: a smooth max(x, 0), which does not overflow. */
export const softplus: Unary = unary("softplus", ops.softplus);
/** The error function, 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x, of floats. */
export const erf: Unary = unary("erf", ops.erf);
/** Sine of floats, in radians; NaN at infinities. */
export const sin: Unary = unary("sin", ops.sin);
/** Cosine of floats, in radians; NaN at infinities. */
export const cos: Unary = unary("cos", ops.cos);
/** Largest integer not above x, of floats and as floats. Its gradient is 0. */
export const floor: Unary = unary("floor", ops.floor);
/** Smallest integer not below x, of floats and as floats. Its gradient is 0. */
export const ceil: Unary = unary("ceil", ops.ceil);
/** Nearest integer, of floats and as floats; halves go to the even one, and the sign of zero is kept. Its gradient is 0. */
export const round: Unary = unary("round", ops.round);
/** The opposite of bool, and all bits of integers turned. Not defined for floats. */
export const not: Unary = unary("not", ops.not);
/** Whether x is neither infinite nor NaN; bool. Of floats only. */
export const isFinite: Unary = unary("isFinite", ops.isFinite);
/** Rounds toward zero; keeps the sign of zero. */
export const trunc: Unary = unary("trunc", ops.trunc);
/** Tangent of floats, in radians; NaN at infinities. */
export const tan: Unary = unary("tan", ops.tan);
/** Inverse tangent of floats, in radians from -pi/2 to pi/2. */
export const atan: Unary = unary("atan", ops.atan);
/** Inverse sine of floats, in radians from -pi/2 to pi/2; NaN outside [-1, 1]. */
export const asin: Unary = unary("asin", ops.asin);
/** Inverse cosine of floats, in radians from 0 to pi; NaN outside [-1, 1]. */
export const acos: Unary = unary("acos", ops.acos);
/** Hyperbolic sine, (exp(x) - exp(-x)) / 2, of floats. */
export const sinh: Unary = unary("sinh", ops.sinh);
/** Hyperbolic cosine, (exp(x) + exp(-x)) / 2, of floats; no less than 1. */
export const cosh: Unary = unary("cosh", ops.cosh);
/** Inverse hyperbolic sine, log(x + sqrt(x² + 1)), of floats. */
export const asinh: Unary = unary("asinh", ops.asinh);
/** Inverse hyperbolic cosine, log(x + sqrt(x² - 1)), of floats: no less than 0; NaN below 1. */
export const acosh: Unary = unary("acosh", ops.acosh);
/** Inverse hyperbolic tangent of floats: infinite at -1 and 1, NaN outside. */
export const atanh: Unary = unary("atanh", ops.atanh);
/** 2 to the x, of floats. */
export const exp2: Unary = unary("exp2", ops.exp2);
/** Logarithm to base 2, of floats, exact at powers of 2: -Infinity at 0, NaN below. */
export const log2: Unary = unary("log2", ops.log2);
/** Cube root of floats, negative ones too; keeps -0. The gradient at 0 is infinite. */
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
/** x times x; integers wrap. */
export const square: Unary = unary("square", ops.square);
/** Whether x is NaN; bool. */
export const isNaN: Unary = unary("isNaN", ops.isNaN);
/** Whether x is infinite; bool. */
export const isInf: Unary = unary("isInf", ops.isInf);
/** max(x, 0), of floats and integers; NaN stays. The gradient at 0 is 0, as in PyTorch. */
export const relu: Unary = unary("relu", ops.relu);
/** x itself, which derivatives take for a constant. */
export const stopGradient: Unary = unary("stopGradient", ops.stopGradient);

/** x + y, with broadcasting; integers wrap. Not defined for bool: {@link or} or {@link xor}. */
export const add: Binary = binary("add", ops.add);
/** x - y, with broadcasting; integers wrap, unsigned ones too. Not defined for bool. */
export const sub: Binary = binary("sub", ops.sub);
/** x times y, elementwise, with broadcasting; integers wrap. Not defined for bool: {@link and}. */
export const mul: Binary = binary("mul", ops.mul);
/**
 * x / y, with broadcasting. Integers stay integers and truncate toward 0.
 *
 * @throws HeddleError `value` from the run where an integer is divided by 0.
 */
export const div: Binary = binary("div", ops.div);
/**
 * Remainder of x / y with the sign of x, with broadcasting; NaN for floats by 0.
 *
 * @throws HeddleError `value` from the run where an integer is divided by 0.
 */
export const rem: Binary = binary("rem", ops.rem);
/**
 * x to the y, with broadcasting. Of floats 1 for y = 0 and for x = 1, whatever the other is, and NaN for x < 0 unless y is
 * whole or infinite. The gradient by x is 0 where y = 0; that by y is 0 where x = 0 and y is no less, and where x < 0 has a
 * power. Integers stay integers and wrap; to a power that turns out negative, 1 is 1, -1 is 1 or -1, and all others are 0.
 *
 * @throws HeddleError `dtype` for integers to a negative number.
 */
export const pow: Binary = (x, y) => {
  if (isTensor(x)) ops.checkExponent(x, y);
  return operate("pow", ops.pow, [x, y]);
};
/** The larger of x and y, with broadcasting; NaN wins. Equal ones share the gradient. Not defined for bool. */
export const maximum: Binary = binary("maximum", ops.maximum);
/** The smaller of x and y, with broadcasting; NaN wins. Equal ones share the gradient. Not defined for bool. */
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
export function clamp(x: Tensor, low: TensorLike, high: TensorLike): Tensor {
  checkBounds("clamp", low, high);
  return operate("clamp", ops.clamp, [x, low, high]);
}
/** Both, of bool, or the bits that are set in both, of integers; with broadcasting. Not defined for floats. */
export const and: Binary = binary("and", ops.and);
/** Either or both, of bool, or the bits that are set in either, of integers; with broadcasting. Not defined for floats. */
export const or: Binary = binary("or", ops.or);
/** One and not the other, of bool, or the bits that differ, of integers; with broadcasting. Not defined for floats. */
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
/** Whether x = y, elementwise, with broadcasting; bool, false for NaN. -0 and 0 are equal. No gradient flows. */
export const eq: Binary = (x, y) => compared("eq", x, y);
/** Whether x and y differ, elementwise, with broadcasting; bool, true for NaN. -0 and 0 are equal. No gradient flows. */
export const ne: Binary = (x, y) => compared("ne", x, y);
/** Whether x < y, elementwise, with broadcasting; bool, false for NaN; of bool, false is the less. No gradient flows. */
export const lt: Binary = (x, y) => compared("lt", x, y);
/** Whether x <= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const le: Binary = (x, y) => compared("le", x, y);
/** Whether x > y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const gt: Binary = (x, y) => compared("gt", x, y);
/** Whether x >= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const ge: Binary = (x, y) => compared("ge", x, y);

function sliceFromEnd(x: Node, start: readonly number[], limit: readonly number[], stride?: readonly number[]): Node {
  const counted = (places: readonly number[]): number[] =>
    places.map((place, dim) => fromEnd(place, x.shape[dim] ?? 0));
  return ops.slice(x, counted(start), counted(limit), stride);
}

/** `condition ? onTrue : onFalse`, elementwise, with broadcasting; the condition is bool. */
export const select = (condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor =>
  selected("select", condition, onTrue, onFalse);
/**
 * The elements in another dtype. Floats to integers truncate and saturate, and NaN gives 0; integers among each other wrap;
 * everything to a float is rounded once, to nearest even; everything to bool is `!= 0`. Between floats the gradient is cast
 * back; through other dtypes none flows.
 */
export function cast(x: Tensor, dtype: DType): Tensor {
  checkDType("cast", dtype);
  return operate("cast", ops.cast, [x], dtype);
}
/**
 * The bits of each element as another dtype of the same width: f32, i32 and u32; f64, i64 and u64; i8 and u8; f16 and bf16.
 * The shape stays. Bits have no derivative: gradients through it are 0. StableHLO's `bitcast_convert`, PyTorch's
 * `x.view(dtype)`. The bits of a NaN stay, but where it was computed or passed through JavaScript as a number.
 *
 * @throws HeddleError `dtype` for bool and for dtypes of two widths.
 */
export function bitcast(x: Tensor, dtype: DType): Tensor {
  checkDType("bitcast", dtype);
  return operate("bitcast", ops.bitcast, [x], dtype);
}
/** Another shape for the same elements; one size may be -1. Outside of compiled functions a view: it shares memory with x. */
export function reshape(x: Tensor, shape: Shape): Tensor {
  checkShape("reshape", shape, true);
  return operate("reshape", ops.reshape, [x], shape);
}
/**
 * Output dim i is input dim order[i]; all dims reversed by default. Outside of compiled functions a view, which operations read
 * by strides.
 */
export function transpose(x: Tensor, order?: readonly number[]): Tensor {
  if (order !== undefined) checkWhole("transpose", "order", order);
  return operate("transpose", ops.transpose, [x], order);
}
/**
 * Repeats along new first dims, and along dims of size 1, to fill `shape`: NumPy's rule. The gradient is summed over the
 * repeats.
 *
 * @throws HeddleError `shape` when another size differs.
 */
export function broadcastTo(x: Tensor, shape: Shape): Tensor {
  checkShape("broadcastTo", shape);
  return operate("broadcastTo", ops.broadcastTo, [x], shape);
}
/**
 * Elements start, start + stride, … below `limit`, along each dim; `stride` is 1 by default. One number per dim in each; a
 * negative `start` or `limit` counts from the end: `x.slice([-2], [5])` of five elements is the last two. Outside of compiled
 * functions whole rows are a view, which shares memory with x.
 *
 * @throws HeddleError `shape` unless start <= limit, both are within the dim, and the stride is positive.
 */
export function slice(
  x: Tensor,
  start: readonly number[],
  limit: readonly number[],
  stride?: readonly number[],
): Tensor {
  checkWhole("slice", "start", start);
  checkWhole("slice", "limit", limit);
  if (stride !== undefined) checkWhole("slice", "stride", stride);
  return operate("slice", sliceFromEnd, [x], start, limit, stride);
}
/** Joins tensors along a dim. */
export function concat(inputs: readonly Tensor[], dim = 0): Tensor {
  if (!Array.isArray(inputs) || inputs.length === 0)
    throw new HeddleError("argument", `concat: takes an array of at least one tensor, got ${shown(inputs)}`);
  return operate("concat", buildConcat, inputs, dim);
}

/** The dim comes last, after however many inputs there are. */
const buildConcat = (...given: (Node | number)[]): Node =>
  ops.concat(given.slice(0, -1) as Node[], given.at(-1) as number);
/** The elements in reverse order along `dims`; negative ones count from the end. @throws HeddleError `shape` when one repeats. */
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

/**
 * NumPy's matmul of two tensors of one dtype: [..., m, k] by [..., k, n] gives [..., m, n], with batch dims that broadcast; a
 * vector on the left is a row, on the right a column, and its dim is removed. 16-bit floats are added in f32 and rounded
 * once. Integers give their own dtype and wrap, as in NumPy and JAX: cast i8 and u8 to i32 for JAX's `preferred_element_type`.
 *
 * @throws HeddleError `shape` for scalars and sizes that do not fit, `dtype` for bool and for two dtypes.
 */
export const matmul = (x: Tensor, y: Tensor): Tensor => operate("matmul", ops.matmul, [x, y]);
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

/** 1 where the class is the index, else 0, along a new last dim of `classes`; f32, or `dtype`. Zeros for an index outside. */
export function oneHot(indices: Tensor, classes: number, options: CreateOptions = {}): Tensor {
  checkOptions("oneHot", options, ["dtype"]);
  const { dtype = "f32" } = options;
  checkDType("oneHot", dtype);
  checkInteger("oneHot", "classes", classes, 0);
  return operate("oneHot", ops.oneHot, [indices], classes, dtype);
}
/**
 * The general product of StableHLO (dot_general) of two tensors of one dtype (integers wrap): contracts the dims `xContract` of x with
 * `yContract` of y, for each position of the batch dims `xBatch` and `yBatch`. Dims are numbers from 0, in pairs of equal
 * size; those of the result are the batch dims, what is left of x, then of y.
 */
export const dotGeneral = (x: Tensor, y: Tensor, dims: Parameters<typeof ops.dotGeneral>[2]): Tensor =>
  operate("dotGeneral", ops.dotGeneral, [x, y], dims);

export * from "./at.ts";
export * from "./close.ts";
export { logSoftmax, logSumExp, softmax, softmaxCrossEntropy } from "./composites/softmax.ts";
export * from "./lookup.ts";
export * from "./order.ts";
export * from "./pairs.ts";
export * from "./pooling.ts";
export * from "./rearrange.ts";
export * from "./reduce-window.ts";
export * from "./reductions.ts";
export * from "./statistics.ts";
export * from "./windows.ts";
