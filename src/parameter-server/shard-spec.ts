/** @module Reads what a shard is. */
import { dtypes } from "../ir/dtype.ts";
import type { TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import type { Shard } from "./shards.ts";
import { isTableSpec } from "./tables/table-spec.ts";

/** Reads what a shard is. @throws HeddleError `link` */
export function parseShard(text: string): Shard {
  const malformed = new HeddleError("link", "what a shard is, is malformed");
  const isPiece = (value: unknown): boolean => {
    const { path, type } = (value ?? {}) as { path?: unknown; type?: Partial<TensorType> };
    const { dtype = "", shape } = type ?? {};
    return (
      typeof path === "string" &&
      Object.hasOwn(dtypes, dtype) &&
      Array.isArray(shape) &&
      shape.every((size) => Number.isSafeInteger(size) && size >= 0)
    );
  };
  let value: Partial<Shard> | null;
  try {
    value = JSON.parse(text) as Partial<Shard> | null;
  } catch {
    throw malformed;
  }
  const { params, slots, program, rates, tables, index, count } = value ?? {};
  if (!Array.isArray(params) || !Array.isArray(slots) || ![...params, ...slots].every(isPiece)) throw malformed;
  if (typeof program !== "string" || !Number.isSafeInteger(rates)) throw malformed;
  if (!Array.isArray(tables) || !tables.every(isTableSpec)) throw malformed;
  if (!Number.isSafeInteger(index) || !Number.isSafeInteger(count) || !((count as number) > (index as number)))
    throw malformed;
  return value as Shard;
}
