/**
 * @module Divisors of weighted means when a batch is computed in parts. The divisor is the sum of weights of the whole batch, which no part
 * knows: training first sums the weights of all parts, and then gives each mean its share.
 */

import type { Tensor } from "../functions/index.ts";
import { currentTrace, type Trace } from "../ir/trace.ts";

interface Divisors {
  /** The trace of the loss itself: inner traces, such as of a single row, have means of their own. */
  readonly trace: Trace | undefined;
  readonly sums: Tensor[];
  readonly shares: readonly Tensor[];
}

let current: Divisors | undefined;

/** The divisor of a mean whose weights have this sum. */
export function divisor(sum: Tensor): Tensor {
  if (current === undefined || current.trace !== currentTrace()) return sum;
  current.sums.push(sum);
  return current.shares[current.sums.length - 1] ?? sum;
}

/**
 * Runs a loss; gives its result and the sums of weights that its means are divided by, in order.
 *
 * @param shares divisors to use instead, in the same order
 */
export function withDivisors<Result>(
  body: () => Result,
  shares: readonly Tensor[] = [],
): { readonly result: Result; readonly sums: readonly Tensor[] } {
  const outer = current;
  const divisors: Divisors = { trace: currentTrace(), sums: [], shares };
  current = divisors;
  try {
    return { result: body(), sums: divisors.sums };
  } finally {
    current = outer;
  }
}
