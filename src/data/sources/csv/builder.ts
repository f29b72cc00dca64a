/** @module The values of a column of a CSV file, record by record. */
import { type DType, dtypes, type TypedArray } from "../../../ir/dtype.ts";
import type { Values } from "../../records/piece.ts";
import type { Fields } from "../csv-fields.ts";
import { type CsvType, isRounded, longIn } from "../csv-types.ts";
import { numberIn } from "../numbers.ts";

/** A column that is read: where it stands in the file, and its type. */
export interface CsvColumn {
  readonly name: string;
  readonly field: number;
  readonly type: CsvType;
  /** Whether the type follows from the records. */
  readonly isInferred: boolean;
}

/** Texts that come often are made once: the last of each hash. */
const rememberedTexts = 4096;

/** The values of one column of a block. */
export class Builder {
  readonly column: CsvColumn;
  private readonly words: string[] | undefined;
  private readonly flags: boolean[] | undefined;
  private numbers: TypedArray | undefined;
  private readonly known: { readonly text: string; readonly bytes: Uint8Array }[] = [];

  constructor(column: CsvColumn) {
    this.column = column;
    const { type } = column;
    this.words = type === "text" ? [] : undefined;
    this.flags = type === "bool" ? [] : undefined;
    this.numbers = type === "text" || type === "bool" ? undefined : dtypes[type].create(1024);
  }

  /** Sets the value of a record; gives what is wrong with it, if anything is. */
  set(
    row: number,
    bytes: Buffer,
    fields: Fields,
    isMissing: (start: number, end: number) => boolean,
  ): string | undefined {
    const { field, type } = this.column;
    const [start, end] = [fields.starts[field] as number, fields.ends[field] as number];
    const missing = isMissing(start, end);
    if (this.words !== undefined) {
      this.words[row] = missing
        ? ""
        : fields.quoted[field] === 2
          ? fields.text(bytes, field)
          : this.text(bytes, start, end);
      return undefined;
    }
    if (missing && type !== "f32" && type !== "f64") return `a value is missing, which ${type} cannot hold`;
    if (this.flags !== undefined) {
      const word = bytes.toString("latin1", start, end).toLowerCase();
      if (word !== "true" && word !== "false") return `${quoted(bytes, start, end)} is neither true nor false`;
      this.flags[row] = word === "true";
      return undefined;
    }
    let numbers = this.numbers as TypedArray;
    if (row >= numbers.length) {
      const grown = dtypes[type as DType].create(numbers.length * 2);
      grown.set(numbers);
      numbers = grown;
      this.numbers = grown;
    }
    if (type === "i64") return this.setLong(row, bytes, start, end);
    const value = missing ? Number.NaN : numberIn(bytes, start, end);
    if (!missing && Number.isNaN(value) && !/^\s*[+-]?nan\s*$/i.test(bytes.toString("latin1", start, end)))
      return `${quoted(bytes, start, end)} is not a number`;
    if (type === "i32" || type === "u8") {
      const { lowest, highest } = dtypes[type];
      if (!Number.isInteger(value) || value < lowest || value > highest)
        return `${quoted(bytes, start, end)} is not a value of ${type}`;
    }
    numbers[row] = value;
    return type === "i32" || type === "u8" ? undefined : this.whyNot(value, numbers[row] as number, bytes, start, end);
  }

  /** What is wrong with a number among floats: it is too large, or a whole number became another and nobody named the type. */
  private whyNot(value: number, held: number, bytes: Buffer, start: number, end: number): string | undefined {
    if (held !== value && !Number.isNaN(value) && !Number.isFinite(held))
      return `${quoted(bytes, start, end)} is too large for f32`;
    if (!this.column.isInferred) return undefined;
    const isOther = held === value ? isRounded(bytes, start, end, value) : Number.isSafeInteger(value);
    const written = quoted(bytes, start, end).slice(1, -1);
    return isOther ? `${this.column.type} holds ${held} in the place of ${written}` : undefined;
  }

  private setLong(row: number, bytes: Buffer, start: number, end: number): string | undefined {
    const value = longIn(bytes, start, end);
    if (value === undefined) return `${quoted(bytes, start, end)} is not a value of i64`;
    (this.numbers as unknown as BigInt64Array)[row] = value;
    return undefined;
  }

  /** The texts of records in a row, by the places of their bytes; a missing one is empty. */
  texts(bytes: Buffer, places: Int32Array, rows: number, isMissing: (start: number, end: number) => boolean): string[] {
    return Array.from({ length: rows }, (_unused, row) => {
      const [start, end] = [places[2 * row] as number, places[2 * row + 1] as number];
      return isMissing(start, end) ? "" : this.text(bytes, start, end);
    });
  }

  private text(bytes: Buffer, start: number, end: number): string {
    const length = end - start;
    if (length === 0) return "";
    if (length > 64) return bytes.toString("utf8", start, end);
    let hash = length;
    for (let at = start; at < end; at++) hash = (Math.imul(hash, 31) + (bytes[at] as number)) | 0;
    const place = hash & (rememberedTexts - 1);
    const known = this.known[place];
    if (known !== undefined && known.bytes.length === length) {
      let at = 0;
      while (at < length && known.bytes[at] === bytes[start + at]) at++;
      if (at === length) return known.text;
    }
    const text = bytes.toString("utf8", start, end);
    this.known[place] = { text, bytes: Uint8Array.prototype.slice.call(bytes, start, end) };
    return text;
  }

  /** The values of the first `count` records; the builder goes on empty. */
  take(count: number): Values {
    if (this.words !== undefined) return this.words.splice(0).slice(0, count);
    if (this.flags !== undefined) return this.flags.splice(0).slice(0, count);
    const numbers = this.numbers as TypedArray;
    this.numbers = dtypes[this.column.type as DType].create(numbers.length);
    return numbers.subarray(0, count);
  }
}

const quoted = (bytes: Buffer, start: number, end: number): string =>
  JSON.stringify(bytes.toString("utf8", start, Math.min(end, start + 40))) + (end - start > 40 ? "…" : "");
