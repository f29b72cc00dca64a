/**
 * @module The spelling of graphs, of what goes element by element: numbers, scalar functions with broadcasting, selection and
 * casts. Part of `emit.ts`.
 */

import { boundsOf, type DType, isFloat, isInteger, isLong, isValueOf, roundTo, wrapLong } from "../ir/dtype.ts";
import type { Graph, Node } from "../ir/node.ts";
import { opNamed } from "../ir/op.ts";
import { promote } from "../ir/promote.ts";
import { broadcastShapes, formatType, range, type Shape, sameShape, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import type { Plain } from "../util/text.ts";

/** A node, or a number that takes the dtype of the other operand. */
export type Operand = Node | number | bigint;

/** Applies the op of this name. */
export function call(
  name: string,
  inputs: readonly Node[],
  attrs: { readonly [key: string]: Plain | Graph } = {},
): Node {
  return apply(opNamed(name), inputs, attrs);
}

/** A scalar known when the graph is made, rounded to `dtype`: integers wrap. */
export function constant(dtype: DType, value: number | bigint): Node {
  if (!isLong(dtype) || typeof value === "number" || Number.isSafeInteger(Number(value)))
    return call("constant", [], { dtype, value: roundTo(dtype, Number(value)) });
  // Attributes are numbers: two of 32 bits make one of 64.
  const [high, low] = [wrapLong(dtype, value) >> 32n, value & 0xffff_ffffn];
  return add(mul(constant(dtype, high), 2 ** 32), constant(dtype, low));
}

/** A tensor of one repeated value. */
export const full = (dtype: DType, shape: Shape, value: number | bigint): Node =>
  broadcastTo(constant(dtype, value), shape);

/** Zeros of the shape and dtype of `x`. */
export const zerosLike = (x: Node): Node => full(x.dtype, x.shape, 0);

/** Lifts numbers to the dtype of the other operand and broadcasts all to one shape. */
export function together(name: string, operands: readonly Operand[]): Node[] {
  const given = operands.filter((operand): operand is Node => typeof operand === "object");
  const [first] = given;
  if (first === undefined) throw new HeddleError("op", `${name}: at least one operand must be a tensor`);
  let dtype = first.dtype;
  for (const node of given) {
    const promoted = promote(dtype, node.dtype);
    if (promoted === undefined) {
      throw new HeddleError("dtype", `${name}: no dtype holds both: ${given.map(formatType).join(", ")}`, {
        hint: "cast one of them with cast(x, dtype)",
      });
    }
    dtype = promoted;
  }
  const nodes = operands.map((operand) => {
    if (typeof operand !== "object") return literal(name, dtype, operand);
    return operand.dtype === dtype ? operand : cast(operand, dtype);
  });
  return sameShapes(name, nodes);
}

/** @throws HeddleError `dtype` for a number that is no value of the integers beside it. */
export function checkLiteral(name: string, dtype: DType, value: number | bigint): void {
  if (isFloat(dtype) || isValueOf(dtype, value)) return;
  throw new HeddleError("dtype", `${name}: ${value} is not a value of ${dtype}`, {
    hint: `cast the tensor first: a number takes the dtype of the tensor beside it (${dtype}) and never changes it, as 1 and 1.0 are one number in JavaScript`,
  });
}

/** A number as a scalar of a dtype that it is a value of. */
export function literal(name: string, dtype: DType, value: number | bigint): Node {
  checkLiteral(name, dtype, value);
  return constant(dtype, value);
}

function sameShapes(name: string, nodes: readonly Node[]): Node[] {
  let shape: Shape = [];
  for (const node of nodes) {
    const joined = broadcastShapes(shape, node.shape);
    if (joined === undefined)
      throw new HeddleError("shape", `${name}: shapes do not broadcast: ${nodes.map(formatType).join(", ")}`);
    shape = joined;
  }
  return nodes.map((node) => broadcastTo(node, shape));
}

const unary =
  (name: string) =>
  (x: Node): Node =>
    call(name, [x]);
const binary =
  (name: string) =>
  (x: Operand, y: Operand): Node =>
    call(name, together(name, [x, y]));

/** -x; integers wrap, unsigned ones too: of 1 in u8 it is 255. Not defined for bool. */
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
/** Square root, of floats: NaN below 0, and -0 of -0. The gradient at 0 is infinite. */
export const sqrt = unary("sqrt");
/** 1 / sqrt(x), of floats: NaN below 0, and infinite at zeros, with their sign. */
export const rsqrt = unary("rsqrt");
/** Hyperbolic tangent, sinh(x) / cosh(x), of floats, in [-1, 1]. */
export const tanh = unary("tanh");
/** 1 / (1 + exp(-x)), the sigmoid, of floats, in [0, 1]. */
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
/** Nearest integer, of floats and as floats; halves go to the even one, and the sign of zero is kept. Its gradient is 0. */
export const round = unary("round");
/** The opposite of bool, and all bits of integers turned. Not defined for floats. */
export const not = unary("not");
/** Whether x is neither infinite nor NaN; bool. Of floats only. */
export const isFinite = unary("isFinite");

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
/** Cube root of floats, negative ones too; keeps -0. The gradient at 0 is infinite. */
export const cbrt = unary("cbrt");
/** 1 - erf(x), of floats, which keeps its digits where erf is near 1. */
export const erfc = unary("erfc");
/** The inverse of erf, of floats: infinite at -1 and 1, NaN outside. */
export const erfInv = unary("erfInv");
/** Logarithm of |gamma(x)|, of floats; infinite at 0, -1, -2, …. */
export const lgamma = unary("lgamma");
/** Derivative of {@link lgamma}, of floats; at 0 infinite with the sign against that of zero, NaN at -1, -2, …. */
export const digamma = unary("digamma");
/** How many bits of an integer are set, in its dtype. */
export const popcount = unary("popcount");
/** How many zero bits of an integer are before the highest one that is set, in its dtype; all bits of 0. */
export const countLeadingZeros = unary("countLeadingZeros");
/** 1 / x. */
export const reciprocal = (x: Node): Node => div(1, x);
/** x times x; integers wrap. */
export const square = (x: Node): Node => mul(x, x);
/** Whether x is NaN; bool. */
export const isNaN = (x: Node): Node => ne(x, x);
/** Whether x is infinite; bool. */
export const isInf = (x: Node): Node => eq(abs(x), Infinity);

/** x + y, with broadcasting; integers wrap. Not defined for bool: {@link or} or {@link xor}. */
export const add = binary("add");
/** x - y, with broadcasting; integers wrap, unsigned ones too. Not defined for bool. */
export const sub = binary("sub");
/** x times y, elementwise, with broadcasting; integers wrap. Not defined for bool: {@link and}. */
export const mul = binary("mul");
/**
 * x / y, with broadcasting. Integers stay integers and truncate toward 0.
 *
 * @throws HeddleError `value` from the run where an integer is divided by 0.
 */
export const div = binary("div");
/**
 * Remainder of x / y with the sign of x, with broadcasting; NaN for floats by 0.
 *
 * @throws HeddleError `value` from the run where an integer is divided by 0.
 */
export const rem = binary("rem");
/**
 * x to the y, with broadcasting. Of floats 1 for y = 0 and for x = 1, whatever the other is, and NaN for x < 0 unless y is
 * whole or infinite. The gradient by x is 0 where y = 0; that by y is 0 where x = 0 and y is no less, and where x < 0 has a
 * power. Integers stay integers and wrap; to a power that turns out negative, 1 is 1, -1 is 1 or -1, and all others are 0.
 *
 * @throws HeddleError `dtype` for integers to a negative number.
 */
export function pow(x: Operand, y: Operand): Node {
  checkExponent(x, y);
  return powerOf(x, y);
}
const powerOf = binary("pow");
/** @throws HeddleError `dtype` for integers to a negative number. */
export function checkExponent(x: TensorType | number | bigint, y: unknown): void {
  if (typeof x !== "object" || !isInteger(x.dtype)) return;
  if ((typeof y !== "number" && typeof y !== "bigint") || y >= 0) return;
  throw new HeddleError("dtype", `pow: ${formatType(x)} to the ${y}: integers have no negative powers`, {
    hint: `cast to a float dtype first: pow(cast(x, "f32"), ${y})`,
  });
}
/** The larger of x and y, with broadcasting; NaN wins. Equal ones share the gradient. Not defined for bool. */
export const maximum = binary("max");
/** The smaller of x and y, with broadcasting; NaN wins. Equal ones share the gradient. Not defined for bool. */
export const minimum = binary("min");
/** The least of `high` and the greatest of x and `low`: one dtype and shape for all three. */
export function clamp(x: Operand, low: Operand, high: Operand): Node {
  const [value, least, most] = together("clamp", [x, low, high]) as [Node, Node, Node];
  return minimum(maximum(value, least), most);
}
/** Both, of bool, or the bits that are set in both, of integers; with broadcasting. Not defined for floats. */
export const and = binary("and");
/** Either or both, of bool, or the bits that are set in either, of integers; with broadcasting. Not defined for floats. */
export const or = binary("or");
/** One and not the other, of bool, or the bits that differ, of integers; with broadcasting. Not defined for floats. */
export const xor = binary("xor");
/** x shifted left by y bits, of integers; y of the width or more gives 0. */
export const shiftLeft = binary("shiftLeft");
/** x shifted right by y bits: signed integers keep their sign, unsigned ones are filled with 0. */
export const shiftRight = binary("shiftRight");
/** x shifted right by y bits, of integers, filled with 0 whatever the sign; y of the width or more gives 0. */
export const shiftRightLogical = binary("shiftRightLogical");
/** x shifted right by y bits, of integers, filled with the highest bit, of unsigned ones too. */
export const shiftRightArithmetic = binary("shiftRightArithmetic");
/**
 * The angle of the point (second, first) from the first axis, of floats, in [-pi, pi] by the signs of both; y first: atan2(y, x).
 * Gradients at the origin are 0.
 */
export const atan2 = binary("atan2");
/** The derivative of order n (first operand, a whole number from 0 to 170, else NaN) of digamma at x, of floats. Constant in n. */
export const polygamma = binary("polygamma");

/** Whether x = y, elementwise, with broadcasting; bool, false for NaN. -0 and 0 are equal. No gradient flows. */
export const eq = binary("eq");
/** Whether x and y differ, elementwise, with broadcasting; bool, true for NaN. -0 and 0 are equal. No gradient flows. */
export const ne = binary("ne");
/** Whether x < y, elementwise, with broadcasting; bool, false for NaN; of bool, false is the less. No gradient flows. */
export const lt = binary("lt");
/** Whether x <= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const le = binary("le");
/** Whether x > y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const gt = binary("gt");
/** Whether x >= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows. */
export const ge = binary("ge");

/** Comparisons by name. */
export const comparisons = { eq, ne, lt, le, gt, ge };
export type Comparison = keyof typeof comparisons;

const turned = { eq: "eq", ne: "ne", lt: "gt", le: "ge", gt: "lt", ge: "le" } as const;

/** A comparison as it is, or, of integers or bool with a number, one of the same truth with a value of their dtype. */
export function comparable<T extends TensorType>(
  name: Comparison,
  x: T | number | bigint,
  y: T | number | bigint,
): readonly [Comparison, T | number | bigint, T | number | bigint] {
  const [number, tensor] = isNumber(x) ? [x, y] : [y, x];
  // What is neither is told by the operation, in the order in which it was given.
  if (!isNumber(number) || typeof tensor !== "object" || tensor?.dtype === undefined || isFloat(tensor.dtype))
    return [name, x, y];
  return number === x ? ofIntegers(turned[name], tensor, number) : ofIntegers(name, tensor, number);
}

function ofIntegers<T extends TensorType>(
  name: Comparison,
  x: T,
  y: number | bigint,
): readonly [Comparison, T, number | bigint] {
  const [lowest, highest] = boundsOf(x.dtype);
  const always = (truth: boolean): [Comparison, T, number | bigint] => [truth ? "ge" : "lt", x, lowest];
  if (Number.isNaN(y)) return always(name === "ne");
  if (y < lowest) return always(name === "ne" || name === "gt" || name === "ge");
  if (y > highest) return always(name === "ne" || name === "lt" || name === "le");
  if (typeof y === "bigint" || Number.isInteger(y)) return [name, x, y === 0 ? 0 : y];
  if (name === "eq" || name === "ne") return always(name === "ne");
  // Between two integers: below it is what is up to the lower one.
  return [name === "lt" || name === "le" ? "le" : "gt", x, Math.floor(y)];
}

const isNumber = (value: unknown): value is number | bigint => typeof value === "number" || typeof value === "bigint";

/** `condition ? onTrue : onFalse`, elementwise. */
export function select(condition: Node, onTrue: Operand, onFalse: Operand): Node {
  const [left, right] = together("select", [onTrue, onFalse]) as [Node, Node];
  return call("select", sameShapes("select", [condition, left, right]));
}

/**
 * Converts to another dtype; `x` itself where it has that. Floats to integers truncate and saturate, NaN gives 0; integers among
 * each other wrap; to bool is `!= 0`.
 */
export const cast = (x: Node, dtype: DType): Node => (x.dtype === dtype ? x : call("cast", [x], { dtype }));
/** The same bits as another dtype of the same width. */
export const bitcast = (x: Node, dtype: DType): Node => call("bitcast", [x], { dtype });

/** Broadcasts by NumPy's rule to `shape`. */
export function broadcastTo(x: Node, shape: Shape): Node {
  if (sameShape(x.shape, shape)) return x;
  const lead = shape.length - x.shape.length;
  return broadcastInDim(
    x,
    shape,
    range(x.shape.length).map((dim) => dim + lead),
  );
}

/** Input dim `i` becomes output dim `dims[i]`; sizes of 1 are repeated. */
export const broadcastInDim = (x: Node, shape: Shape, dims: readonly number[]): Node =>
  call("broadcast", [x], { shape, dims });
