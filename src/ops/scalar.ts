/**
 * @module The table of scalar functions. A row says the meaning, the gradient and the dtypes of one function; the ops,
 * their shardings and their native instructions follow from it (`scalar-ops.ts`).
 */

import { type DType, dtypes, isInteger, isSigned } from "../ir/dtype.ts";
import { absent, type Node } from "../ir/node.ts";
import { faultError } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { bitPairs, bitRows, wholePower } from "./scalar-bits.ts";
import { functionPairs, functionRows } from "./scalar-functions.ts";
import type { CompareRow, ScalarGradient, ScalarRow } from "./scalar-row.ts";
import { erf, roundHalfEven } from "./special.ts";

export type { ScalarGradient, ScalarRow } from "./scalar-row.ts";

const none = undefined;
const { add, mul, sub, div, neg, select } = emit;

export const unaryRows: { readonly [name: string]: ScalarRow } = {
  neg: {
    doc: "-x; integers wrap, unsigned ones too: of 1 in u8 it is 255. Not defined for bool.",
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
    doc: "Square root, of floats: NaN below 0, and -0 of -0. The gradient at 0 is infinite.",
    dtypes: "float",
    value: Math.sqrt,
    gradient: [(dy, _x, _y, out) => div(mul(dy, 0.5), out)],
    linear: [],
    cost: 4,
  },
  rsqrt: {
    doc: "1 / sqrt(x), of floats: NaN below 0, and infinite at zeros, with their sign.",
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
    doc: "Nearest integer, of floats and as floats; halves go to the even one, and the sign of zero is kept. Its gradient is 0.",
    dtypes: "float",
    value: roundHalfEven,
    gradient: [none],
    linear: [],
    cost: 1,
  },
  not: {
    doc: "The opposite of bool, and all bits of integers turned. Not defined for floats.",
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

// Ties share the gradient equally; where NaN wins it passes to both, as in PyTorch.
const extreme =
  (loses: (x: Node, y: Node) => Node, own: 0 | 1): ScalarGradient =>
  (dy, x, y) => {
    const [mine, other] = own === 0 ? [x, y] : [y, x];
    return select(loses(mine, other), 0, select(emit.eq(mine, other), mul(dy, 0.5), dy));
  };

export const binaryRows: { readonly [name: string]: ScalarRow } = {
  add: {
    doc: "x + y, with broadcasting; integers wrap. Not defined for bool: {@link or} or {@link xor}.",
    dtypes: "number",
    value: (x, y) => x + y,
    gradient: [(dy) => dy, (dy) => dy],
    linear: [[0, 1]],
    cost: 1,
  },
  sub: {
    doc: "x - y, with broadcasting; integers wrap, unsigned ones too. Not defined for bool.",
    dtypes: "number",
    value: (x, y) => x - y,
    gradient: [(dy) => dy, (dy) => neg(dy)],
    linear: [[0, 1]],
    cost: 1,
  },
  mul: {
    doc: "x times y, elementwise, with broadcasting; integers wrap. Not defined for bool: {@link and}.",
    dtypes: "number",
    value: (x, y, dtype) => (dtype === "i32" || dtype === "u32" ? Math.imul(x, y) : x * y),
    gradient: [(dy, _x, y) => mul(dy, y), (dy, x) => mul(dy, x)],
    linear: [[0], [1]],
    cost: 1,
  },
  div: {
    doc: "x / y, with broadcasting. Integers stay integers and truncate toward 0.",
    throws: "`value` from the run where an integer is divided by 0.",
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
    doc: "Remainder of x / y with the sign of x, with broadcasting; NaN for floats by 0.",
    throws: "`value` from the run where an integer is divided by 0.",
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
    doc: "x to the y, with broadcasting. Of floats 1 for y = 0 and for x = 1, whatever the other is, and NaN for x < 0 unless y is whole or infinite. The gradient by x is 0 where y = 0; that by y is 0 where x = 0 and y is no less, and where x < 0 has a power. Integers stay integers and wrap; to a power that turns out negative, 1 is 1, -1 is 1 or -1, and all others are 0.",
    throws: "`dtype` for integers to a negative number.",
    dtypes: "number",
    value: (x, y, dtype) => (isInteger(dtype) ? wholePower(x, y) : floatPower(x, y)),
    gradient: [
      // A power that is finite stands in the place of what counts for nothing: derivatives of the gradient multiply by it.
      (dy, x, y) => {
        const constant = emit.eq(y, 0);
        return select(constant, 0, mul(dy, mul(y, emit.pow(x, sub(select(constant, 1, y), 1)))));
      },
      (dy, x, y, out) => {
        // Below 0 there are powers at whole y alone, and a slope at none: 0 there, where PyTorch's NaN would spoil the rest.
        const alone = emit.and(emit.lt(x, 0), emit.eq(out, out));
        const flat = emit.or(alone, emit.and(emit.eq(x, 0), emit.ge(y, 0)));
        return select(flat, 0, mul(dy, mul(out, emit.log(select(flat, 1, x)))));
      },
    ],
    linear: [],
    cost: 20,
  },
  max: {
    doc: "The larger of x and y, with broadcasting; NaN wins. Equal ones share the gradient. Not defined for bool.",
    function: "maximum",
    nodes: "maximum",
    dtypes: "number",
    value: (x, y) => (nan(x, y) ? Number.NaN : Math.max(x, y)),
    gradient: [extreme(emit.lt, 0), extreme(emit.lt, 1)],
    linear: [],
    cost: 1,
  },
  min: {
    doc: "The smaller of x and y, with broadcasting; NaN wins. Equal ones share the gradient. Not defined for bool.",
    function: "minimum",
    nodes: "minimum",
    dtypes: "number",
    value: (x, y) => (nan(x, y) ? Number.NaN : Math.min(x, y)),
    gradient: [extreme(emit.gt, 0), extreme(emit.gt, 1)],
    linear: [],
    cost: 1,
  },
  and: bitwise(
    "Both, of bool, or the bits that are set in both, of integers; with broadcasting. Not defined for floats.",
    (x, y) => x & y,
  ),
  or: bitwise(
    "Either or both, of bool, or the bits that are set in either, of integers; with broadcasting. Not defined for floats.",
    (x, y) => x | y,
  ),
  xor: bitwise(
    "One and not the other, of bool, or the bits that differ, of integers; with broadcasting. Not defined for floats.",
    (x, y) => x ^ y,
  ),
  shiftLeft: shift("x shifted left by y bits, of integers; y of the width or more gives 0.", (x, y, width) =>
    y >= width ? 0 : x << y,
  ),
  shiftRight: {
    ...shift(
      "x shifted right by y bits: signed integers keep their sign, unsigned ones are filled with 0.",
      (x, y, width, dtype) => (isSigned(dtype) ? x >> Math.min(y, 31) : y >= width ? 0 : x >>> y),
    ),
    function: absent("shiftRightLogical and shiftRightArithmetic say what fills"),
  },
  ...functionPairs,
  ...bitPairs,
};

// JavaScript says NaN for 1 ** NaN and for 1 and -1 to the ±inf, IEEE 754 says 1.
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
    doc: "Whether x < y, elementwise, with broadcasting; bool, false for NaN; of bool, false is the less. No gradient flows.",
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
