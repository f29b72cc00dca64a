/** @module Checks of users' arguments: types do not exist at run time, and JavaScript's own errors name neither function nor argument. */
import { boundsOf, type DType, dtypeNames, dtypes, isDType, isFloat, isValueOf } from "../ir/dtype.ts";
import { type Shape, sizeOf } from "../ir/shape.ts";
import { HeddleError, within } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** Checks a function. @throws HeddleError `argument` */
export function checkFunction(what: string, fn: unknown): void {
  if (typeof fn !== "function") throw new HeddleError("argument", `${what}: takes a function, got ${shown(fn)}`);
}

/** Passes on what a traced function returns. @throws HeddleError `trace` for a promise */
export function returned<Result>(what: string, result: Result): Result {
  if (!(result instanceof Promise)) return result;
  // This error is the report; a rejection that nobody handles would end the process.
  result.catch(() => undefined);
  throw new HeddleError("trace", `${what}: returns a promise: it is async, or calls data(), array() or item()`);
}

/** Refuses surplus arguments, which would be ignored. @throws HeddleError `argument` */
export function checkNoMore(what: string, more: readonly unknown[], hint: string): void {
  const [first] = more.filter((value) => value !== undefined);
  if (first !== undefined)
    throw new HeddleError("argument", `${what}: takes one argument, got also ${shown(first)}`, { hint });
}

/** Checks a dtype. @throws HeddleError `dtype` for an unknown one */
export function checkDType(what: string, dtype: unknown): asserts dtype is DType {
  if (typeof dtype === "string" && isDType(dtype)) return;
  throw new HeddleError("dtype", `${what}: there is no dtype ${shown(dtype)}`, {
    hint: `dtypes are ${dtypeNames.join(", ")}`,
  });
}

/** Checks the dtype of a sum, product or mean. @throws HeddleError `dtype` for bool, and for a mean in a dtype that is not float */
export function checkWide(name: string, dtype: DType | undefined): void {
  if (dtype === undefined) return;
  checkDType(name, dtype);
  if (name === "mean" ? isFloat(dtype) : dtype !== "bool") return;
  throw new HeddleError("dtype", `${name}: cannot compute in ${dtype}`, {
    hint: name === "mean" ? "name a float dtype" : "name a dtype of numbers; any(x) and all(x) give bool",
  });
}

/** Checks an array of sizes; `free` allows one size of -1. @throws HeddleError `shape` */
export function checkShape(what: string, shape: unknown, free = false): asserts shape is Shape {
  if (!Array.isArray(shape) || shape.some((size) => typeof size !== "number")) {
    throw new HeddleError("shape", `${what}: a shape is an array of sizes such as [2, 3], got ${shown(shape)}`);
  }
  const open = free ? shape.indexOf(-1) : -1;
  within(what, () => sizeOf(shape.map((size, dim) => (dim === open ? 1 : size))));
}

/** Checks an array of whole numbers; `single` also allows one number. @throws HeddleError `argument` */
export function checkWhole(what: string, name: string, value: unknown, single = false): void {
  const list: readonly unknown[] | undefined = Array.isArray(value) ? value : single ? [value] : undefined;
  if (list?.every((item) => Number.isInteger(item)) === true) return;
  const wanted = single ? "a whole number or an array of them" : "an array of whole numbers";
  throw new HeddleError("argument", `${what}: ${name} must be ${wanted}, got ${shown(value)}`);
}

/** Checks bounds that are numbers. @throws HeddleError `argument` if the lower bound is above the upper one */
export function checkBounds(what: string, low: unknown, high: unknown): void {
  const isNumber = (bound: unknown): bound is number | bigint => typeof bound === "number" || typeof bound === "bigint";
  if (isNumber(low) && isNumber(high) && low > high)
    throw new HeddleError("argument", `${what}: low is ${low}, above high, ${high}`);
}

/** Why a dtype does not have a value; undefined if it does. Floats are rounded, bool takes any number. */
export function whyNotOf(dtype: DType, value: unknown): string | undefined {
  if (typeof value === "boolean") return undefined;
  if (typeof value !== "number" && typeof value !== "bigint") return `${shown(value)} is not a number`;
  const { kind } = dtypes[dtype];
  if (kind === "float" || kind === "bool") return undefined;
  // -0 is a whole number.
  return isValueOf(dtype, value === 0 ? 0 : value) ? undefined : `${value} is not a value of ${dtype}`;
}

/** Checks a value of a dtype. @throws HeddleError `dtype` if the dtype does not have the value */
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

/** Checks that padding has one of the forms of `Padding`. @throws HeddleError `option` */
export function checkPadding(what: string, padding: unknown, rank = 2): void {
  if (padding === "same" || padding === "valid" || Number.isInteger(padding)) return;
  const amount = (part: unknown): boolean =>
    Number.isInteger(part) || (Array.isArray(part) && part.length === 2 && part.every(Number.isInteger));
  if (Array.isArray(padding) && padding.length === rank && padding.every(amount)) return;
  throw new HeddleError("option", `${what}: padding is ${shown(padding)}`, {
    hint: `it can be a number, ${["[width], [[left, right]]", "[height, width], [[top, bottom], [left, right]]", "[depth, height, width]"][rank - 1] ?? `${rank} of them`}, "same" or "valid"`,
  });
}
