/** @module What an eager call is made of: its numbers as values, and the key of its program, by types, layouts and other arguments. */
import { type DType, dtypes, isLong } from "../ir/dtype.ts";
import { formatType } from "../ir/shape.ts";
import { checkLiteral } from "../ops/index.ts";
import { formatLayout } from "../plan/layout.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { canonicalJson, type Plain } from "../util/text.ts";
import { replicatedValue, type Value } from "./value.ts";

/** A number as a scalar of the other operand's dtype. */
export function scalarValue(name: string, runtime: Runtime, dtype: DType, given: number | bigint): Value {
  // Arrays of 64-bit integers take either.
  const value = isLong(dtype) ? (given as number) : Number(given);
  checkLiteral(name, dtype, given);
  return replicatedValue(runtime, { dtype, shape: [] }, dtypes[dtype].create([value]));
}

/** Without the undefined arguments at the end, so that defaults apply. */
export function trimmed(statics: readonly unknown[]): readonly unknown[] {
  let length = statics.length;
  while (length > 0 && statics[length - 1] === undefined) length--;
  return statics.slice(0, length);
}

/** The key of a call in the cache of eager programs. */
export function eagerKey(name: string, values: readonly Value[], statics: readonly unknown[]): string {
  const parts = values.map(({ type, layout }) =>
    layout.length === 0 ? formatType(type) : `${formatType(type)} ${formatLayout(layout)}`,
  );
  const fixed = trimmed(statics).map((value) => canonicalJson(plainOf(value)));
  return `${name}(${parts.join(";")})${fixed.join(";")}`;
}

/** Static arguments as plain data, in which every number keeps its identity. */
function plainOf(value: unknown): Plain {
  if (value === undefined) return "@undefined";
  if (Array.isArray(value)) return value.map(plainOf);
  if (typeof value !== "object" || value === null) return value as Plain;
  const given = Object.entries(value).filter(([, field]) => field !== undefined);
  return Object.fromEntries(given.map(([name, field]) => [name, plainOf(field)]));
}
