/**
 * @module The bound on the iterations of a plain loop, which the loop's body sets. The `whileLoop` that a plain `while`
 * becomes needs the bound for a gradient (its option of the same name); a loop that runs as JavaScript keeps to the
 * bound, too.
 */
import { checkInteger, HeddleError } from "../../extend/browser.ts";
import type { WhileOptions } from "../../functions/index.ts";

/** A loop that runs or is traced. */
export interface Bounded {
  /** The largest number of iterations; undefined until the body has set it. */
  bound: number | undefined;
  /** Whether the loop may have a bound: a loop over rows has as many iterations as there are rows. */
  readonly may: boolean;
}

const loops: Bounded[] = [];

/**
 * Bounds the iterations of the loop around the call: the body of a `while`, `do` or `for (;;)` of a function that says
 * `"use heddle"` calls it. Where a traced tensor decides how long the loop runs, the bound is the `maxIterations` of
 * `whileLoop`, so that the loop has a gradient. A loop that takes more iterations is an error, whatever decides.
 *
 * @param count at least 1
 * @throws HeddleError `autograph` outside of such a loop; `option` unless `count` is a whole number from 1 on
 * @example while (x.gt(1)) { maxIterations(30); x = x.div(2); }
 */
export function maxIterations(count: number): void {
  checkInteger("maxIterations", "count", count, 1, 2 ** 31 - 1);
  const around = loops.at(-1);
  if (around === undefined)
    throw new HeddleError("autograph", "maxIterations: the call is in no loop that becomes part of a graph", {
      hint: 'call it in the body of a while, do or for (;;) of a function that says "use heddle"',
    });
  if (!around.may)
    throw new HeddleError(
      "autograph",
      "maxIterations: a loop over elements has as many iterations as there are elements",
    );
  around.bound = around.bound === undefined ? count : Math.min(around.bound, count);
}

/** Runs a function as the body of a loop, in which `maxIterations` may set the loop's bound. */
export function within<Result>(loop: Bounded, body: () => Result): Result {
  loops.push(loop);
  try {
    return body();
  } finally {
    loops.pop();
  }
}

/** The options of the `whileLoop` that a loop becomes after `done` iterations as JavaScript. */
export function optionsOf({ bound }: Bounded, done: number, where: string): WhileOptions {
  if (bound === undefined) return {};
  if (bound > done) return { maxIterations: bound - done, done };
  throw new HeddleError(
    "autograph",
    `maxIterations ${bound} leaves a tensor nothing to decide: ${done} iterations are done already`,
    {
      where,
    },
  );
}

/** @throws HeddleError `value` where a loop of JavaScript has run past its bound. */
export function checkBound({ bound }: Bounded, iterations: number, where: string): void {
  if (bound === undefined || iterations < bound) return;
  throw new HeddleError(
    "value",
    `this loop ran past maxIterations ${bound}: its condition still holds after so many iterations`,
    {
      where,
      hint: "give it a larger bound, or a condition that ends sooner",
    },
  );
}
