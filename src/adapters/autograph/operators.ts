/** @module Operators of transformed functions: JavaScript's, unless an operand is a tensor. */

import { HeddleError, shown } from "../../extend/browser.ts";
import * as tensors from "../../functions/index.ts";
import { isTensor, type Tensor, type TensorLike } from "../../functions/index.ts";
import { formatType } from "../../ir/index.ts";
import { decide } from "./control.ts";
import { asCount, countOf, type NumberOperator, onCounts } from "./counts.ts";

// biome-ignore lint/suspicious/noExplicitAny: operands of any JavaScript operator
type Any = any;

const either =
  (name: NumberOperator, onTensors: (x: TensorLike, y: TensorLike) => Tensor, onValues: (x: Any, y: Any) => unknown) =>
  (x: Any, y: Any): unknown =>
    isTensor(x) || isTensor(y) ? (onCounts(name, onTensors, x, y) ?? onTensors(x, y)) : onValues(x, y);

// JavaScript's operators as they are, so that a bigint stays a bigint and a string a string.
/** `x + y`: {@link tensors.add} where an operand is a tensor, JavaScript's operator elsewhere. */
export const add = either("add", tensors.add, (x, y) => x + y);
/** `x - y`: {@link tensors.sub} where an operand is a tensor, JavaScript's operator elsewhere. */
export const sub = either("sub", tensors.sub, (x, y) => x - y);
/** `x * y`: {@link tensors.mul} where an operand is a tensor, JavaScript's operator elsewhere. */
export const mul = either("mul", tensors.mul, (x, y) => x * y);
/** `x / y`: {@link tensors.div} where an operand is a tensor, JavaScript's operator elsewhere. */
export const div = either("div", tensors.div, (x, y) => x / y);
/** `x % y`: {@link tensors.rem} where an operand is a tensor, JavaScript's operator elsewhere. */
export const rem = either("rem", tensors.rem, (x, y) => x % y);
/** `x ** y`: {@link tensors.pow} where an operand is a tensor, JavaScript's operator elsewhere. */
export const pow = either("pow", tensors.pow, (x, y) => x ** y);
/** `x < y`: {@link tensors.lt} where an operand is a tensor, JavaScript's operator elsewhere. */
export const lt = either("lt", tensors.lt, (x, y) => x < y);
/** `x <= y`: {@link tensors.le} where an operand is a tensor, JavaScript's operator elsewhere. */
export const le = either("le", tensors.le, (x, y) => x <= y);
/** `x > y`: {@link tensors.gt} where an operand is a tensor, JavaScript's operator elsewhere. */
export const gt = either("gt", tensors.gt, (x, y) => x > y);
/** `x >= y`: {@link tensors.ge} where an operand is a tensor, JavaScript's operator elsewhere. */
export const ge = either("ge", tensors.ge, (x, y) => x >= y);

/** `-x`: of a tensor elementwise, JavaScript's operator elsewhere. */
export const neg = (x: Any): unknown => (isTensor(x) ? asCount(x.neg(), countOf(x)) : -x);
/** `!x`: elementwise of a bool tensor, by value of a number; a tensor of another dtype is an object, and so gives false. */
export function not(x: unknown): unknown {
  if (isTensor(x) && x.dtype === "bool") return tensors.not(x);
  return isTensor(x) && countOf(x) !== undefined ? x.eq(0) : !x;
}

/** `++` and `--`. */
export function increment(x: Any, by: number): unknown {
  if (isTensor(x)) return add(x, by);
  return typeof x === "bigint" ? x + BigInt(by) : Number(x) + by;
}

/** An operator of equality in the source: which, and where. */
export interface Equality {
  readonly operator: string;
  readonly where: string;
  /** Whether a variable is compared with itself, which asks for NaN. */
  readonly self?: boolean;
}

/**
 * Whether two values are equal. A tensor and a number are compared by value, and so is a variable with itself; two
 * tensors are refused, since identity or equal values may be meant.
 */
export function same(x: unknown, y: unknown, { operator, where, self = false }: Equality): unknown {
  const isPlain = (value: unknown): boolean => typeof value === "number" || typeof value === "boolean";
  const [left, right] = [x as Any, y as Any];
  if (isTensor(x) && isTensor(y)) {
    if (self || (countOf(x) !== undefined && countOf(y) !== undefined)) return x.eq(y);
    throw new HeddleError(
      "autograph",
      `${operator} of ${formatType(x)} and ${formatType(y)}: the same object, or equal values?`,
      { where, hint: "write x.eq(y) or x.ne(y) for values, Object.is(x, y) for objects" },
    );
  }
  if ((isTensor(x) && isPlain(y)) || (isTensor(y) && isPlain(x)))
    return onCounts("eq", tensors.eq, x, y) ?? (isTensor(x) ? x.eq(right) : right.eq(left));
  // biome-ignore lint/suspicious/noDoubleEquals: it is what the user wrote
  return operator.length === 2 ? left == right : left === right;
}

/**
 * The value of a `switch` or of one of its cases. A bool tensor outside of a trace gives its value, as in a condition.
 *
 * @throws HeddleError `autograph` for any other tensor, which would be equal to no value
 */
export function compared(x: unknown, where: string): unknown {
  if (!isTensor(x)) return x;
  const decided = isBool(x) ? decide(x, where) : x;
  if (typeof decided === "boolean") return decided;
  throw new HeddleError(
    "autograph",
    `switch on ${formatType(x)}: switch compares identity, and a tensor is not a number`,
    {
      where,
      hint: "write if (x === 1) … else …, which becomes part of the graph; where the value is known, switch (await x.item())",
    },
  );
}

/** What to write in place of JavaScript's operators that tensors do not have. */
const instead: { readonly [operator: string]: string } = {
  "+": 'x.cast("f32") for a float of every element, or x itself',
  "~": "x.not()",
  "&": "and(x, y)",
  "|": "or(x, y)",
  "^": "xor(x, y)",
  "<<": "shiftLeft(x, y)",
  ">>": "shiftRight(x, y)",
  ">>>": "shiftRightLogical(x, y)",
};

/** An operand of an operator that only numbers have. @throws HeddleError `autograph` for a tensor, naming the method meant. */
export function numeric(x: Any, operator: string, where: string): Any {
  if (!isTensor(x)) return x;
  throw new HeddleError(
    "autograph",
    `the operator ${operator} on ${formatType(x)}: JavaScript has it for numbers alone`,
    {
      where,
      hint: `write ${instead[operator] ?? "the function of tensors"}`,
    },
  );
}

/** The truth value of a number that a tensor decides: whether the number is not 0. */
const truth = (x: unknown): unknown => (isTensor(x) && countOf(x) !== undefined ? x.ne(0) : x);
const isBool = (x: unknown): x is Tensor => isTensor(x) && x.dtype === "bool";

function logical(
  x: Tensor,
  other: unknown,
  join: (x: Tensor, y: TensorLike) => Tensor,
  sign: string,
  where: string,
): Tensor {
  if (isBool(other) || typeof other === "boolean") return join(x, other as TensorLike);
  throw new HeddleError("autograph", `bool tensor ${sign} ${isTensor(other) ? formatType(other) : shown(other)}`, {
    where,
    hint: "both sides have to be truth values",
  });
}

/** `x && y()`: both sides are computed where `x` is a traced bool tensor. */
export function and(left: unknown, y: () => unknown, where: string): unknown {
  const x = truth(left);
  if (isBool(x) && (x.shape.length > 0 || typeof decide(x, where) !== "boolean"))
    return logical(x, truth(y()), (bool, other) => tensors.and(bool, asBool(other)), "&&", where);
  return isBool(x) ? (decide(x, where) === true ? y() : x) : x && y();
}

/** `x || y()`. */
export function or(left: unknown, y: () => unknown, where: string): unknown {
  const x = truth(left);
  if (isBool(x) && (x.shape.length > 0 || typeof decide(x, where) !== "boolean"))
    return logical(x, truth(y()), (bool, other) => tensors.or(bool, asBool(other)), "||", where);
  return isBool(x) ? (decide(x, where) === true ? x : y()) : x || y();
}

const asBool = (x: TensorLike): TensorLike => (isTensor(x) ? x : tensors.tensor(Boolean(x), { dtype: "bool" }));

/** The first of two values, after both are computed: `x++` gives the value before the increment. */
export const first = (x: unknown, _next: unknown): unknown => x;
