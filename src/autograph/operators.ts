/** @module Operators of transformed functions: JavaScript's, unless an operand is a tensor. */
import { formatType } from "../ir/shape.ts";
import * as tensors from "../tensor/index.ts";
import { isTensor, type Tensor, type TensorLike } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { decide } from "./control.ts";

// biome-ignore lint/suspicious/noExplicitAny: operands of any JavaScript operator
type Any = any;

const either =
  (onTensors: (x: TensorLike, y: TensorLike) => Tensor, onValues: (x: Any, y: Any) => unknown) =>
  (x: Any, y: Any): unknown =>
    isTensor(x) || isTensor(y) ? onTensors(x, y) : onValues(x, y);

// A bigint must stay one, a string a string: the operators themselves say what they do.
/** `x + y`: {@link tensors.add} where an operand is a tensor, JavaScript's operator elsewhere. */
export const add = either(tensors.add, (x, y) => x + y);
/** `x - y`: {@link tensors.sub} where an operand is a tensor, JavaScript's operator elsewhere. */
export const sub = either(tensors.sub, (x, y) => x - y);
/** `x * y`: {@link tensors.mul} where an operand is a tensor, JavaScript's operator elsewhere. */
export const mul = either(tensors.mul, (x, y) => x * y);
/** `x / y`: {@link tensors.div} where an operand is a tensor, JavaScript's operator elsewhere. */
export const div = either(tensors.div, (x, y) => x / y);
/** `x % y`: {@link tensors.rem} where an operand is a tensor, JavaScript's operator elsewhere. */
export const rem = either(tensors.rem, (x, y) => x % y);
/** `x ** y`: {@link tensors.pow} where an operand is a tensor, JavaScript's operator elsewhere. */
export const pow = either(tensors.pow, (x, y) => x ** y);
/** `x < y`: {@link tensors.lt} where an operand is a tensor, JavaScript's operator elsewhere. */
export const lt = either(tensors.lt, (x, y) => x < y);
/** `x <= y`: {@link tensors.le} where an operand is a tensor, JavaScript's operator elsewhere. */
export const le = either(tensors.le, (x, y) => x <= y);
/** `x > y`: {@link tensors.gt} where an operand is a tensor, JavaScript's operator elsewhere. */
export const gt = either(tensors.gt, (x, y) => x > y);
/** `x >= y`: {@link tensors.ge} where an operand is a tensor, JavaScript's operator elsewhere. */
export const ge = either(tensors.ge, (x, y) => x >= y);

/** `-x`: of a tensor elementwise, JavaScript's operator elsewhere. */
export const neg = (x: Any): unknown => (isTensor(x) ? x.neg() : -x);
/** `!x`: elementwise of a bool tensor; a tensor of another dtype is an object, and so gives false. */
export const not = (x: unknown): unknown => (isTensor(x) && x.dtype === "bool" ? tensors.not(x) : !x);

/** `++` and `--`. */
export function increment(x: Any, by: number): unknown {
  if (isTensor(x)) return x.add(by);
  return typeof x === "bigint" ? x + BigInt(by) : Number(x) + by;
}

/** `===`: of a tensor and a number by value. Two different tensors may mean two things, and are refused. */
export function same(x: unknown, y: unknown, where: string): unknown {
  if (isTensor(x) && isTensor(y) && x !== y)
    throw new HeddleError(
      "autograph",
      `=== of ${formatType(x)} and ${formatType(y)}: the same object, or equal values?`,
      {
        where,
        hint: "write x.eq(y) for values, Object.is(x, y) for objects",
      },
    );
  const isPlain = (value: unknown): value is TensorLike => typeof value === "number" || typeof value === "boolean";
  if (isTensor(x) && isPlain(y)) return x.eq(y);
  if (isTensor(y) && isPlain(x)) return y.eq(x);
  return x === y;
}

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

/** `x && y()`: of traced truth values both are computed. */
export function and(x: unknown, y: () => unknown, where: string): unknown {
  if (isBool(x) && (x.shape.length > 0 || typeof decide(x, where) !== "boolean"))
    return logical(x, y(), (one, other) => tensors.and(one, asBool(other)), "&&", where);
  return isBool(x) ? (decide(x, where) === true ? y() : x) : x && y();
}

/** `x || y()`. */
export function or(x: unknown, y: () => unknown, where: string): unknown {
  if (isBool(x) && (x.shape.length > 0 || typeof decide(x, where) !== "boolean"))
    return logical(x, y(), (one, other) => tensors.or(one, asBool(other)), "||", where);
  return isBool(x) ? (decide(x, where) === true ? x : y()) : x || y();
}

const asBool = (x: TensorLike): TensorLike => (isTensor(x) ? x : tensors.tensor(Boolean(x), { dtype: "bool" }));

/** The value before what comes after it: `x++`. */
export const first = (x: unknown, _next: unknown): unknown => x;
