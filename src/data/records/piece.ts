/** @module Pieces: some consecutive records, as values by column. All sources make pieces, and all steps of a chain pass pieces on. */
import { dtypes, type TypedArray } from "../../ir/dtype.ts";
import { HeddleError } from "../../util/errors.ts";

/** The values of one column: numbers in a typed array, one for each record, or values of any kind in a list. */
export type Values = TypedArray | readonly unknown[];

/** Some consecutive records. */
export interface Piece {
  /** Number of records. */
  readonly length: number;
  /** The columns by name, each with a value for each record. */
  readonly columns: { readonly [name: string]: Values };
  /** Where a record is from, for messages: `"people.csv, line 7"`. */
  readonly place?: ((index: number) => string) | undefined;
}

/** A record: values by column. */
export type AnyRow = { readonly [name: string]: unknown };

/** The records of a piece as objects. */
export function rowsOf(piece: Piece): AnyRow[] {
  const names = Object.keys(piece.columns);
  const columns = Object.values(piece.columns);
  // An assignment to this name would set the prototype.
  if (names.includes("__proto__"))
    return Array.from({ length: piece.length }, (_unused, index) =>
      Object.fromEntries(names.map((name, at) => [name, (columns[at] as Values)[index]])),
    );
  return Array.from({ length: piece.length }, (_unused, index) => {
    const row: { [name: string]: unknown } = {};
    for (let at = 0; at < names.length; at++) row[names[at] as string] = (columns[at] as Values)[index];
    return row;
  });
}

/** Objects as a piece. The columns are those of the first; `what` names the step in errors. @throws HeddleError `data` for a record with other columns */
export function pieceOf(what: string, rows: readonly AnyRow[], place?: Piece["place"]): Piece {
  const names = Object.keys(rows[0] ?? {});
  rows.forEach((row, index) => {
    if (typeof row !== "object" || row === null || Array.isArray(row) || ArrayBuffer.isView(row))
      throw new HeddleError(
        "data",
        `${what}: ${placed(index, place)} is ${String(row)}, not a record such as { x, y }`,
      );
    const count = Object.keys(row).length;
    if (count === names.length && names.every((name) => Object.hasOwn(row, name))) return;
    throw new HeddleError(
      "data",
      `${what}: ${placed(index, place)} has the columns ${Object.keys(row).join(", ")}, the record before it ${names.join(", ")}`,
    );
  });
  return {
    length: rows.length,
    columns: Object.fromEntries(names.map((name) => [name, rows.map((row) => row[name])])),
    place,
  };
}

/** A record in a message. */
export const placed = (index: number, place: Piece["place"]): string =>
  place === undefined ? `record ${index}` : place(index);

/** Records `from` to `to` of a piece; typed arrays are shared. */
export function cut(piece: Piece, from: number, to: number): Piece {
  if (from === 0 && to === piece.length) return piece;
  const { place } = piece;
  return {
    length: to - from,
    columns: mapColumns(piece, (values) =>
      ArrayBuffer.isView(values) ? values.subarray(from, to) : values.slice(from, to),
    ),
    place: place && ((index) => place(index + from)),
  };
}

/** The chosen records of a piece, in the given order. */
export function chosen(piece: Piece, indices: ArrayLike<number>): Piece {
  const { place } = piece;
  return {
    length: indices.length,
    columns: mapColumns(piece, (values) => {
      if (!ArrayBuffer.isView(values)) return Array.from(indices, (index) => values[index]);
      const Kind = values.constructor as new (length: number) => TypedArray;
      const out = new Kind(indices.length);
      for (let at = 0; at < indices.length; at++) out[at] = values[indices[at] as number] as number;
      return out;
    }),
    place: place && ((index) => place(indices[index] as number)),
  };
}

/** Pieces one after another, as one. @throws HeddleError `data` where their columns differ */
export function joined(what: string, pieces: readonly Piece[]): Piece {
  const [first] = pieces;
  if (first === undefined || pieces.length === 1) return first ?? { length: 0, columns: {} };
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const names = Object.keys(first.columns);
  const columns = names.map((name): [string, Values] => {
    const parts = pieces.map((piece) => piece.columns[name]);
    const lacking = parts.indexOf(undefined);
    if (lacking >= 0)
      throw new HeddleError(
        "data",
        `${what}: ${placed(0, pieces[lacking]?.place)} has no column "${name}"; its columns are ${Object.keys(pieces[lacking]?.columns ?? {}).join(", ")}`,
      );
    return [name, joinedValues(parts as Values[], length)];
  });
  const starts = startsOf(pieces);
  const place = pieces.some((piece) => piece.place !== undefined)
    ? (index: number): string => {
        const part = lastAtMost(starts, index);
        return placed(index - (starts[part] as number), pieces[part]?.place);
      }
    : undefined;
  return { length, columns: Object.fromEntries(columns), place };
}

/** Arrays of one kind are joined as they are; others become a list. */
function joinedValues(parts: readonly Values[], length: number): Values {
  const [first] = parts;
  const kind = first?.constructor;
  if (!ArrayBuffer.isView(first) || parts.some((part) => part.constructor !== kind))
    return parts.flatMap((part) => (ArrayBuffer.isView(part) ? Array.from(part) : part));
  const out = new (kind as new (length: number) => TypedArray)(length);
  let at = 0;
  for (const part of parts as TypedArray[]) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** The number of records before each piece. */
export function startsOf(pieces: readonly { readonly length: number }[]): number[] {
  let sum = 0;
  return pieces.map(({ length }) => {
    sum += length;
    return sum - length;
  });
}

/** The last position of ascending numbers whose number is at most `value`; -1 if there is none. */
export function lastAtMost(ascending: ArrayLike<number>, value: number): number {
  let [low, high] = [-1, ascending.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((ascending[middle] as number) <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

const mapColumns = (piece: Piece, change: (values: Values) => Values): { [name: string]: Values } =>
  Object.fromEntries(Object.entries(piece.columns).map(([name, values]) => [name, change(values)]));

const byKind = new Map<unknown, keyof typeof dtypes>(
  (["f32", "f64", "i32", "u32", "u8", "i8", "i64", "u64"] as const).map((dtype) => [
    dtypes[dtype].create(0).constructor,
    dtype,
  ]),
);

/** The dtype whose typed arrays these values are; undefined for a list. */
export const dtypeOfArray = (values: unknown): keyof typeof dtypes | undefined =>
  byKind.get((values as object | undefined)?.constructor);
