/**
 * @module Plain records of CSV in native code, off the event loop: those without quotes, with all fields, whose numbers are what their columns hold.
 * What else there is, with the words for it, is read record by record.
 */
import { loadNative } from "../../../executors/native/binding.ts";
import { dtypes, type TypedArray } from "../../../ir/dtype.ts";
import type { CsvType } from "../csv-types.ts";
import type { CsvColumn } from "./builder.ts";

/** How the records of a file are written. */
export interface PlainFormat {
  /** The code of the character between fields. */
  readonly separator: number;
  readonly fields: number;
  readonly missing: readonly string[];
  /** Bytes of the longest record, with the end of its line. */
  readonly longest: number;
}

/** What is used of the native core (native/binding/src/csv.rs). */
interface NativeCsv {
  readCsv?(
    bytes: Uint8Array,
    range: readonly [from: number, to: number, rows: number],
    format: PlainFormat,
    columns: Int32Array,
    target: Uint8Array,
  ): Promise<readonly [rows: number, next: number]>;
}

/** Records that were read together. */
export interface PlainRecords {
  readonly rows: number;
  /** Where the next record begins. */
  readonly next: number;
  /** Whether reading ended for want of room. */
  readonly isFull: boolean;
  /** The values of each column; of texts where the bytes of each begin and end. */
  readonly columns: readonly TypedArray[];
}

/** Reads plain records of a block from one place on, at most to another. */
export type PlainReader = (bytes: Buffer, from: number, to: number) => Promise<PlainRecords>;

/** Kinds of columns by their numbers in native code, and what holds them. */
const kinds: {
  readonly [type in CsvType]?: readonly [kind: number, dtype: "f32" | "f64" | "i32" | "u8", perRow: number];
} = { f32: [0, "f32", 1], f64: [1, "f64", 1], i32: [2, "i32", 1], u8: [3, "u8", 1], text: [4, "i32", 2] };
const alignment = 8;
/** Records for which there is room, beside as many as the block before had for its bytes. */
const spareRows = 64;

/** A reader for a file; undefined where native code does not load, or a column is of a kind that it does not read. */
export function plainReader(format: PlainFormat, columns: readonly CsvColumn[]): PlainReader | undefined {
  const native = loadNative() as NativeCsv;
  const own = columns.map(({ type }) => kinds[type]);
  if (native.readCsv === undefined || own.length === 0 || !own.every((kind) => kind !== undefined)) return undefined;
  const { readCsv } = native;
  const numbers = Int32Array.from(
    columns.flatMap(({ field, isInferred }, at) => [field, own[at]?.[0] as number, Number(isInferred)]),
  );
  // Of the shortest records at first.
  let perByte = 1 / (2 * format.fields);
  return async (bytes, from, to) => {
    const rows = Math.ceil((to - from) * perByte) + spareRows;
    let size = 0;
    const starts = own.map(([, dtype, perRow]) => {
      const start = size;
      size += Math.ceil((rows * perRow * dtypes[dtype].bytes) / alignment) * alignment;
      return start;
    });
    const target = new Uint8Array(size);
    const [found, next] = await readCsv(bytes, [from, to, rows], format, numbers, target);
    if (found > 0) perByte = (1.1 * found) / (next - from);
    const values = own.map(([, dtype, perRow], at) =>
      dtypes[dtype].view(target.buffer, starts[at] as number, found * perRow),
    );
    return { rows: found, next, isFull: found === rows, columns: values };
  };
}
