/** @module Comparing lists of numbers. */
import { expect } from "vitest";

/** Fails unless both lists are as long and differ nowhere by more than `relative` of the value or, if more, `absolute`. */
export function expectClose(
  found: ArrayLike<number>,
  expected: ArrayLike<number>,
  relative: number,
  absolute = relative,
): void {
  expect(found.length).toBe(expected.length);
  for (let index = 0; index < expected.length; index++) {
    const [left, right] = [found[index] as number, expected[index] as number];
    if (left === right) continue;
    const limit = Math.max(relative * Math.abs(right), absolute);
    // Every number is within a share of infinity.
    if (!(Number.isFinite(right) && Math.abs(left - right) <= limit))
      expect.fail(`at ${index}: ${left} is not ${right} to ${limit}`);
  }
}
