/** @module Checks that encoders share. */
import { HeddleError } from "../../util/errors.ts";
import { shown } from "../../util/show.ts";

/** @throws HeddleError `argument` unless a column is named by a text */
export function checkColumn(what: string, column: unknown): void {
  if (typeof column === "string" && column !== "") return;
  throw new HeddleError("argument", `${what}: takes the name of a column, got ${shown(column)}`);
}

/** @throws HeddleError `option` unless a value is one of these */
export function checkOneOf(what: string, name: string, value: unknown, known: readonly unknown[]): void {
  if (known.includes(value)) return;
  const words = known.map((one) =>
    typeof one === "string" && !one.startsWith("a ") ? JSON.stringify(one) : String(one),
  );
  throw new HeddleError("option", `${what}: ${name} must be one of ${words.join(", ")}, got ${shown(value)}`);
}
