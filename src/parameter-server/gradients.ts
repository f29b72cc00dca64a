/** @module Gradients of a shard: of its parameters as bytes of all of them, and of tables by rows; their sums, and their bytes. */
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, sizeOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import type { Shard } from "./shards.ts";
import { listsAsBytes, parseLists, type RowList, type Rows, summedRows } from "./tables/row-lists.ts";

/** Gradients of a shard. */
export interface Gradient {
  /** Of the parameters, one after another. */
  readonly dense: Uint8Array;
  /** Of each table, by rows. */
  readonly rows: readonly Rows[];
}

/** The parts of a shard that its gradients are of. */
export type Differentiated = Pick<Shard, "params" | "tables">;

/** The weighted sum of gradients. */
export function weightedSum(
  { params, tables }: Differentiated,
  parts: readonly { readonly gradient: Gradient; readonly weight: number }[],
): Gradient {
  const [only] = parts;
  if (parts.length === 1 && only?.weight === 1) return only.gradient;
  const types = params.map(({ type }) => type);
  const dense = new Uint8Array(types.reduce((sum, type) => sum + bytesOf(type), 0));
  for (const { gradient, weight } of parts) addScaled(types, dense, gradient.dense, weight);
  return {
    dense,
    rows: tables.map(({ dtype }, table) =>
      summedRows(
        parts.map(({ gradient, weight }) => ({ ...(gradient.rows[table] as Rows), weight })),
        dtype,
      ),
    ),
  };
}

/** The gradient as one piece of bytes after those of its lists of rows. */
export function gradientAsBytes({ dense, rows }: Gradient): { readonly lists: number; readonly bytes: Uint8Array[] } {
  const lists = rows.length === 0 ? new Uint8Array(0) : listsAsBytes(rows.map(({ ids }) => ids));
  return { lists: lists.length, bytes: [lists, dense, ...rows.map(({ values }) => values)] };
}

/** Bytes of a gradient, without those of its lists. */
export const gradientBytes = ({ params, tables }: Differentiated, lists: readonly RowList[]): number =>
  params.reduce((sum, { type }) => sum + bytesOf(type), 0) +
  tables.reduce((sum, { size, dtype }, table) => sum + (lists[table]?.length ?? 0) * size * dtypes[dtype].bytes, 0);

/** Reads a gradient of these rows. @throws HeddleError `link` for another number of bytes */
export function parseGradient(shard: Differentiated, lists: readonly RowList[], bytes: Uint8Array): Gradient {
  const expected = gradientBytes(shard, lists);
  if (bytes.length !== expected)
    throw new HeddleError("link", `gradients of ${bytes.length} bytes for a shard that needs ${expected}`);
  let offset = shard.params.reduce((sum, { type }) => sum + bytesOf(type), 0);
  const dense = bytes.subarray(0, offset);
  const rows = shard.tables.map(({ size, dtype }, table): Rows => {
    const ids = lists[table] as RowList;
    const from = offset;
    offset += ids.length * size * dtypes[dtype].bytes;
    return { ids, values: bytes.subarray(from, offset) };
  });
  return { dense, rows };
}

/** The lists of rows of a shard's tables. @throws HeddleError `link` */
export const parseShardLists = ({ tables }: Pick<Shard, "tables">, bytes: Uint8Array): RowList[] =>
  parseLists(
    bytes,
    tables.map(({ count }) => count),
  );

/** `sum += weight · x`, tensor by tensor. */
function addScaled(types: readonly TensorType[], sum: Uint8Array, x: Uint8Array, weight: number): void {
  let offset = 0;
  for (const type of types) {
    const [into, from] = [sum, x].map((bytes) => asFloats(type, bytes, offset)) as [Float64Array, Float64Array];
    for (let index = 0; index < into.length; index++)
      into[index] = (into[index] as number) + weight * (from[index] as number);
    if (into.buffer !== sum.buffer) sum.set(new Uint8Array(into.buffer, into.byteOffset, into.byteLength), offset);
    offset += bytesOf(type);
  }
}

/** The largest magnitude in tensors; the largest number for a NaN or an infinity. */
export function largestMagnitude(types: readonly TensorType[], parts: readonly Uint8Array[]): number {
  let largest = 0;
  for (const [index, type] of types.entries())
    for (const value of asFloats(type, parts[index] as Uint8Array, 0)) {
      const size = Math.abs(value);
      if (!(size <= largest)) largest = size < Infinity ? size : Number.MAX_VALUE;
    }
  return largest;
}

/** A tensor's numbers; a copy if the bytes are not aligned. */
function asFloats(type: TensorType, bytes: Uint8Array, offset: number): Float64Array | Float32Array {
  const size = sizeOf(type.shape);
  const start = bytes.byteOffset + offset;
  const whole = start % dtypes[type.dtype].bytes === 0;
  const source = whole ? bytes.buffer : bytes.slice(offset, offset + bytesOf(type)).buffer;
  const at = whole ? start : 0;
  if (type.dtype === "f64") return new Float64Array(source, at, size);
  if (type.dtype === "f32") return new Float32Array(source, at, size);
  throw new HeddleError("dtype", `parameters on servers are f32 or f64, not ${type.dtype}`);
}
