/**
 * @module The table of scalar functions. A row has the reference, the gradient and the dtypes of one function; the ops,
 * their shardings and their native instructions follow from it (`scalar-ops.ts`).
 */

import { type DType, dtypes, isInteger, isSigned } from "../ir/dtype.ts";
import { absent, type Node } from "../ir/node.ts";
import { faultError } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { bitPairs, bitRows, wholePower } from "./scalar-bits.ts";
import { functionPairs, functionRows } from "./scalar-functions.ts";
import type { CompareRow, ScalarRow } from "./scalar-row.ts";
import { erf, roundHalfEven } from "./special.ts";

export type { ScalarGradient, ScalarRow } from "./scalar-row.ts";

const none = undefined;
const { add, mul, sub, div, neg, select } = emit;

export const unaryRows: { readonly [name: string]: ScalarRow } = {
  neg: {
    doc: "-x; integers wrap, unsigned integers too: the negative of 1 in u8 is 255. Not defined for bool.",
    dtypes: "number",
    value: (x) => -x,
    gradient: [(dy) => neg(dy)],
    linear: [[0]],
    cost: 1,
  },
  abs: {
    doc: "|x| of floats and signed integers; the lowest integer stays as it is. The gradient at 0 is 0.",
    dtypes: "signed",
    value: Math.abs,
    gradient: [(dy, x) => mul(dy, emit.sign(x))],
    linear: [],
    cost: 1,
  },
  sign: {
    doc: "-1, 0 or 1, of floats and signed integers; keeps -0 and NaN. Its gradient is 0.",
    dtypes: "signed",
    value: Math.sign,
    gradient: [none],
    linear: [],
    cost: 1,
  },
  exp: {
    doc: "e to the x, of floats; infinite above about 88.7 in f32.",
    dtypes: "float",
    value: Math.exp,
    gradient: [(dy, _x, _y, out) => mul(dy, out)],
    linear: [],
    cost: 10,
  },
  expm1: {
    doc: "exp(x) - 1, of floats, which keeps its digits near 0.",
    dtypes: "float",
    value: Math.expm1,
    gradient: [(dy, _x, _y, out) => mul(dy, add(out, 1))],
    linear: [],
    cost: 10,
  },
  log: {
    doc: "Natural logarithm, of floats: -Infinity at 0, NaN below.",
    dtypes: "float",
    value: Math.log,
    gradient: [(dy, x) => div(dy, x)],
    linear: [],
    cost: 10,
  },
  log1p: {
    doc: "log(1 + x), of floats, which keeps its digits near 0: -Infinity at -1, NaN below.",
    dtypes: "float",
    value: Math.log1p,
    gradient: [(dy, x) => div(dy, add(x, 1))],
    linear: [],
    cost: 10,
  },
  sqrt: {
    doc: "Square root, of floats: NaN below 0, -0 at -0. The gradient at 0 is infinite.",
    dtypes: "float",
    value: Math.sqrt,
    gradient: [(dy, _x, _y, out) => div(mul(dy, 0.5), out)],
    linear: [],
    cost: 4,
  },
  rsqrt: {
    doc: "1 / sqrt(x), of floats: NaN below 0, Infinity at 0, -Infinity at -0.",
    dtypes: "float",
    value: (x) => 1 / Math.sqrt(x),
    gradient: [(dy, x, _y, out) => mul(mul(dy, -0.5), div(out, x))],
    linear: [],
    cost: 6,
  },
  tanh: {
    doc: "Hyperbolic tangent, sinh(x) / cosh(x), of floats, in [-1, 1].",
    dtypes: "float",
    value: Math.tanh,
    gradient: [(dy, _x, _y, out) => mul(dy, sub(1, mul(out, out)))],
    linear: [],
    cost: 10,
  },
  logistic: {
    doc: "1 / (1 + exp(-x)), the logistic function, of floats, in [0, 1].",
    function: "sigmoid",
    dtypes: "float",
    value: (x) => 1 / (1 + Math.exp(-x)),
    gradient: [(dy, _x, _y, out) => mul(dy, mul(out, sub(1, out)))],
    linear: [],
    cost: 10,
  },
  softplus: {
    doc: "log(1 + exp(x)), of floats: a smooth max(x, 0), which does not overflow.",
    dtypes: "float",
    value: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
    gradient: [(dy, x) => mul(dy, emit.logistic(x))],
    linear: [],
    cost: 20,
  },
  erf: {
    doc: "The error function, 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x, of floats.",
    dtypes: "float",
    value: erf,
    gradient: [(dy, x) => mul(dy, mul(emit.exp(neg(mul(x, x))), 2 / Math.sqrt(Math.PI)))],
    linear: [],
    cost: 10,
  },
  sin: {
    doc: "Sine of floats, in radians; NaN at infinities.",
    dtypes: "float",
    value: Math.sin,
    gradient: [(dy, x) => mul(dy, emit.cos(x))],
    linear: [],
    cost: 10,
  },
  cos: {
    doc: "Cosine of floats, in radians; NaN at infinities.",
    dtypes: "float",
    value: Math.cos,
    gradient: [(dy, x) => mul(dy, neg(emit.sin(x)))],
    linear: [],
    cost: 10,
  },
  floor: {
    doc: "Largest integer not above x, of floats and as floats. Its gradient is 0.",
    dtypes: "float",
    value: Math.floor,
    gradient: [none],
    linear: [],
    cost: 1,
  },
  ceil: {
    doc: "Smallest integer not below x, of floats and as floats. Its gradient is 0.",
    dtypes: "float",
    value: Math.ceil,
    gradient: [none],
    linear: [],
    cost: 1,
  },
  round: {
    doc: "Nearest integer, of floats and as floats; halves round to even, and zero keeps its sign. Its gradient is 0.",
    dtypes: "float",
    value: roundHalfEven,
    gradient: [none],
    linear: [],
    cost: 1,
  },
  not: {
    doc: "Logical not of bool, bitwise not of integers. Not defined for floats.",
    dtypes: "bits",
    value: (x, _y, dtype) => (dtype === "bool" ? 1 - x : ~x),
    gradient: absent("not defined on floats"),
    linear: [],
    cost: 1,
  },
  ...functionRows,
  ...bitRows,
};

const nan = (x: number, y: number): boolean => Number.isNaN(x) || Number.isNaN(y);

/** The row of max or min. Ties share the gradient equally; where NaN wins it passes to both, as in PyTorch. */
function extreme(
  which: string,
  name: string,
  value: (x: number, y: number) => number,
  loses: (x: Node, y: Node) => Node,
): ScalarRow {
  const share = (dy: Node, self: Node, other: Node): Node =>
    select(loses(self, other), 0, select(emit.eq(self, other), mul(dy, 0.5), dy));
  return {
    doc: `The ${which} of x and y, with broadcasting; NaN wins. Equal operands share the gradient. Not defined for bool.`,
    function: name,
    nodes: name,
    dtypes: "number",
    value: (x, y) => (nan(x, y) ? Number.NaN : value(x, y)),
    gradient: [(dy, x, y) => share(dy, x, y), (dy, x, y) => share(dy, y, x)],
    linear: [],
    cost: 1,
  };
}

export const binaryRows: { readonly [name: string]: ScalarRow } = {
  add: {
    doc: "x + y, with broadcasting; integers wrap. Not defined for bool: use {@link or} or {@link xor}.",
    dtypes: "number",
    value: (x, y) => x + y,
    gradient: [(dy) => dy, (dy) => dy],
    linear: [[0, 1]],
    cost: 1,
  },
  sub: {
    doc: "x - y, with broadcasting; integers wrap, unsigned integers too. Not defined for bool.",
    dtypes: "number",
    value: (x, y) => x - y,
    gradient: [(dy) => dy, (dy) => neg(dy)],
    linear: [[0, 1]],
    cost: 1,
  },
  mul: {
    doc: "x times y, elementwise, with broadcasting; integers wrap. Not defined for bool: use {@link and}.",
    dtypes: "number",
    value: (x, y, dtype) => (dtype === "i32" || dtype === "u32" ? Math.imul(x, y) : x * y),
    gradient: [(dy, _x, y) => mul(dy, y), (dy, x) => mul(dy, x)],
    linear: [[0], [1]],
    cost: 1,
  },
  div: {
    doc: "x / y, with broadcasting. Integers stay integers and truncate toward 0.",
    throws: "`value` when the graph runs and divides an integer by 0.",
    dtypes: "number",
    value: (x, y, dtype) => {
      if (!isInteger(dtype)) return x / y;
      if (y === 0) throw faultError({ kind: "zeroDivisor", by: "div", op: "div", dtype });
      return Math.trunc(x / y);
    },
    gradient: [(dy, _x, y) => div(dy, y), (dy, _x, y, out) => neg(div(mul(dy, out), y))],
    linear: [[0]],
    cost: 4,
  },
  rem: {
    doc: "Remainder of x / y with the sign of x, with broadcasting; NaN for a float divided by 0.",
    throws: "`value` when the graph runs and divides an integer by 0.",
    dtypes: "number",
    value: (x, y, dtype) => {
      if (isInteger(dtype) && y === 0) throw faultError({ kind: "zeroDivisor", by: "rem", op: "rem", dtype });
      return x % y;
    },
    gradient: [(dy) => dy, (dy, x, y) => neg(mul(dy, truncated(div(x, y))))],
    linear: [],
    cost: 10,
  },
  pow: {
    doc: "x to the y, with broadcasting. Floats: 1 if y = 0 or x = 1, whatever the other operand is; NaN if x < 0, unless y is whole or infinite. The gradient by x is 0 if y = 0. The gradient by y is 0 if x = 0 and y >= 0, and if x < 0 and the power is not NaN. Integers stay integers and wrap; to a negative element of an integer y, 1 gives 1, -1 gives 1 or -1, and other integers give 0.",
    throws: "`dtype` for an integer tensor to a negative JavaScript number.",
    dtypes: "number",
    value: (x, y, dtype) => (isInteger(dtype) ? wholePower(x, y) : floatPower(x, y)),
    gradient: [
      // Where the gradient is 0, the power is replaced by a finite one: derivatives of the gradient multiply by it.
      (dy, x, y) => {
        const constant = emit.eq(y, 0);
        return select(constant, 0, mul(dy, mul(y, emit.pow(x, sub(select(constant, 1, y), 1)))));
      },
      (dy, x, y, out) => {
        // For x < 0, powers exist only at whole y, without a slope: 0, where PyTorch's NaN would spoil other gradients.
        const alone = emit.and(emit.lt(x, 0), emit.eq(out, out));
        const flat = emit.or(alone, emit.and(emit.eq(x, 0), emit.ge(y, 0)));
        return select(flat, 0, mul(dy, mul(out, emit.log(select(flat, 1, x)))));
      },
    ],
    linear: [],
    cost: 20,
  },
  max: extreme("larger", "maximum", Math.max, emit.lt),
  min: extreme("smaller", "minimum", Math.min, emit.gt),
  and: bitwise(
    "Logical and of bool, bitwise and of integers, with broadcasting. Not defined for floats.",
    (x, y) => x & y,
  ),
  or: bitwise(
    "Logical or of bool, bitwise or of integers, with broadcasting. Not defined for floats.",
    (x, y) => x | y,
  ),
  xor: bitwise(
    "Logical exclusive or of bool, bitwise exclusive or of integers, with broadcasting. Not defined for floats.",
    (x, y) => x ^ y,
  ),
  shiftLeft: shift("Integers x shifted left by y bits; 0 if y is the width or more.", (x, y, width) =>
    y >= width ? 0 : x << y,
  ),
  shiftRight: {
    ...shift(
      "Integers x shifted right by y bits: signed integers keep their sign, unsigned integers are filled with 0.",
      (x, y, width, dtype) => (isSigned(dtype) ? x >> Math.min(y, 31) : y >= width ? 0 : x >>> y),
    ),
    function: absent("shiftRightLogical and shiftRightArithmetic say what fills"),
  },
  ...functionPairs,
  ...bitPairs,
};

// JavaScript gives NaN for 1 ** NaN and for 1 and -1 to ±Infinity, IEEE 754 gives 1.
const floatPower = (x: number, y: number): number =>
  x === 1 || y === 0 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y;

function truncated(x: Node): Node {
  return select(emit.lt(x, 0), emit.ceil(x), emit.floor(x));
}

function bitwise(doc: string, value: (x: number, y: number) => number): ScalarRow {
  return {
    doc,
    dtypes: "bits",
    value,
    gradient: absent("not defined on floats"),
    linear: [],
    cost: 1,
  };
}

function shift(doc: string, value: (x: number, y: number, width: number, dtype: DType) => number): ScalarRow {
  return {
    doc,
    dtypes: "integer",
    value: (x, y, dtype) => {
      const width = dtypes[dtype].bytes * 8;
      // A negative amount is an amount of the width or more, read as unsigned.
      return value(x, y < 0 ? width : y, width, dtype);
    },
    gradient: absent("not defined on floats"),
    linear: [],
    cost: 1,
  };
}

export const compareRows: { readonly [name: string]: CompareRow } = {
  eq: {
    doc: "Whether x = y, elementwise, with broadcasting; bool, false for NaN. -0 and 0 are equal. No gradient flows.",
    value: (x, y) => x === y,
  },
  ne: {
    doc: "Whether x and y differ, elementwise, with broadcasting; bool, true for NaN. -0 and 0 are equal. No gradient flows.",
    value: (x, y) => x !== y,
  },
  lt: {
    doc: "Whether x < y, elementwise, with broadcasting; bool, false for NaN; false is less than true. No gradient flows.",
    value: (x, y) => x < y,
  },
  le: {
    doc: "Whether x <= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows.",
    value: (x, y) => x <= y,
  },
  gt: {
    doc: "Whether x > y, elementwise, with broadcasting; bool, false for NaN. No gradient flows.",
    value: (x, y) => x > y,
  },
  ge: {
    doc: "Whether x >= y, elementwise, with broadcasting; bool, false for NaN. No gradient flows.",
    value: (x, y) => x >= y,
  },
};

/** Names of the scalar functions by the number of their inputs. */
export const scalarNames: {
  readonly unary: readonly string[];
  readonly binary: readonly string[];
  readonly compare: readonly string[];
} = {
  unary: Object.keys(unaryRows),
  binary: Object.keys(binaryRows),
  compare: Object.keys(compareRows),
};
