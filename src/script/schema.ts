/** @module Schemas of frames: the type of each column, and its cells as SystemDS writes them. */

import { HeddleError } from "../util/errors.ts";
import { formatDouble, numberFrom } from "./values.ts";

/** A cell as a column of some type has it; undefined for a cell that is not of the type. */
type Canonical = (cell: string) => string | undefined;

const asIs: Canonical = (cell) => cell;
const real: Canonical = (cell) => {
  const value = cell === "" ? 0 : cell === "NA" ? Number.NaN : numberFrom(cell);
  return value === undefined ? undefined : formatDouble(value);
};
const whole: Canonical = (cell) => {
  const value = cell === "" ? 0 : numberFrom(cell);
  if (!Number.isInteger(value)) return undefined;
  // The digits of a number that a double cannot hold stay.
  return /^-?\d+$/.test(cell) ? cell : String(value);
};
const truth: Canonical = (cell) => {
  if (/^(true|t|1)$/i.test(cell)) return "true";
  return /^(false|f|0|)$/i.test(cell) ? "false" : undefined;
};

const types: Readonly<Record<string, Canonical>> = {
  STRING: asIs,
  CHARACTER: asIs,
  HASH32: asIs,
  HASH64: asIs,
  UNKNOWN: asIs,
  BOOLEAN: truth,
  FP32: real,
  FP64: real,
  INT32: whole,
  INT64: whole,
  UINT4: whole,
  UINT8: whole,
};
const aliases: Readonly<Record<string, string>> = { DOUBLE: "FP64", INT: "INT64", INTEGER: "INT64" };

/** The types of a schema such as `STRING,FP64`. @throws HeddleError `argument` for a type that is not there */
function typesOf(schema: string): readonly string[] {
  // SystemDS writes a comma after the last one, too.
  const words = schema.trim().replace(/,$/, "").split(",");
  return words.map((word) => {
    const name = word.trim().toUpperCase();
    const type = Object.hasOwn(aliases, name) ? (aliases[name] as string) : name;
    if (Object.hasOwn(types, type)) return type;
    throw new HeddleError("argument", `read: "${word.trim()}" of the schema is not a type of columns`, {
      hint: `${Object.keys(types).join(", ")} are`,
    });
  });
}

/**
 * The types of a schema, and the columns of a file with cells as these types have them: numbers as Java writes them, `true` and `false`.
 *
 * @throws HeddleError `argument` for a type that is not there, `format` for another number of types than of columns, and for a cell that is not of
 * its column's type
 */
export function withSchema(
  path: string,
  schema: string,
  columns: readonly (readonly string[])[],
): { readonly schema: readonly string[]; readonly columns: readonly (readonly string[])[] } {
  const all = typesOf(schema);
  if (all.length !== columns.length)
    throw new HeddleError("format", `read: ${path} has ${columns.length} columns, and its schema has ${all.length}`);
  const typed = columns.map((column, at) => {
    const type = all[at] as string;
    const canonical = types[type] as Canonical;
    return column.map((cell, row) => {
      const text = canonical === asIs ? cell : canonical(cell.trim());
      if (text !== undefined) return text;
      throw new HeddleError("format", `read: ${path}: row ${row + 1}, column ${at + 1}: "${cell}" is not ${type}`);
    });
  });
  return { schema: all, columns: typed };
}
