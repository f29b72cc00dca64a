/** @module Records in the hands of a program, as `predict` takes them. */
import { Records } from "../data/browser.ts";
import { isTensor } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { isRecord } from "../util/tree.ts";

/** A list of records, or one record. */
export type GivenRecords = readonly object[] | { readonly [column: string]: unknown };

/**
 * A list of records as it is, and one record as a list of one; undefined for another value, such as a tensor, or a record of tensors.
 *
 * @throws HeddleError `argument` for records that are yet to be read
 */
export function givenRows(what: string, given: unknown): readonly object[] | undefined {
  if (given instanceof Records)
    throw new HeddleError("argument", `${what}: takes a list of records, got records that are yet to be read`, {
      hint: "read them first: await records.toArray()",
    });
  if (Array.isArray(given)) return given;
  return isRecord(given) && !Object.values(given).some(isTensor) ? [given] : undefined;
}
