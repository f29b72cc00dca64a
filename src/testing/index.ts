/**
 * @module For tests of programs with tensors: values are compared, whatever runs the tests.
 *
 * `expectClose` is for any runner; `expect.extend(matchers)` gives vitest and jest `expect(x).toBeAllClose(y)`.
 */
import { HeddleError } from "../util/errors.ts";
import { type CloseOptions, type Comparable, checkCloseOptions, differences } from "./close.ts";

export type { CloseOptions, Comparable };

/**
 * Fails unless two values, or trees of values, have the same shapes (of two tensors also dtypes) and elements that are close. Waits for
 * the values in place, so that nobody has to await it.
 *
 * @throws HeddleError `assertion` naming how many elements differ, the worst and the first of them with their indices, and both values
 * @example expectClose(tensor([1, 2]).mul(0.1), [0.1, 0.2])
 */
export function expectClose(actual: Comparable, expected: Comparable, options: CloseOptions = {}): void {
  checkCloseOptions("expectClose", options);
  const found = differences(actual, expected, options);
  if (found !== undefined) throw new HeddleError("assertion", `expectClose: ${found}`);
}

/** What a matcher tells its runner. */
export interface MatcherResult {
  readonly pass: boolean;
  message(): string;
}

/** The matchers of vitest and jest: `expect.extend(matchers)`, once in a set-up file or at the top of a test. */
export const matchers = {
  /** {@link expectClose}: `expect(x).toBeAllClose(y, { rtol: 1e-4 })`. */
  toBeAllClose(actual: unknown, expected: unknown, options: CloseOptions = {}): MatcherResult {
    checkCloseOptions("toBeAllClose", options);
    const found = differences(actual, expected, options);
    const message = found === undefined ? "all elements are close, which was not expected" : found;
    return { pass: found === undefined, message: () => `toBeAllClose: ${message}` };
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
