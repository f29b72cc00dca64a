/**
 * @module Whole numbers that a branch or a loop on a tensor changes: i32 scalars, since f32 is exact only up to 2^24.
 * To the user they are numbers, not tensors, so operators treat them as JavaScript does: a quotient keeps its fraction.
 */

import { isTensor, type Tensor, type TensorLike } from "../../functions/index.ts";
import { isFloat } from "../../ir/index.ts";

/**
 * How a whole number came about: products may leave the range of i32 within a few iterations, so a loop carries them as
 * f32.
 */
export type Count = "sum" | "product";

const counts = new WeakMap<Tensor, Count>();

/** How the whole number that a tensor stands for came about; undefined for other values. */
export const countOf = (x: unknown): Count | undefined => (isTensor(x) ? counts.get(x) : undefined);

/** Marks a tensor as a whole number; does nothing when `count` is undefined. */
export function asCount(x: Tensor, count: Count | undefined): Tensor {
  if (count !== undefined) counts.set(x, count);
  return x;
}

/** Whether a value is a number that i32 holds, which has no -0. */
export const isCount = (x: unknown): x is number => typeof x === "number" && Object.is(x | 0, x);

/** The operators on two numbers. */
export type NumberOperator = "add" | "sub" | "mul" | "div" | "rem" | "pow" | Comparison;
type Comparison = "lt" | "le" | "gt" | "ge" | "eq";

const comparisons: ReadonlySet<string> = new Set(["lt", "le", "gt", "ge", "eq"]);
const arithmetic: ReadonlySet<string> = new Set(["add", "sub", "mul", "rem"]);

/**
 * Applies an operator to operands of which one is a whole number that a tensor decides; undefined where the operator of
 * tensors applies as it is.
 */
export function onCounts(
  operator: NumberOperator,
  apply: (x: TensorLike, y: TensorLike) => Tensor,
  x: unknown,
  y: unknown,
): Tensor | undefined {
  const known = [countOf(x), countOf(y)];
  if (known.every((count) => count === undefined)) return undefined;
  const operands = [x, y] as const;
  const inFloat = (dtype: "f32" | "f64"): Tensor => {
    const [left, right] = operands.map((operand) => (isTensor(operand) ? operand.cast(dtype) : (operand as number)));
    return apply(left as TensorLike, right as TensorLike);
  };
  const isNumber = operands.every((operand, at) => known[at] !== undefined || typeof operand === "number");
  const isWhole = operands.every((operand, at) => known[at] !== undefined || isCount(operand));
  if (comparisons.has(operator)) {
    // f32 would take 2^24 + 1 for 2^24.
    const isMixed =
      !isWhole && operands.every((operand) => typeof operand === "number" || (isTensor(operand) && mixes(operand)));
    return isMixed ? inFloat("f64") : apply(x as TensorLike, y as TensorLike);
  }
  if (!isNumber) return undefined;
  if (!isWhole || !arithmetic.has(operator) || (operator === "rem" && y === 0)) return inFloat("f32");
  const isProduct = operator !== "rem" && (operator === "mul" || known.includes("product"));
  return asCount(apply(x as TensorLike, y as TensorLike), isProduct ? "product" : "sum");
}

const mixes = (x: Tensor): boolean => counts.has(x) || isFloat(x.dtype);
