/** @module The elementwise functions over tensors: made of src/ops/function-table.ts by `npx vitest run test/ops/spelled -u`. */
import * as ops from "../../ops/index.ts";
import { type Binary, binary, comparison, type Unary, unary } from "../spelling.ts";

/** -x; integers wrap, unsigned integers too: the negative of 1 in u8 is 255. Not defined for bool. */
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
/** Square root, of floats: NaN below 0, -0 at -0. The gradient at 0 is infinite. */
export const sqrt: Unary = unary("sqrt", ops.sqrt);
/** 1 / sqrt(x), of floats: NaN below 0, Infinity at 0, -Infinity at -0. */
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
/** Nearest integer, of floats and as floats; halves round to even, and zero keeps its sign. Its gradient is 0. */
export const round: Unary = unary("round", ops.round);
/** Logical not of bool, bitwise not of integers. Not defined for floats. */
export const not: Unary = unary("not", ops.not);
/** The integer part of floats: rounds toward 0 and keeps the sign of zero. Its gradient is 0. */
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
/** Cube root of floats, also of negative numbers; keeps -0. The gradient at 0 is infinite. */
export const cbrt: Unary = unary("cbrt", ops.cbrt);
/** 1 - erf(x), of floats, which keeps its digits where erf is near 1. */
export const erfc: Unary = unary("erfc", ops.erfc);
/** The inverse of erf, of floats: infinite at -1 and 1, NaN outside. */
export const erfInv: Unary = unary("erfInv", ops.erfInv);
/** Logarithm of |gamma(x)|, of floats; infinite at 0, -1, -2, …. */
export const lgamma: Unary = unary("lgamma", ops.lgamma);
/** Derivative of {@link lgamma}, of floats: -Infinity at 0, Infinity at -0, NaN at -1, -2, …. */
export const digamma: Unary = unary("digamma", ops.digamma);
/** The number of set bits of an integer, in its dtype. */
export const popcount: Unary = unary("popcount", ops.popcount);
/** The number of zero bits above the highest set bit of an integer, in its dtype; the width of the dtype for 0. */
export const countLeadingZeros: Unary = unary("countLeadingZeros", ops.countLeadingZeros);
/** Whether x is neither infinite nor NaN; bool. Of floats only. */
export const isFinite: Unary = unary("isFinite", ops.isFinite);
/** max(x, 0), of floats and integers; NaN stays. The gradient at 0 is 0, as in PyTorch. */
export const relu: Unary = unary("relu", ops.relu);
/** x itself, as a constant: no derivative flows through it, in forward or reverse mode. */
export const stopGradient: Unary = unary("stopGradient", ops.stopGradient);
/** 1 / x, of floats; integers truncate toward 0. */
export const reciprocal: Unary = unary("reciprocal", ops.reciprocal);
/** x times x; integers wrap. */
export const square: Unary = unary("square", ops.square);
/** Whether x is NaN; bool, false for all but floats. */
export const isNaN: Unary = unary("isNaN", ops.isNaN);
/** Whether x is infinite; bool. Of floats only. */
export const isInf: Unary = unary("isInf", ops.isInf);
/** x + y, with broadcasting; integers wrap. Not defined for bool: use {@link or} or {@link xor}. */
export const add: Binary = binary("add", ops.add);
/** x - y, with broadcasting; integers wrap, unsigned integers too. Not defined for bool. */
export const sub: Binary = binary("sub", ops.sub);
/** x times y, elementwise, with broadcasting; integers wrap. Not defined for bool: use {@link and}. */
export const mul: Binary = binary("mul", ops.mul);
/**
 * x / y, with broadcasting. Integers stay integers and truncate toward 0.
 *
 * @throws HeddleError `value` when the graph runs and divides an integer by 0.
 */
export const div: Binary = binary("div", ops.div);
/**
 * Remainder of x / y with the sign of x, with broadcasting; NaN for a float divided by 0.
 *
 * @throws HeddleError `value` when the graph runs and divides an integer by 0.
 */
export const rem: Binary = binary("rem", ops.rem);
/**
 * x to the y, with broadcasting. Floats: 1 if y = 0 or x = 1, whatever the other operand is; NaN if x < 0, unless y is
 * whole or infinite. The gradient by x is 0 if y = 0. The gradient by y is 0 if x = 0 and y >= 0, and if x < 0 and the
 * power is not NaN. Integers stay integers and wrap; to a negative element of an integer y, 1 gives 1, -1 gives 1 or
 * -1, and other integers give 0.
 *
 * @throws HeddleError `dtype` for an integer tensor to a negative JavaScript number.
 */
export const pow: Binary = binary("pow", ops.pow);
/** The larger of x and y, with broadcasting; NaN wins. Equal operands share the gradient. Not defined for bool. */
export const maximum: Binary = binary("maximum", ops.maximum);
/** The smaller of x and y, with broadcasting; NaN wins. Equal operands share the gradient. Not defined for bool. */
export const minimum: Binary = binary("minimum", ops.minimum);
/** Logical and of bool, bitwise and of integers, with broadcasting. Not defined for floats. */
export const and: Binary = binary("and", ops.and);
/** Logical or of bool, bitwise or of integers, with broadcasting. Not defined for floats. */
export const or: Binary = binary("or", ops.or);
/** Logical exclusive or of bool, bitwise exclusive or of integers, with broadcasting. Not defined for floats. */
export const xor: Binary = binary("xor", ops.xor);
/** Integers x shifted left by y bits; 0 if y is the width or more. */
export const shiftLeft: Binary = binary("shiftLeft", ops.shiftLeft);
/**
 * The angle of the point (x, y) from the x axis, of floats, in [-pi, pi]. The first operand is y, the second is x:
 * atan2(y, x). Gradients at the origin are 0.
 */
export const atan2: Binary = binary("atan2", ops.atan2);
/** Integers x shifted right by y bits and filled with 0, whatever the sign; 0 if y is the width or more. */
export const shiftRightLogical: Binary = binary("shiftRightLogical", ops.shiftRightLogical);
/** Integers x shifted right by y bits and filled with the highest bit, also of unsigned integers. */
export const shiftRightArithmetic: Binary = binary("shiftRightArithmetic", ops.shiftRightArithmetic);
/** Whether x = y, elementwise, with broadcasting; bool, false for NaN. -0 and 0 are equal. No gradient flows. */
export const eq: Binary = comparison("eq");
/** Whether x and y differ, elementwise, with broadcasting; bool, true for NaN. -0 and 0 are equal. No gradient flows. */
export const ne: Binary = comparison("ne");
/** Whether x < y, elementwise, with broadcasting; bool, false for NaN; false is less than true. No gradient flows. */
export const lt: Binary = comparison("lt");
/** Whether x <= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const le: Binary = comparison("le");
/** Whether x > y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const gt: Binary = comparison("gt");
/** Whether x >= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const ge: Binary = comparison("ge");
