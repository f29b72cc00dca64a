/** @module Checks a range of bounds. */
import { HeddleError } from "../../util/errors.ts";

/** @throws HeddleError `option` unless `low` is at most `high` */
export function checkBounds(spec: string, low: number, high: number): void {
  if (!(low <= high)) throw new HeddleError("option", `policy '${spec}': LOW must be at most HIGH`);
}
