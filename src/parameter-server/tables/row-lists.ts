/**
 * @module Lists of rows as bytes: for each table the number of rows (u32), then their ids (i32, ascending, each once), little-endian as all
 * processors that Heddle runs on.
 */
import { HeddleError } from "../../util/errors.ts";

/** Rows of a table: ids, ascending, each once. */
export type RowList = Int32Array<ArrayBuffer>;

/** Rows of one table with a value for each: whole rows, one after another. */
export interface Rows {
  readonly ids: RowList;
  readonly values: Uint8Array;
}

/** The bytes of lists, one for each table. */
export function listsAsBytes(lists: readonly RowList[]): Uint8Array<ArrayBuffer> {
  const words = new Int32Array(lists.reduce((sum, { length }) => sum + 1 + length, 0));
  let at = 0;
  for (const list of lists) {
    words[at] = list.length;
    words.set(list, at + 1);
    at += 1 + list.length;
  }
  return new Uint8Array(words.buffer);
}

/**
 * Reads lists.
 *
 * @param counts for each table the number of its rows
 * @throws HeddleError `link` for ids out of range, twice or out of order, and for another number of lists or bytes
 */
export function parseLists(bytes: Uint8Array, counts: readonly number[]): RowList[] {
  const malformed = (what: string): HeddleError => new HeddleError("link", `a list of rows ${what}`);
  if (bytes.length % 4 !== 0) throw malformed(`of ${bytes.length} bytes`);
  const words = new Int32Array(bytes.slice().buffer);
  let at = 0;
  const lists = counts.map((count) => {
    const length = words[at] ?? -1;
    if (length < 0 || at + 1 + length > words.length) throw malformed("that is cut short");
    const ids = words.subarray(at + 1, at + 1 + length);
    at += 1 + length;
    let before = -1;
    for (const id of ids) {
      if (id <= before || id >= count)
        throw malformed(`with row ${id} after row ${before}, in a table of ${count} rows`);
      before = id;
    }
    return ids;
  });
  if (at !== words.length) throw malformed("for a table that is not there");
  return lists;
}

/** The ids among some, ascending, each once; and for each id its place among them. */
export function coalesced(ids: Int32Array): { readonly list: RowList; readonly places: Int32Array } {
  const sorted = ids.slice().sort();
  let size = 0;
  for (const id of sorted) if (size === 0 || sorted[size - 1] !== id) sorted[size++] = id;
  const list = sorted.slice(0, size);
  return { list, places: ids.map((id) => placeIn(list, id)) };
}

/** The place of an id in a list that has it. */
export function placeIn(list: Int32Array, id: number): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((list[middle] as number) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A list cut into one for each server, and where each of these rows was. */
export function split(
  list: RowList,
  owner: (id: number) => number,
  servers: number,
): { readonly lists: readonly RowList[]; readonly places: readonly Int32Array[] } {
  if (servers === 1) return { lists: [list], places: [list.map((_id, at) => at)] };
  const owners = new Uint16Array(list.length);
  const counts = new Array<number>(servers).fill(0);
  for (let at = 0; at < list.length; at++) {
    const server = owner(list[at] as number);
    owners[at] = server;
    counts[server] = (counts[server] as number) + 1;
  }
  const lists = counts.map((count) => new Int32Array(count));
  const places = counts.map((count) => new Int32Array(count));
  const next = new Array<number>(servers).fill(0);
  for (let at = 0; at < list.length; at++) {
    const server = owners[at] as number;
    const to = next[server] as number;
    (lists[server] as Int32Array)[to] = list[at] as number;
    (places[server] as Int32Array)[to] = at;
    next[server] = to + 1;
  }
  return { lists, places };
}

/** The weighted sum of rows: each id once, with the sum of its values. */
export function summedRows(parts: readonly (Rows & { readonly weight: number })[], dtype: "f32" | "f64"): Rows {
  const [only] = parts;
  if (parts.length === 1 && only?.weight === 1) return only;
  const ids = coalesced(Int32Array.from(parts.flatMap((part) => [...part.ids]))).list;
  const filled = parts.find((part) => part.ids.length > 0);
  if (filled === undefined) return { ids, values: new Uint8Array(0) };
  const rowBytes = filled.values.length / filled.ids.length;
  const sum = floats(new Uint8Array(ids.length * rowBytes), dtype);
  const width = sum.length / ids.length;
  for (const part of parts) {
    const values = floats(part.values, dtype);
    for (const [row, id] of part.ids.entries()) {
      const [to, from] = [placeIn(ids, id) * width, row * width];
      for (let column = 0; column < width; column++)
        sum[to + column] = (sum[to + column] as number) + part.weight * (values[from + column] as number);
    }
  }
  return { ids, values: new Uint8Array(sum.buffer) };
}

/** The numbers of some bytes: a copy if they are not aligned. */
export function floats(bytes: Uint8Array, dtype: "f32" | "f64"): Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer> {
  const width = dtype === "f32" ? 4 : 8;
  const { buffer, byteOffset, length } = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
  return dtype === "f32"
    ? new Float32Array(buffer as ArrayBuffer, byteOffset, length / 4)
    : new Float64Array(buffer as ArrayBuffer, byteOffset, length / 8);
}
