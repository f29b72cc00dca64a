/** @module Where in a script an error comes from: what runs a part of a script gives its errors the place of that part. */
import { HeddleError } from "../util/errors.ts";
import { formatPlace, type Place } from "./syntax.ts";

/** Runs `body`; an error that has no place in the script gets this one. */
export function placed<Result>(at: Place, body: () => Result): Result {
  try {
    return body();
  } catch (error) {
    if (error instanceof HeddleError && !error.isPlaced) throw error.at(formatPlace(at));
    if (error instanceof RangeError && !isStackFull(error))
      throw new HeddleError("memory", error.message, { where: formatPlace(at), cause: error });
    throw error;
  }
}

/** Whether calls are nested more deeply than the stack of JavaScript allows. */
export const isStackFull = (error: unknown): boolean =>
  error instanceof RangeError && error.message.includes("call stack");

/** Runs what goes down an expression. @throws HeddleError `memory` where it is deeper than the stack */
export function nested<Result>(file: string, body: () => Result): Result {
  try {
    return body();
  } catch (error) {
    if (!isStackFull(error)) throw error;
    const where = formatPlace({ file, line: 1, column: 1 });
    throw new HeddleError("memory", "the script has an expression that is nested too deeply", { where });
  }
}
