/** @module The spelling of graphs: functions of elements that are composed of others, comparisons with any number, selection. Part of `emit.ts`. */
import { boundsOf, isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { type Operand, together } from "./emit-scalar.ts";
import { abs, div, eq, ge, gt, le, lt, maximum, minimum, mul, ne } from "./spelled.ts";
import { unary } from "./spelling.ts";

/** Whether x is neither infinite nor NaN; bool. Of floats only. */
export const isFinite = unary("isFinite");

/** 1 / x. */
export const reciprocal = (x: Node): Node => div(1, x);

/** x times x; integers wrap. */
export const square = (x: Node): Node => mul(x, x);

/** Whether x is NaN; bool. */
export const isNaN = (x: Node): Node => ne(x, x);

/** Whether x is infinite; bool. */
export const isInf = (x: Node): Node => eq(abs(x), Infinity);

/** The least of `high` and the greatest of x and `low`: one dtype and shape for all three. */
export function clamp(x: Operand, low: Operand, high: Operand): Node {
  const [value, least, most] = together("clamp", [x, low, high]) as [Node, Node, Node];
  return minimum(maximum(value, least), most);
}

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
