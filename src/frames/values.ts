/** @module What a field of a record is to an encoder: missing, a number, a category, or a moment in time. */

import type { Piece, Values } from "../data/records/piece.ts";
import { placed } from "../data/records/piece.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import type { Category } from "./sketches/counts.ts";

/** Values of one column, with where each is from. */
export interface Field {
  readonly column: string;
  readonly values: Values;
  readonly length: number;
  readonly place?: Piece["place"];
}

/** The error of a value, with its record and column. */
export function badValue(field: Field, index: number, problem: string, hint?: string): HeddleError {
  const what = `frame: ${placed(index, field.place)}, column "${field.column}"`;
  return new HeddleError("data", `${what}: ${problem}`, hint === undefined ? {} : { hint });
}

/** Whether a field has no value: null, undefined, NaN, or an empty text. */
export const isMissing = (value: unknown): boolean =>
  value === undefined || value === null || value === "" || (typeof value === "number" && Number.isNaN(value));

/** The number of a field; NaN for a missing one. @throws HeddleError `data` for a value that is not a number */
export function numberAt(field: Field, index: number): number {
  const value = field.values[index] as unknown;
  if (typeof value === "number") return value;
  if (typeof value === "bigint" || typeof value === "boolean") return Number(value);
  if (isMissing(value)) return Number.NaN;
  // A text of a number, such as of a form or of a file that was read as text.
  const isNumeral = typeof value === "string" && value.trim() !== "" && Number.isFinite(Number(value));
  throw badValue(
    field,
    index,
    isNumeral ? `${shown(value)} is a text, not a number` : `${shown(value)} is not a number`,
    isNumeral
      ? `pass the number ${Number(value)}; data.csv reads numbers by columns: { ${JSON.stringify(field.column)}: "f32" }`
      : "encode texts by oneHot, recode, ordinal, hash or words",
  );
}

/** The category of a field; undefined for a missing one. @throws HeddleError `data` for a value that is no category */
export function categoryAt(field: Field, index: number): Category | undefined {
  const value = field.values[index] as unknown;
  if (isMissing(value)) return undefined;
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value;
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  throw badValue(field, index, `${shown(value)} is not a category: a text, a number or a truth value`);
}

/** The text of a field; undefined for a missing one. */
export function textAt(field: Field, index: number): string | undefined {
  const category = categoryAt(field, index);
  return category === undefined ? undefined : String(category);
}

const iso = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d{2}:?\d{2})?)?$/;

/**
 * A moment as milliseconds since 1970: a `Date`, milliseconds, or a text of ISO 8601 (UTC where it names no zone); NaN for a missing one.
 *
 * @throws HeddleError `data` for another value, or a day that no calendar has
 */
export function momentAt(field: Field, index: number): number {
  const value = field.values[index] as unknown;
  if (value instanceof Date) return value.getTime();
  if (typeof value === "number" || typeof value === "bigint") return Number(value);
  if (isMissing(value)) return Number.NaN;
  const found = typeof value === "string" ? iso.exec(value.trim()) : null;
  const moment = found === null ? Number.NaN : momentOf(found);
  if (Number.isNaN(moment))
    throw badValue(
      field,
      index,
      `${shown(value)} is not a moment`,
      "write it as ISO 8601 does, such as 2024-05-17T09:30:00Z",
    );
  return moment;
}

function momentOf([
  ,
  year,
  month,
  day,
  hour = "0",
  minute = "0",
  second = "0",
  part = "",
  zone,
]: RegExpExecArray): number {
  const [months, days] = [Number(month), Number(day)];
  const date = new Date(0);
  date.setUTCFullYear(Number(year), months - 1, days);
  const isReal = date.getUTCMonth() === months - 1 && date.getUTCDate() === days;
  if (!isReal || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return Number.NaN;
  const [, sign, hours, minutes] = /([+-])(\d{2}):?(\d{2})/.exec(zone ?? "") ?? [];
  const shift = sign === undefined ? 0 : (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
  const fraction = Math.floor(Number(`0.${part === "" ? "0" : part}`) * 1000);
  return date.getTime() + ((Number(hour) * 60 + Number(minute) - shift) * 60 + Number(second)) * 1000 + fraction;
}
