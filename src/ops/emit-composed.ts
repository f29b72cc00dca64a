/** @module Functions that build graphs: elementwise functions composed of others, and comparisons with any number. Part of `emit.ts`. */
import { boundsOf, isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { type Operand, together } from "./emit-scalar.ts";
import { abs, div, eq, ge, gt, le, lt, maximum, minimum, mul, ne } from "./spelled.ts";

// The docs of these four are in function-table.ts.
export const reciprocal = (x: Node): Node => div(1, x);
export const square = (x: Node): Node => mul(x, x);
export const isNaN = (x: Node): Node => ne(x, x);
export const isInf = (x: Node): Node => eq(abs(x), Infinity);

/** min(max(x, low), high); all three are brought to one dtype and shape. */
export function clamp(x: Operand, low: Operand, high: Operand): Node {
  const [value, least, most] = together("clamp", [x, low, high]) as [Node, Node, Node];
  return minimum(maximum(value, least), most);
}

/** Comparisons by name. */
export const comparisons = { eq, ne, lt, le, gt, ge };

export type Comparison = keyof typeof comparisons;

const swapped = { eq: "eq", ne: "ne", lt: "gt", le: "ge", gt: "lt", ge: "le" } as const;

/** The comparison to apply: of integers or bool with a number, an equivalent one with a number of their dtype; else as given. */
export function comparable<T extends TensorType>(
  name: Comparison,
  x: T | number | bigint,
  y: T | number | bigint,
): readonly [Comparison, T | number | bigint, T | number | bigint] {
  const [number, tensor] = isNumber(x) ? [x, y] : [y, x];
  // The operation reports any other operand, in the order of the call.
  if (!isNumber(number) || typeof tensor !== "object" || tensor?.dtype === undefined || isFloat(tensor.dtype))
    return [name, x, y];
  return number === x ? ofIntegers(swapped[name], tensor, number) : ofIntegers(name, tensor, number);
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
  // y is between two integers: x < y is x <= floor(y), and x > y is x > floor(y).
  return [name === "lt" || name === "le" ? "le" : "gt", x, Math.floor(y)];
}

const isNumber = (value: unknown): value is number | bigint => typeof value === "number" || typeof value === "bigint";
