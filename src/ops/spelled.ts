/** @module The elementwise functions over nodes: made of src/ops/function-table.ts by `npx vitest run test/ops/spelled -u`. */
import { binary, unary } from "./spelling.ts";

/** -x; integers wrap, unsigned integers too: the negative of 1 in u8 is 255. Not defined for bool. */
export const neg = unary("neg");
/** |x| of floats and signed integers; the lowest integer stays as it is. The gradient at 0 is 0. */
export const abs = unary("abs");
/** -1, 0 or 1, of floats and signed integers; keeps -0 and NaN. Its gradient is 0. */
export const sign = unary("sign");
/** e to the x, of floats; infinite above about 88.7 in f32. */
export const exp = unary("exp");
/** exp(x) - 1, of floats, which keeps its digits near 0. */
export const expm1 = unary("expm1");
/** Natural logarithm, of floats: -Infinity at 0, NaN below. */
export const log = unary("log");
/** log(1 + x), of floats, which keeps its digits near 0: -Infinity at -1, NaN below. */
export const log1p = unary("log1p");
/** Square root, of floats: NaN below 0, -0 at -0. The gradient at 0 is infinite. */
export const sqrt = unary("sqrt");
/** 1 / sqrt(x), of floats: NaN below 0, Infinity at 0, -Infinity at -0. */
export const rsqrt = unary("rsqrt");
/** Hyperbolic tangent, sinh(x) / cosh(x), of floats, in [-1, 1]. */
export const tanh = unary("tanh");
/** 1 / (1 + exp(-x)), the logistic function, of floats, in [0, 1]. */
export const logistic = unary("logistic");
/** log(1 + exp(x)), of floats: a smooth max(x, 0), which does not overflow. */
export const softplus = unary("softplus");
/** The error function, 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x, of floats. */
export const erf = unary("erf");
/** Sine of floats, in radians; NaN at infinities. */
export const sin = unary("sin");
/** Cosine of floats, in radians; NaN at infinities. */
export const cos = unary("cos");
/** Largest integer not above x, of floats and as floats. Its gradient is 0. */
export const floor = unary("floor");
/** Smallest integer not below x, of floats and as floats. Its gradient is 0. */
export const ceil = unary("ceil");
/** Nearest integer, of floats and as floats; halves round to even, and zero keeps its sign. Its gradient is 0. */
export const round = unary("round");
/** Logical not of bool, bitwise not of integers. Not defined for floats. */
export const not = unary("not");
/** The integer part of floats: rounds toward 0 and keeps the sign of zero. Its gradient is 0. */
export const trunc = unary("trunc");
/** Tangent of floats, in radians; NaN at infinities. */
export const tan = unary("tan");
/** Inverse tangent of floats, in radians from -pi/2 to pi/2. */
export const atan = unary("atan");
/** Inverse sine of floats, in radians from -pi/2 to pi/2; NaN outside [-1, 1]. */
export const asin = unary("asin");
/** Inverse cosine of floats, in radians from 0 to pi; NaN outside [-1, 1]. */
export const acos = unary("acos");
/** Hyperbolic sine, (exp(x) - exp(-x)) / 2, of floats. */
export const sinh = unary("sinh");
/** Hyperbolic cosine, (exp(x) + exp(-x)) / 2, of floats; no less than 1. */
export const cosh = unary("cosh");
/** Inverse hyperbolic sine, log(x + sqrt(x² + 1)), of floats. */
export const asinh = unary("asinh");
/** Inverse hyperbolic cosine, log(x + sqrt(x² - 1)), of floats: no less than 0; NaN below 1. */
export const acosh = unary("acosh");
/** Inverse hyperbolic tangent of floats: infinite at -1 and 1, NaN outside. */
export const atanh = unary("atanh");
/** 2 to the x, of floats. */
export const exp2 = unary("exp2");
/** Logarithm to base 2, of floats, exact at powers of 2: -Infinity at 0, NaN below. */
export const log2 = unary("log2");
/** Cube root of floats, also of negative numbers; keeps -0. The gradient at 0 is infinite. */
export const cbrt = unary("cbrt");
/** 1 - erf(x), of floats, which keeps its digits where erf is near 1. */
export const erfc = unary("erfc");
/** The inverse of erf, of floats: infinite at -1 and 1, NaN outside. */
export const erfInv = unary("erfInv");
/** Logarithm of |gamma(x)|, of floats; infinite at 0, -1, -2, …. */
export const lgamma = unary("lgamma");
/** Derivative of {@link lgamma}, of floats: -Infinity at 0, Infinity at -0, NaN at -1, -2, …. */
export const digamma = unary("digamma");
/** The number of set bits of an integer, in its dtype. */
export const popcount = unary("popcount");
/** The number of zero bits above the highest set bit of an integer, in its dtype; the width of the dtype for 0. */
export const countLeadingZeros = unary("countLeadingZeros");
/** Whether x is neither infinite nor NaN; bool. Of floats only. */
export const isFinite = unary("isFinite");
/** max(x, 0), of floats and integers; NaN stays. The gradient at 0 is 0, as in PyTorch. */
export const relu = unary("relu");
/** x itself, as a constant: no derivative flows through it, in forward or reverse mode. */
export const stopGradient = unary("stopGradient");
/** x + y, with broadcasting; integers wrap. Not defined for bool: use {@link or} or {@link xor}. */
export const add = binary("add");
/** x - y, with broadcasting; integers wrap, unsigned integers too. Not defined for bool. */
export const sub = binary("sub");
/** x times y, elementwise, with broadcasting; integers wrap. Not defined for bool: use {@link and}. */
export const mul = binary("mul");
/**
 * x / y, with broadcasting. Integers stay integers and truncate toward 0.
 *
 * @throws HeddleError `value` when the graph runs and divides an integer by 0.
 */
export const div = binary("div");
/**
 * Remainder of x / y with the sign of x, with broadcasting; NaN for a float divided by 0.
 *
 * @throws HeddleError `value` when the graph runs and divides an integer by 0.
 */
export const rem = binary("rem");
/**
 * x to the y, with broadcasting. Floats: 1 if y = 0 or x = 1, whatever the other operand is; NaN if x < 0, unless y is
 * whole or infinite. The gradient by x is 0 if y = 0. The gradient by y is 0 if x = 0 and y >= 0, and if x < 0 and the
 * power is not NaN. Integers stay integers and wrap; to a negative element of an integer y, 1 gives 1, -1 gives 1 or
 * -1, and other integers give 0.
 *
 * @throws HeddleError `dtype` for an integer tensor to a negative JavaScript number.
 */
export const pow = binary("pow");
/** The larger of x and y, with broadcasting; NaN wins. Equal operands share the gradient. Not defined for bool. */
export const maximum = binary("max");
/** The smaller of x and y, with broadcasting; NaN wins. Equal operands share the gradient. Not defined for bool. */
export const minimum = binary("min");
/** Logical and of bool, bitwise and of integers, with broadcasting. Not defined for floats. */
export const and = binary("and");
/** Logical or of bool, bitwise or of integers, with broadcasting. Not defined for floats. */
export const or = binary("or");
/** Logical exclusive or of bool, bitwise exclusive or of integers, with broadcasting. Not defined for floats. */
export const xor = binary("xor");
/** Integers x shifted left by y bits; 0 if y is the width or more. */
export const shiftLeft = binary("shiftLeft");
/** Integers x shifted right by y bits: signed integers keep their sign, unsigned integers are filled with 0. */
export const shiftRight = binary("shiftRight");
/**
 * The angle of the point (x, y) from the x axis, of floats, in [-pi, pi]. The first operand is y, the second is x:
 * atan2(y, x). Gradients at the origin are 0.
 */
export const atan2 = binary("atan2");
/**
 * The derivative of order n of digamma at x, of floats. The first operand is n, a whole number from 0 to 170; other
 * numbers give NaN. No gradient flows to n.
 */
export const polygamma = binary("polygamma");
/** Integers x shifted right by y bits and filled with 0, whatever the sign; 0 if y is the width or more. */
export const shiftRightLogical = binary("shiftRightLogical");
/** Integers x shifted right by y bits and filled with the highest bit, also of unsigned integers. */
export const shiftRightArithmetic = binary("shiftRightArithmetic");
/** Whether x = y, elementwise, with broadcasting; bool, false for NaN. -0 and 0 are equal. No gradient flows. */
export const eq = binary("eq");
/** Whether x and y differ, elementwise, with broadcasting; bool, true for NaN. -0 and 0 are equal. No gradient flows. */
export const ne = binary("ne");
/** Whether x < y, elementwise, with broadcasting; bool, false for NaN; false is less than true. No gradient flows. */
export const lt = binary("lt");
/** Whether x <= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const le = binary("le");
/** Whether x > y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const gt = binary("gt");
/** Whether x >= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const ge = binary("ge");
