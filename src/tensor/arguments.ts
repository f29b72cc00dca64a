/** @module Checks of what users pass: types are not there at run time, and JavaScript's own errors name nothing of it. */
import { boundsOf, type DType, dtypeNames, dtypes, isDType, isFloat, isValueOf } from "../ir/dtype.ts";
import { type Shape, sizeOf } from "../ir/shape.ts";
import { HeddleError, within } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** @throws HeddleError `argument` unless it is a function. */
export function checkFunction(what: string, fn: unknown): void {
  if (typeof fn !== "function") throw new HeddleError("argument", `${what}: takes a function, got ${shown(fn)}`);
}

/** @throws HeddleError `argument` for an argument more than a function takes, which would be dropped. */
export function checkNoMore(what: string, more: readonly unknown[], hint: string): void {
  const [first] = more.filter((value) => value !== undefined);
  if (first !== undefined)
    throw new HeddleError("argument", `${what}: takes one argument, got ${shown(first)} besides`, { hint });
}

/** @throws HeddleError `dtype` when there is no such dtype. */
export function checkDType(what: string, dtype: unknown): asserts dtype is DType {
  if (typeof dtype === "string" && isDType(dtype)) return;
  throw new HeddleError("dtype", `${what}: there is no dtype ${shown(dtype)}`, {
    hint: `dtypes are ${dtypeNames.join(", ")}`,
  });
}

/** @throws HeddleError `dtype` for one in which no sum, or no mean, is made. */
export function checkWide(name: string, dtype: DType | undefined): void {
  if (dtype === undefined) return;
  checkDType(name, dtype);
  if (name === "mean" ? isFloat(dtype) : dtype !== "bool") return;
  throw new HeddleError("dtype", `${name}: no ${name} is made in ${dtype}`, {
    hint: name === "mean" ? "name a float dtype" : "name a dtype of numbers; any(x) and all(x) give bool",
  });
}

/** @throws HeddleError `shape` unless it is an array of sizes; `free` allows one size of -1. */
export function checkShape(what: string, shape: unknown, free = false): asserts shape is Shape {
  if (!Array.isArray(shape) || shape.some((size) => typeof size !== "number")) {
    throw new HeddleError("shape", `${what}: a shape is an array of sizes such as [2, 3], got ${shown(shape)}`);
  }
  const open = free ? shape.indexOf(-1) : -1;
  within(what, () => sizeOf(shape.map((size, dim) => (dim === open ? 1 : size))));
}

/** @throws HeddleError `argument` unless it is an array of whole numbers, or, where `single`, one such number. */
export function checkWhole(what: string, name: string, value: unknown, single = false): void {
  const list: readonly unknown[] | undefined = Array.isArray(value) ? value : single ? [value] : undefined;
  if (list?.every((item) => Number.isInteger(item)) === true) return;
  const wanted = single ? "a whole number or an array of them" : "an array of whole numbers";
  throw new HeddleError("argument", `${what}: ${name} must be ${wanted}, got ${shown(value)}`);
}

/** @throws HeddleError `argument` for numbers of which the lower bound is above the upper one. */
export function checkBounds(what: string, low: unknown, high: unknown): void {
  const isNumber = (bound: unknown): bound is number | bigint => typeof bound === "number" || typeof bound === "bigint";
  if (isNumber(low) && isNumber(high) && low > high)
    throw new HeddleError("argument", `${what}: low is ${low}, above high, ${high}`);
}

/** Why a value cannot be one of a dtype; undefined when it can. Floats are rounded, bool takes any number. */
export function whyNotOf(dtype: DType, value: unknown): string | undefined {
  if (typeof value === "boolean") return undefined;
  if (typeof value !== "number" && typeof value !== "bigint") return `${shown(value)} is not a number`;
  const { kind } = dtypes[dtype];
  if (kind === "float" || kind === "bool") return undefined;
  // -0 is a whole number.
  return isValueOf(dtype, value === 0 ? 0 : value) ? undefined : `${value} is not a value of ${dtype}`;
}

/** @throws HeddleError `dtype` when the value is none of the dtype. */
export function checkValue(what: string, dtype: DType, value: unknown): asserts value is number | bigint | boolean {
  const reason = whyNotOf(dtype, value);
  if (reason !== undefined) throw notOf(what, dtype, reason);
}

/** The error for {@link whyNotOf}. */
export const notOf = (what: string, dtype: DType, reason: string): HeddleError =>
  new HeddleError("dtype", `${what}: ${reason}`, {
    hint: reason.endsWith(dtype)
      ? `integers take whole numbers in [${boundsOf(dtype).join(", ")}]; make floats and cast them to round or wrap`
      : "give numbers or booleans",
  });

/** Throws unless the padding is one of the forms of `Padding`. */
export function checkPadding(what: string, padding: unknown, rank = 2): void {
  if (padding === "same" || padding === "valid" || Number.isInteger(padding)) return;
  const amount = (part: unknown): boolean =>
    Number.isInteger(part) || (Array.isArray(part) && part.length === 2 && part.every(Number.isInteger));
  if (Array.isArray(padding) && padding.length === rank && padding.every(amount)) return;
  throw new HeddleError("option", `${what}: padding is ${shown(padding)}`, {
    hint: `it can be a number, ${["[width], [[left, right]]", "[height, width], [[top, bottom], [left, right]]", "[depth, height, width]"][rank - 1] ?? `${rank} of them`}, "same" or "valid"`,
  });
}
