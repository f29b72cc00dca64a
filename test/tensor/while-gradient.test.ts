/** Gradients of loops with a condition and a bound: against closed forms, differences, and loops written out. */

import { expectClose } from "heddle/testing";
import { describe, expect, it } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import {
  and,
  compileFunction,
  cond,
  distribute,
  grad,
  jit,
  jvp,
  planFunction,
  scan,
  select,
  stablehlo,
  type Tensor,
  take,
  tensor,
  valueAndGrad,
  vmap,
  whileLoop,
  zeros,
} from "../../src/functions/index.ts";
import { mesh, shardedOn } from "../../src/plan/index.ts";

const f64 = (value: number | number[]): Tensor => tensor(value, { dtype: "f64" });
const numbers = (x: Tensor): number[] => [...x.dataSync()];
const close = (x: Tensor, wanted: readonly number[], digits = 9): void =>
  expectClose(x, Float64Array.from(wanted), { rtol: 0, atol: 10 ** -digits / 2 });

/** Newton's square root, from the number itself. */
const root = (a: Tensor): Tensor =>
  whileLoop(
    (guess: Tensor) => guess.mul(guess).sub(a).abs().gt(1e-12),
    (guess) => guess.add(a.div(guess)).mul(0.5),
    a,
    { maxIterations: 30 },
  );
/** Twice as much until it is more than 100: 2ⁿ x. */
const doubled = (x: Tensor, maxIterations = 20): Tensor =>
  whileLoop(
    (y: Tensor) => y.lt(100),
    (y) => y.mul(2),
    x,
    { maxIterations },
  );
/** x to the 2ⁿ-th, by squaring until it is more than 1000. */
const squared = (x: Tensor): Tensor =>
  whileLoop(
    (y: Tensor) => y.lt(1000),
    (y) => y.mul(y),
    x,
    { maxIterations: 6 },
  );
const exponent = (x: number): number => {
  let [y, power] = [x, 1];
  for (; y < 1000; y *= y) power *= 2;
  return power;
};

describe("the gradient of a loop with a bound", () => {
  interface Case {
    readonly fn: (x: Tensor) => Tensor;
    readonly at: readonly number[];
    readonly first: (x: number) => number;
    readonly second: (x: number) => number;
  }
  const cases: { readonly [name: string]: Case } = {
    "Newton's square root": {
      fn: root,
      at: [2, 9, 0.3],
      first: (x) => 0.5 / Math.sqrt(x),
      second: (x) => -0.25 * x ** -1.5,
    },
    doubling: { fn: doubled, at: [3, 60, 99], first: (x) => 2 ** Math.ceil(Math.log2(100 / x)), second: () => 0 },
    "no iterations": { fn: doubled, at: [100, 400], first: () => 1, second: () => 0 },
    "exactly as many as the bound": { fn: (x) => doubled(x, 6), at: [2], first: () => 64, second: () => 0 },
    squaring: {
      fn: squared,
      at: [1.5, 3, 40],
      first: (x) => exponent(x) * x ** (exponent(x) - 1),
      second: (x) => exponent(x) * (exponent(x) - 1) * x ** (exponent(x) - 2),
    },
  };
  const relative = (x: Tensor, wanted: readonly number[], digits: number): void =>
    close(x.div(f64(wanted.map((one) => (one === 0 ? 1 : one)))), wanted.map(Math.sign).map(Math.abs), digits);

  it.each(Object.entries(cases))("%s: first and second, alone and in a batch", (_name, { fn, at, first, second }) => {
    const batch = f64([...at]);
    const slope = grad(fn);
    const curve = grad((x: Tensor) => grad(fn)(x));
    const forward = (x: Tensor): Tensor => jvp(grad(fn), [x], [f64(1)]).tangent;
    const [one, two] = [at.map(first), at.map(second)];
    at.forEach((x, place) => {
      relative(slope(f64(x)).reshape([1]), [one[place] as number], 9);
      relative(jit(slope)(f64(x)).reshape([1]), [one[place] as number], 9);
    });
    relative(vmap(slope)(batch), one, 9);
    relative(grad((xs: Tensor) => vmap(fn)(xs).sum())(batch), one, 9);
    // Newton's iteration itself ends where it moves little, and so do its derivatives.
    relative(vmap(curve)(batch), two, 5);
    relative(jit(vmap(forward))(batch), two, 5);
  });

  it("is by what the loop captures and carries, of any dtype and form", () => {
    const loss = ({ w, b }: { w: Tensor; b: Tensor }, x: Tensor): Tensor => {
      const { h, n } = whileLoop(
        ({ h, going }) => and(going, h.abs().max().lt(50)),
        ({ h, n }, index) => ({
          h: w.matmul(h).add(b.mul(index.cast("f64"))),
          n: n.add(1),
          going: n.lt(4),
        }),
        { h: x, n: tensor(0, { dtype: "i32" }), going: tensor(true) },
        { maxIterations: 9 },
      );
      return h.mul(h).sum().add(n.cast("f64"));
    };
    const unrolled = ({ w, b }: { w: Tensor; b: Tensor }, x: Tensor): Tensor => {
      let h = x;
      for (let index = 0; index < 5; index++) h = w.matmul(h).add(b.mul(index));
      return h.mul(h).sum().add(5);
    };
    const params = { w: f64([0.5, -0.25, 0.75, 1]).reshape([2, 2]), b: f64([0.1, 0.2]) };
    const x = f64([1, -2]);
    for (const run of [valueAndGrad(loss), jit(valueAndGrad(loss))]) {
      const [found, wanted] = [run(params, x), valueAndGrad(unrolled)(params, x)];
      close(found.value, numbers(wanted.value));
      close(found.grad.w, numbers(wanted.grad.w));
      close(found.grad.b, numbers(wanted.grad.b));
    }
  });

  it("takes nothing from iterations that did not take place", () => {
    // At the zeros of an unused stack the body's derivative is infinite.
    const fn = (x: Tensor): Tensor =>
      whileLoop(
        (y: Tensor) => y.gt(1.5),
        (y) => y.sqrt(),
        x,
        { maxIterations: 10 },
      );
    close(grad(fn)(f64(16)), [16 ** (1 / 8 - 1) / 8]);
    close(grad((x: Tensor) => grad(fn)(x))(f64(16)), [(1 / 8) * (1 / 8 - 1) * 16 ** (1 / 8 - 2)]);
  });

  it("works in loops within loops", () => {
    const fn = (x: Tensor): Tensor =>
      whileLoop(
        (y: Tensor) => y.lt(500),
        (y) => doubled(y).mul(x),
        x,
        { maxIterations: 5 },
      );
    // 3 → 192 · 3 = 576.
    close(grad(fn)(f64(3)), [2 * 64 * 3]);
  });

  it("of a batch with one condition for all is of one loop", () => {
    // x, x², x⁴, x⁸ after as many iterations as n says; the count is no part of the batch.
    const fn = (x: Tensor, n: Tensor): Tensor =>
      whileLoop(
        (_y: Tensor, index) => index.lt(n),
        (y) => y.mul(y),
        x,
        { maxIterations: 4 },
      );
    const [xs, at, n] = [f64([0.5, -1.5, 2]), [0.5, -1.5, 2], tensor(3, { dtype: "i32" })];
    const over = (one: (x: Tensor) => Tensor) => vmap(one);
    const slope = grad(fn);
    const inner = (x: Tensor, n: Tensor): Tensor => over((one) => slope(one, n))(x);
    const outer = grad((x: Tensor, n: Tensor) => over((one) => fn(one, n))(x).sum());
    const curve = (x: Tensor, n: Tensor): Tensor => over(grad((one: Tensor) => slope(one, n)))(x);
    const forward = (x: Tensor, n: Tensor): Tensor =>
      jvp((one: Tensor) => outer(one, n), [x], [f64([1, 1, 1])]).tangent;
    const powers = (by: number, power: number): number[] => at.map((x) => by * x ** power);
    for (const run of [inner, outer]) close(jit(run)(xs, n), powers(8, 7));
    for (const run of [curve, forward]) close(jit(run)(xs, n), powers(56, 6));
    const { program } = planFunction(inner, [xs, n], mesh({}));
    expect(
      program.steps.filter((step) => step.kind === "loop").map((step) => step.kind === "loop" && step.length),
    ).toEqual([undefined, 4]);
  });

  it("runs the loop once, and keeps nothing where no gradient is asked for", () => {
    const loops = (fn: (x: Tensor) => unknown) =>
      planFunction(fn, [f64(1)], mesh({})).program.steps.filter((step) => step.kind === "loop");
    expect(loops(valueAndGrad(doubled))).toHaveLength(2);
    expect(loops((x) => doubled(x)).map((step) => step.kind === "loop" && step.carries)).toEqual([1]);
  });
});

describe("the bound", () => {
  it("is an error of the run where it does not hold, with or without a gradient, and hurts nobody else", () => {
    const run = jit((x: Tensor) => doubled(x, 6));
    for (const fn of [run, (x: Tensor) => doubled(x, 6), jit(grad((x: Tensor) => doubled(x, 6)))])
      expect(() => fn(f64(1)).itemSync()).toThrow(/whileLoop 'body' ran past maxIterations 6: .*larger maxIterations/);
    const state = f64(2);
    expect(run(state).itemSync()).toBe(128);
    expect(() => run(f64(1)).itemSync()).toThrow(/ran past/);
    expect(run(state).itemSync()).toBe(128);
  });

  it("is told of the loop that has it, within others too, and of no other index", () => {
    const within = (x: Tensor): Tensor =>
      scan(
        (carry: Tensor, at: Tensor): [Tensor, Tensor] => {
          const halve = (y: Tensor): Tensor => y.div(2);
          const next = cond(
            at.gt(2),
            (y: Tensor) => whileLoop((z: Tensor) => z.gt(1), halve, y, { maxIterations: 4 }),
            (y: Tensor) => y,
            carry,
          );
          return [next, next];
        },
        x,
        tensor([1, 2, 3]),
      )[0];
    expect(within(f64(16)).itemSync()).toBe(1);
    expect(() => within(f64(17)).itemSync()).toThrow(/whileLoop 'halve' ran past maxIterations 4:/);
    // Row 4 of a user's own table, asked for by the condition after the last iteration.
    const table = tensor([1, 1, 1, 1]);
    const test = (y: Tensor, index: Tensor): Tensor => and(take(table, index).gt(0), y.gt(0));
    const own = (): Tensor => whileLoop(test, (y: Tensor) => y.add(1), tensor(1), { maxIterations: 4 });
    expect(() => own().itemSync()).toThrow(/index 4 at position 0 is outside \[-4, 4\)/);
  });

  it("must be there for a gradient, and a whole number", () => {
    const unbounded = (x: Tensor): Tensor =>
      whileLoop(
        (y: Tensor) => y.lt(10),
        (y) => y.mul(2),
        x,
      );
    expect(() => grad(unbounded)(tensor(1))).toThrow(/has no gradient.*maxIterations/s);
    for (const bad of [0, -1, 2.5, "3" as never, Number.NaN])
      expect(() => doubled(tensor(1), bad)).toThrow(/maxIterations must be a whole number from 1 on/);
  });
});

describe("on a mesh", () => {
  const axes = mesh({ data: 2 });
  const loss = (x: Tensor): Tensor =>
    whileLoop(
      (y: Tensor) => y.sum().lt(20),
      (y, index) => select(y.gt(2), y.mul(y), y.mul(3)).add(index.cast("f64")),
      x,
      { maxIterations: 8 },
    )
      .mul(f64([1, 2, 3, 4]))
      .sum();

  it("gives what one device gives", () => {
    const x = f64([0.1, 0.2, 0.3, 0.4]);
    const two = localRuntime({ axes: axes.axes });
    const layout = shardedOn(axes, { data: 0 });
    const fn = compileFunction(grad(loss), [x], two, { layouts: () => layout });
    const split = distribute(two, x.dataSync(), { dtype: "f64", shape: [4] }, layout);
    close(fn.run(split), numbers(grad(loss)(x)));
    two.close();
  });

  it("is two loops of StableHLO", () => {
    const text = stablehlo(grad(loss), [zeros([4], { dtype: "f64" })]);
    expect(text.match(/stablehlo\.while/g)).toHaveLength(2);
    expect(text).toMatch(/stablehlo\.dynamic_update_slice.*tensor<8x4xf64>/);
  });
});
