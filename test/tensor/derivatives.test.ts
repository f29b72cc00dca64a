/** Derivatives of one's own, rematerialisation, Jacobians and Hessians, as users call them. */
import {
  customGradient,
  customJvp,
  grad,
  HeddleError,
  hessian,
  jacobian,
  jit,
  jvp,
  nn,
  random,
  remat,
  round,
  scan,
  select,
  sin,
  sqrt,
  stopGradient,
  type Tensor,
  tensor,
  vmap,
  whileLoop,
  zeros,
} from "heddle";
import { describe, expect, it } from "vitest";
import { expectSame, numbersOf, randoms } from "../support/trees.ts";

const f64 = (values: number[]): Tensor => tensor(Float64Array.from(values));

/** Its gradient is held between -1 and 1. */
const clipped = customGradient(
  (x: Tensor) => x.mul(1),
  ({ cotangent }) => [cotangent.maximum(-1).minimum(1)],
);
const through = customGradient(
  (x: Tensor) => round(x),
  ({ cotangent }) => [cotangent],
);
const product = customGradient(
  function product(x: Tensor, w: Tensor) {
    return x.mul(w);
  },
  ({ inputs: [x, w], cotangent }) => [cotangent.mul(w).mul(10), cotangent.mul(x).mul(100)],
);

describe("customGradient", () => {
  it("is what grad takes, in each of its arguments", () => {
    expect(numbersOf(grad((x: Tensor) => through(x).mul(2).sum())(f64([0.4, 1.6])))).toEqual([2, 2]);
    expect(numbersOf(grad((x: Tensor) => clipped(x).mul(5).sum())(f64([1, 2])))).toEqual([1, 1]);
    const both = grad((p: { x: Tensor; w: Tensor }) => product(p.x, p.w).sum())({ x: f64([2]), w: f64([3]) });
    expect(numbersOf([both.x, both.w])).toEqual([30, 200]);
  });

  it("adds up over a batch what is shared", () => {
    const [xs, w] = [f64([1, 2, 3]), tensor(2, { dtype: "f64" })];
    const shared = grad((own: Tensor) => vmap((x: Tensor) => product(x, own))(xs).sum())(w);
    expect(numbersOf(shared)).toEqual([600]);
    expect(numbersOf(vmap(grad((x: Tensor) => product(x, w)))(xs))).toEqual([20, 20, 20]);
  });

  it("has the gradient of its gradient, and a tangent where it is linear", () => {
    const first = grad((x: Tensor) => product(x, x.mul(x)));
    // 10 x² + 200 x²; its derivative goes through the same gradients of what it is made from.
    expect(numbersOf(first(tensor(3, { dtype: "f64" })))).toEqual([210 * 9]);
    expect(numbersOf(grad(first)(tensor(3, { dtype: "f64" })))).toEqual([420 * 3]);
    expect(numbersOf(jvp(product, [f64([2]), f64([3])], [f64([1]), f64([1])]).tangent)).toEqual([230]);
    expect(() => jvp(clipped, [f64([2])], [f64([1])])).toThrow(
      /its gradient is not linear in the cotangents.*forward mode/s,
    );
  });

  it("passes over zeros, and refuses what does not fit", () => {
    const none = customGradient(
      (x: Tensor) => x.mul(x),
      () => [null],
    );
    expect(numbersOf(grad((x: Tensor) => none(x).sum())(f64([2])))).toEqual([0]);
    const wrong = customGradient(
      (x: Tensor) => x.mul(x),
      () => [f64([1, 2])],
    );
    expect(() => wrong(f64([2]))).toThrow(/cotangent of argument 0: f64\[2\] for the argument f64\[1\]/);
    const captures = grad((w: Tensor) =>
      customGradient(
        (x: Tensor) => x.mul(w),
        ({ cotangent }) => [cotangent],
      )(w).sum(),
    );
    expect(() => captures(f64([2]))).toThrow(/traced value f64\[1\] from outside/);
    const passed = grad((w: Tensor) =>
      customGradient(
        (x: Tensor, own: Tensor) => x.mul(own),
        ({ cotangent }) => [cotangent, null],
      )(w, stopGradient(w)).sum(),
    );
    expect(numbersOf(passed(f64([2])))).toEqual([1]);
  });
});

describe("customJvp", () => {
  const safeSqrt = customJvp(
    (x: Tensor) => sqrt(x),
    ({ inputs: [x], value, tangents: [dx] }) =>
      (dx as Tensor).mul(select((x as Tensor).gt(0), value.pow(-1).mul(0.5), 0)),
  );

  it("is what both modes take", () => {
    expect(numbersOf(grad((x: Tensor) => safeSqrt(x).sum())(f64([0, 4])))).toEqual([0, 0.25]);
    expect(numbersOf(jvp(safeSqrt, [f64([0, 4])], [f64([1, 1])]).tangent)).toEqual([0, 0.25]);
    expect(numbersOf(grad(grad((x: Tensor) => safeSqrt(x)))(tensor(4, { dtype: "f64" })))).toEqual([-1 / 32]);
  });

  it("has no gradient where it is not linear", () => {
    const bent = customJvp(
      (x: Tensor) => x.mul(1),
      ({ tangents: [dx] }) => (dx as Tensor).mul(dx as Tensor),
    );
    expect(() => grad((x: Tensor) => bent(x).sum())(f64([1]))).toThrow(/its tangent is not linear.*no gradient/s);
  });
});

describe("Jacobians and Hessians", () => {
  const fn = (x: Tensor): Tensor =>
    sin(
      x
        .reshape([2, 1])
        .mul(x.reshape([1, 2]))
        .sum(1)
        .mul(x),
    );
  // y_i = sin(x_i² s), s = x_0 + x_1.
  const [a, b] = [0.3, 0.7];
  const slope = (own: number, other: number): [number, number] => {
    const [s, inner] = [a + b, Math.cos(own * own * (a + b))];
    return [inner * (2 * own * s + own * own), inner * own * own * Math.sign(other)];
  };
  const [first, second] = [slope(a, b), slope(b, a)];

  it.each(["forward", "reverse"] as const)("%s", (mode) => {
    const made = jacobian(fn, { mode })(f64([a, b]));
    expect(made.shape).toEqual([2, 2]);
    expectSame(made, f64([first[0], first[1], second[1], second[0]]), 1e-12);
    const wide = jacobian((x: Tensor) => x.reshape([3, 2]).sum(1), { mode })(randoms([2, 3], 1));
    expect(wide.shape).toEqual([3, 2, 3]);
    expect(numbersOf(wide)).toEqual([1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
  });

  it("go through a loop with a condition forward", () => {
    const doubled = (x: Tensor): Tensor =>
      whileLoop(
        (y: Tensor) => y.sum().lt(8),
        (y) => y.mul(2),
        x,
      );
    expect(numbersOf(jacobian(doubled, { mode: "forward" })(f64([1, 1])))).toEqual([4, 0, 0, 4]);
  });

  it("of a scalar, twice", () => {
    const made = hessian((x: Tensor) =>
      x
        .mul(x)
        .mul(x)
        .sum()
        .add(
          x
            .slice([0], [1])
            .sum()
            .mul(x.slice([1], [2]).sum()),
        ),
    );
    expect(numbersOf(made(f64([1, 2])))).toEqual([6, 1, 1, 12]);
  });

  it("are refused of what is not float", () => {
    expect(() => jacobian((x: Tensor) => x)(tensor([1], { dtype: "i32" }))).toThrow(HeddleError);
    expect(() => jacobian((x: Tensor) => x, { mode: "sideways" as "forward" })).toThrow(/"forward" or "reverse"/);
  });
});

describe("remat", () => {
  it("draws the same numbers again", () => {
    const block = nn.sequential(
      nn.linear(4),
      nn.dropout(0.5),
      nn.activation((x: Tensor) => sin(x)),
      nn.linear(3),
    );
    const { params, state } = block.init(random.key(1), { shape: [5, 6], dtype: "f32" });
    const x = random.normal(random.key(2), [5, 6]);
    const loss = (layer: nn.Layer) => (own: typeof params) =>
      layer
        .apply({ params: own, state }, x, { train: true, key: random.key(3) })
        .y.pow(2)
        .sum();
    expectSame(grad(loss(nn.remat(block)))(params), grad(loss(block))(params), 1e-6);
  });

  it("in a loop, with keys that differ by iteration", () => {
    const noisy = (x: Tensor): Tensor => x.add(random.uniform(random.key(5), [2], { dtype: "f32" }));
    const looped = (step: typeof noisy) =>
      jit((x: Tensor) => scan((h: Tensor) => [step(h), h.mul(h)], x, undefined, { length: 3 })[1]);
    const found = numbersOf(looped(remat(noisy))(zeros([2])));
    expect(found).toEqual(numbersOf(looped(noisy)(zeros([2]))));
    expect(new Set(found).size).toBe(5);
  });

  it("takes policies by name or by value", () => {
    const chain = (x: Tensor): Tensor => sin(sin(x.mul(x)).mul(x));
    const seen: string[] = [];
    const policy = (value: { op: string }): boolean => seen.push(value.op) > 0 && value.op === "sin";
    const x = f64([0.3, 0.4]);
    const expected = grad((y: Tensor) => chain(y).sum())(x);
    expectSame(grad((y: Tensor) => remat(chain, { policy })(y).sum())(x), expected, 1e-14);
    expect(seen).toEqual(["mul", "sin", "mul"]);
    expect(() => remat(chain, { policy: "all" as "nothing" })).toThrow(/there is no policy "?all/);
  });
});
