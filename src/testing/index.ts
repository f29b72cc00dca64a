/**
 * @module Helpers for tests of programs with tensors, in any test runner.
 *
 * `expectClose` is for any runner; `expect.extend(matchers)` gives vitest and jest `expect(x).toBeAllClose(y)`.
 */
import { HeddleError } from "../util/errors.ts";
import { type CloseOptions, type Comparable, checkCloseOptions, differences } from "./close.ts";

export type { CloseOptions, Comparable };

/**
 * Fails unless two values, or trees of values, have the same shapes (and, for two tensors, dtypes) and close elements. It waits for the
 * values synchronously, so it need not be awaited.
 *
 * @throws HeddleError `assertion` with the number of elements that differ, the worst and the first of them by index, and both values
 * @example expectClose(tensor([1, 2]).mul(0.1), [0.1, 0.2])
 */
export function expectClose(actual: Comparable, expected: Comparable, options: CloseOptions = {}): void {
  checkCloseOptions("expectClose", options);
  const problem = differences(actual, expected, options);
  if (problem !== undefined) throw new HeddleError("assertion", `expectClose: ${problem}`);
}

/** The result of a matcher for its runner. */
export interface MatcherResult {
  readonly pass: boolean;
  message(): string;
}

/** The matchers of vitest and jest: `expect.extend(matchers)`, once in a set-up file or at the top of a test. */
export const matchers = {
  /** {@link expectClose}: `expect(x).toBeAllClose(y, { rtol: 1e-4 })`. */
  toBeAllClose(actual: unknown, expected: unknown, options: CloseOptions = {}): MatcherResult {
    checkCloseOptions("toBeAllClose", options);
    const problem = differences(actual, expected, options);
    const message = problem === undefined ? "all elements are close, which was not expected" : problem;
    return { pass: problem === undefined, message: () => `toBeAllClose: ${message}` };
  },
};

declare global {
  // Both runners' types take custom matchers from here; neither has to be installed.
  namespace jest {
    // biome-ignore lint/complexity/noBannedTypes: parameters must be those of the runners' own declarations
    interface Matchers<R, T = {}> {
      /** {@link expectClose}, of `heddle/testing`. */
      toBeAllClose(expected: Comparable, options?: CloseOptions): R;
    }
  }
}
