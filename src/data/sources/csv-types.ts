/** @module Types of the columns of a CSV file, from its first records. */
import { numberIn } from "./numbers.ts";

/** What a column of a CSV file holds. */
export type CsvType = "f32" | "f64" | "i32" | "u8" | "i64" | "bool" | "text";

/** The type to name where a column turns out not to have the one that its first records had. */
export const widerThan: { readonly [type in CsvType]: CsvType } = {
  u8: "f64",
  i32: "f64",
  f32: "f64",
  f64: "i64",
  i64: "text",
  bool: "text",
  text: "text",
};

/** The types of columns, as options name them. */
export const csvTypes: readonly CsvType[] = ["f32", "f64", "i32", "u8", "i64", "bool", "text"];

/** Bytes of a file, as a `Buffer` has them: the types of the package need none of Node's. */
interface Bytes extends Uint8Array {
  toString(encoding?: "latin1", start?: number, end?: number): string;
}

/** More digits than this may be another number in f64. */
const safeDigits = 15;

/**
 * Whether f64 has another number in the place of these digits. A whole number up to 1e21 is held if its digits are the ones that
 * JavaScript prints; beyond, numbers are taken as decimals.
 */
export function isRounded(bytes: Bytes, start: number, end: number, value: number): boolean {
  if (end - start <= safeDigits || Math.abs(value) >= 1e21) return false;
  const [, sign = "", digits] = /^\s*([+-]?)0*(\d+)\s*$/.exec(bytes.toString("latin1", start, end)) ?? [];
  return digits !== undefined && String(value) !== `${sign === "-" ? "-" : ""}${digits}`;
}

const [leastLong, mostLong] = [-(2n ** 63n), 2n ** 63n - 1n];

/** The i64 of these digits; undefined where there is none. */
export function longIn(bytes: Bytes, start: number, end: number): bigint | undefined {
  const text = bytes.toString("latin1", start, end).trim();
  if (!/^[+-]?\d{1,19}$/.test(text)) return undefined;
  const value = BigInt(text.replace(/^\+/, ""));
  return value < leastLong || value > mostLong ? undefined : value;
}

/** What the first records say of a column. */
export class ColumnTypes {
  private text = false;
  private bool = true;
  private whole = true;
  private fits = true;
  private f32 = true;
  private f64 = true;
  private i64 = true;
  private missing = false;
  private any = false;

  /** Sees a field that is missing. */
  skip(): void {
    this.missing = true;
  }

  /** Sees a field. */
  see(bytes: Bytes, start: number, end: number): void {
    this.any = true;
    this.bool &&= /^(true|false)$/i.test(bytes.toString("latin1", start, Math.min(end, start + 6)));
    const value = numberIn(bytes, start, end);
    this.text ||= Number.isNaN(value);
    this.whole &&= Number.isInteger(value) && !bytes.subarray(start, end).includes(0x2e);
    this.fits &&= Math.abs(value) < 2 ** 31;
    const rounded = Math.fround(value);
    this.f32 &&= Number.isSafeInteger(value) ? rounded === value : Number.isFinite(rounded) || !Number.isFinite(value);
    this.f64 &&= !isRounded(bytes, start, end, value);
    this.i64 &&= this.whole && longIn(bytes, start, end) !== undefined;
  }

  /** The type of the column; `numbers` is that of all numbers that it can hold, where that is asked for. */
  type(numbers: CsvType | undefined): CsvType {
    if (!this.any) return "text";
    if (this.bool) return this.missing ? "text" : "bool";
    if (this.text) return "text";
    // Keys of many digits are not to become others: i64, or text where that has no place for them.
    if (this.whole && !this.f64) return this.i64 && !this.missing ? "i64" : "text";
    if (numbers !== undefined) return numbers;
    if (this.whole && !(this.fits && this.missing)) return this.fits ? "i32" : "f64";
    return this.f32 && this.f64 ? "f32" : "f64";
  }
}
