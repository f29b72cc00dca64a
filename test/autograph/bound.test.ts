/** Loops that say how often they may run: their gradients, and what is told of one that runs past that. */
"use heddle";
import { grad, HeddleError, jit, maxIterations, type Tensor, tensor } from "heddle";
import { describe, expect, it } from "vitest";

// biome-ignore lint/suspicious/noExplicitAny: numbers and tensors alike
type Any = any;

const loops: { readonly [name: string]: (x: Any, bound: number) => Any } = {
  while: (x, bound) => {
    while (x > 1) {
      maxIterations(bound);
      x = x / 2;
    }
    return x;
  },
  do: (x, bound) => {
    do {
      maxIterations(bound);
      x = x / 2;
    } while (x > 1);
    return x;
  },
  "for, with a break by a tensor": (x, bound) => {
    for (;;) {
      maxIterations(bound);
      if (x <= 1) break;
      x = x / 2;
    }
    return x;
  },
  "while (true), with a return by a tensor": (x, bound) => {
    while (true) {
      maxIterations(bound);
      if (x <= 1) return x;
      x = x / 2;
    }
  },
  "one in another": (x, bound) => {
    let rounds = 0;
    while (rounds < 1 && x > 1) {
      maxIterations(3);
      rounds = rounds + 1;
      while (x > 1) {
        maxIterations(bound);
        x = x / 2;
      }
    }
    return x;
  },
};

/** 6, 3, 1.5, 0.75: three halvings; the loops with a jump find that out in a fourth iteration. */
const needed: { readonly [name: string]: number } = {
  "for, with a break by a tensor": 4,
  "while (true), with a return by a tensor": 4,
};
const one = (x: unknown): unknown => (typeof x === "number" ? x : (x as Tensor).itemSync());

describe.each(Object.entries(loops))("%s", (name, fn) => {
  const enough = needed[name] ?? 3;

  it("has a gradient, and its value on numbers and tensors", () => {
    const on = (x: Tensor): Tensor => fn(x, enough) as Tensor;
    expect([fn(6, enough), on(tensor(6)), jit(on)(tensor(6))].map(one)).toEqual([0.75, 0.75, 0.75]);
    expect(grad(on)(tensor(6)).itemSync()).toBe(1 / 8);
    expect(grad(jit(on))(tensor(5)).itemSync()).toBe(1 / 8);
  });

  it("is told with its line where it runs past the bound", () => {
    const on = (x: Tensor): Tensor => fn(x, enough) as Tensor;
    for (const run of [() => fn(13, enough), () => on(tensor(13)), () => jit(on)(tensor(13)).itemSync()])
      expect(run).toThrow(/(this loop|whileLoop 'loop-of-line-\d+') ran past maxIterations \d/);
    // The bound is the one that was stated, whatever JavaScript has done of it.
    const said = new RegExp(`'loop-of-line-(11|18|25|33|44)' ran past maxIterations ${enough}:`);
    expect(() => jit(on)(tensor(13)).itemSync()).toThrow(said);
  });
});

it("is refused where no loop can take it", () => {
  const said = (fn: () => unknown): string => {
    try {
      fn();
    } catch (error) {
      if (error instanceof HeddleError) return error.message;
    }
    return "nothing";
  };
  const rows = (): void => {
    for (const row of [1, 2]) maxIterations(row);
  };
  const zero = (): void => {
    for (let i = 0; i < 2; i++) maxIterations(0);
  };
  const single = (x: Any): Any => {
    do {
      maxIterations(1);
      x = x / 2;
    } while (x > 1);
    return x;
  };
  expect(said(() => maxIterations(3))).toMatch(/in no loop that becomes part of a graph/);
  expect(said(rows)).toMatch(/as many iterations as there are elements/);
  expect(said(zero)).toMatch(/count must be at least 1/);
  expect(said(() => jit(single as (x: Tensor) => Tensor)(tensor(3)))).toMatch(/leaves a tensor nothing to decide/);
});
