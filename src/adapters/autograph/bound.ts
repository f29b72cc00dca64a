/**
 * @module A bound on the iterations of a plain loop, said in its body. What `while` compiles to needs one for a gradient
 * (`whileLoop`'s option of the same name); a loop that runs as JavaScript's own counts, and keeps to it too.
 */
import { checkInteger, HeddleError } from "../../extend/browser.ts";
import type { WhileOptions } from "../../functions/index.ts";

/** A loop that runs or is traced. */
export interface Bounded {
  /** The most iterations, once its body has said so. */
  bound: number | undefined;
  /** Whether it may have one: a loop over rows has as many iterations as there are rows. */
  readonly may: boolean;
}

const loops: Bounded[] = [];

/**
 * The most iterations that the loop around may take: called in the body of a `while`, `do` or `for (;;)` of a function that
 * says `"use heddle"`. Where a traced tensor decides, it is the `maxIterations` of `whileLoop`, so that the loop has a gradient; a
 * loop that takes more is an error, there and elsewhere.
 *
 * @param count at least 1
 * @throws HeddleError `autograph` where no such loop is around it; `option` for what is no count
 * @example while (x.gt(1)) { maxIterations(30); x = x.div(2); }
 */
export function maxIterations(count: number): void {
  checkInteger("maxIterations", "count", count, 1, 2 ** 31 - 1);
  const around = loops.at(-1);
  if (around === undefined)
    throw new HeddleError("autograph", "maxIterations: no loop around it is turned", {
      hint: 'call it in the body of a while, do or for (;;) of a function that says "use heddle"',
    });
  if (!around.may)
    throw new HeddleError(
      "autograph",
      "maxIterations: a loop over elements has as many iterations as there are elements",
    );
  around.bound = around.bound === undefined ? count : Math.min(around.bound, count);
}

/** Runs something as the body of a loop, which may say its bound. */
export function within<Result>(loop: Bounded, body: () => Result): Result {
  loops.push(loop);
  try {
    return body();
  } finally {
    loops.pop();
  }
}

/** The options of the `whileLoop` that a loop becomes after it has done some iterations as JavaScript's. */
export function optionsOf({ bound }: Bounded, done: number, where: string): WhileOptions {
  if (bound === undefined) return {};
  if (bound > done) return { maxIterations: bound - done, done };
  throw new HeddleError(
    "autograph",
    `maxIterations ${bound} leaves a tensor nothing to decide: so many have been done`,
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
