/**
 * @module What means by weight are divided by where a batch is computed in parts. It is the sum over the whole batch, which no
 * part knows by itself: a training sums it over the parts first, and then hands each mean its share.
 */

import type { Tensor } from "../functions/index.ts";
import { currentTrace, type Trace } from "../ir/trace.ts";

interface Divisors {
  /** Of the loss itself: what is traced within it, row by row say, has means of its own. */
  readonly trace: Trace | undefined;
  readonly sums: Tensor[];
  readonly shares: readonly Tensor[];
}

let current: Divisors | undefined;

/** What a mean is divided by, given the sum of its weights. */
export function divisor(sum: Tensor): Tensor {
  if (current === undefined || current.trace !== currentTrace()) return sum;
  current.sums.push(sum);
  return current.shares[current.sums.length - 1] ?? sum;
}

/**
 * Runs a loss; gives also the sums that its means are divided by, in their order.
 *
 * @param shares what they are divided by instead, in the same order
 */
export function withDivisors<Result>(
  body: () => Result,
  shares: readonly Tensor[] = [],
): { readonly result: Result; readonly sums: readonly Tensor[] } {
  const before = current;
  const own: Divisors = { trace: currentTrace(), sums: [], shares };
  current = own;
  try {
    return { result: body(), sums: own.sums };
  } finally {
    current = before;
  }
}
