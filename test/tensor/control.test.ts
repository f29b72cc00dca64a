import { expectClose } from "heddle/testing";
import { describe, expect, it } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import {
  add,
  compileFunction,
  cond,
  distribute,
  grad,
  jit,
  planFunction,
  random,
  scan,
  select,
  type Tensor,
  tensor,
  valueAndGrad,
  whileLoop,
  zeros,
} from "../../src/functions/index.ts";
import { mesh, shardedOn } from "../../src/plan/index.ts";
import { costOf } from "../../src/program/index.ts";

const numbers = (x: Tensor): number[] => [...x.dataSync()];
const close = (actual: Tensor, expected: Tensor, digits = 5): void =>
  expectClose(actual, expected, { rtol: 0, atol: 10 ** -digits / 2 });

describe("random numbers in loops within loops", () => {
  const key = random.key(5);
  const draw = (): Tensor => random.uniform(key, []);
  const times = (length: number, fn: () => Tensor): Tensor =>
    scan((c: Tensor, _x: null): [Tensor, Tensor] => [c, fn()], tensor(0), null, { length })[1];
  const cases: readonly [string, () => Tensor][] = [
    ["a loop", () => times(3, draw)],
    ["a branch", () => cond(tensor(true), draw, draw)],
    [
      "a loop with a condition",
      () =>
        whileLoop(
          (x: Tensor) => x.lt(0.2),
          () => draw(),
          tensor(0),
        ),
    ],
    ["a branch in a loop", () => times(2, () => cond(tensor(true), draw, draw))],
    ["a loop in a loop", () => times(2, () => times(2, draw))],
  ];
  it.each(cases)("differ in each iteration around %s", (_name, inner) => {
    const drawn = numbers(times(4, inner));
    expect(new Set(drawn).size).toBe(drawn.length);
  });
});

describe("scan", () => {
  const step = (total: Tensor, x: Tensor): [Tensor, Tensor] => [total.add(x), total.mul(2)];

  it("runs eagerly and compiled", () => {
    for (const run of [scan<Tensor, Tensor, Tensor>, jit(scan<Tensor, Tensor, Tensor>)]) {
      const [last, all] = run(step, tensor(0), tensor([1, 2, 3]));
      expect(last.itemSync()).toBe(6);
      expect(numbers(all)).toEqual([0, 2, 6]);
    }
  });

  it("carries and slices trees, uses tensors from outside, counts", () => {
    const scale = tensor([10, 100]);
    const run = (start: { a: Tensor; n: Tensor }, xs: { u: Tensor }) =>
      scan(
        ({ a, n }, { u }, index) => [
          { a: a.mul(0.5).add(u.mul(scale)), n: n.add(index) },
          { a, list: [n] },
        ],
        start,
        xs,
        { reverse: true },
      );
    const start = { a: tensor([1, 1]), n: tensor(0, { dtype: "i32" }) };
    const xs = {
      u: tensor([
        [1, 2],
        [3, 4],
      ]),
    };
    for (const [carry, ys] of [run(start, xs), jit(run)(start, xs)]) {
      expect(numbers(carry.a)).toEqual([25.25, 400.25]);
      expect(carry.n.itemSync()).toBe(1);
      expect(numbers(ys.a)).toEqual([30.5, 400.5, 1, 1]);
      expect(numbers(ys.list[0] as Tensor)).toEqual([1, 0]);
    }
  });

  it("uses what the functions around it have made, at any depth", () => {
    const table = tensor([
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
    const run = jit((x: Tensor) => {
      const doubled = x.mul(2);
      return scan(
        (outer, row: Tensor) => {
          const shifted = outer.add(doubled);
          const [inner] = scan((s, value: Tensor) => [s.add(value.mul(doubled)).add(shifted), null], outer, row);
          return [inner, shifted];
        },
        x,
        table,
      );
    });
    let state = 0.5;
    const shifts: number[] = [];
    for (const row of [
      [1, 2],
      [3, 4],
      [5, 6],
    ]) {
      const shifted = state + 1;
      shifts.push(shifted);
      for (const value of row) state += value + shifted;
    }
    const [last, ys] = run(tensor(0.5));
    expect(last.itemSync()).toBeCloseTo(state, 4);
    expect(numbers(ys)).toEqual(shifts);
  });

  it("has the gradient of the unrolled loop, by what it takes and what it uses", () => {
    const xs = random.normal(random.key(1), [4, 2, 3]);
    const params = { w: random.normal(random.key(2), [3, 3]), h: random.normal(random.key(3), [2, 3]) };
    const cell = (h: Tensor, x: Tensor, w: Tensor): Tensor => h.matmul(w).add(x).tanh();
    const looped = valueAndGrad(({ w, h }: typeof params, inputs: Tensor) => {
      const [last, states] = scan(
        (state, x: Tensor) => {
          const next = cell(state, x, w);
          return [next, next.mul(next)];
        },
        h,
        inputs,
      );
      return last.sum().add(states.sum());
    });
    const unrolled = valueAndGrad(({ w, h }: typeof params, inputs: Tensor) => {
      let state = h;
      let total = tensor(0);
      for (let index = 0; index < 4; index++) {
        state = cell(state, inputs.slice([index, 0, 0], [index + 1, 2, 3]).reshape([2, 3]), w);
        total = total.add(state.mul(state).sum());
      }
      return state.sum().add(total);
    });
    const [one, other] = [looped(params, xs), unrolled(params, xs)];
    close(one.value, other.value, 4);
    close(one.grad.w, other.grad.w, 4);
    close(one.grad.h, other.grad.h, 4);
  });

  it("differentiates twice", () => {
    const cube = (x: Tensor): Tensor => scan((s: Tensor) => [s.mul(x), null], tensor(1), null, { length: 3 })[0];
    const second = grad((x: Tensor) => grad(cube)(x).mul(1));
    expect(second(tensor(2)).itemSync()).toBeCloseTo(12, 4);
  });

  it("runs the forward pass once when it is differentiated", () => {
    const loss = (w: Tensor, xs: Tensor): Tensor =>
      scan((h: Tensor, x: Tensor) => [h.mul(w).add(x), null], zeros([4]), xs)[0].sum();
    const { program } = planFunction(valueAndGrad(loss), [zeros([4]), zeros([6, 4])], mesh({}));
    expect(program.steps.filter((one) => one.kind === "loop")).toHaveLength(2);
  });

  it("draws other numbers in each iteration, the same on any mesh", async () => {
    const key = random.key(7);
    const run = (x: Tensor): Tensor =>
      scan(
        (h: Tensor, row: Tensor) => {
          const kept = select(random.bernoulli(key, 0.5, row.shape), row, zeros(row.shape));
          return [h.add(kept), kept];
        },
        zeros([4]),
        x,
      )[1];
    const ones = tensor(new Float32Array(24).fill(1), { shape: [6, 4] });
    const [eager, compiled] = [run(ones), jit(run)(ones)];
    expect(numbers(compiled)).toEqual(numbers(eager));
    const rows = Array.from({ length: 6 }, (_zero, row) =>
      numbers(eager)
        .slice(row * 4, row * 4 + 4)
        .join(),
    );
    expect(new Set(rows).size).toBeGreaterThan(2);
    const two = localRuntime({ axes: mesh({ data: 2 }).axes });
    const split = distribute(
      two,
      ones.dataSync(),
      { dtype: "f32", shape: [6, 4] },
      shardedOn(mesh({ data: 2 }), { data: 1 }),
    );
    expect(numbers(jit(run)(split))).toEqual(numbers(eager));
    two.close();
  });

  it("is split over the batch with one all-reduce for its gradients", () => {
    const loss = (w: Tensor, xs: Tensor): Tensor =>
      scan((h: Tensor, x: Tensor) => [h.matmul(w).add(x).tanh(), null], zeros([8, 4]), xs)[0].mean();
    const axes = mesh({ data: 4 });
    const { program } = planFunction(valueAndGrad(loss), [zeros([4, 4]), zeros([100, 8, 4])], axes, {
      layouts: (path) => (path === "1" ? shardedOn(axes, { data: 1 }) : undefined),
    });
    expect(costOf(program).collectives.map(({ name, times }) => `${name} ${times}`)).toEqual(["allReduce 1"]);
  });

  it("names the carry whose type changes, and the line", () => {
    const run = (): unknown =>
      scan((state: { h: Tensor }, x: Tensor) => [{ h: state.h.add(x).sum() }, x], { h: zeros([2]) }, zeros([3, 2]));
    expect(run).toThrow(/carry 'h' is f32\[2\] before an iteration and f32\[\] after it.*control\.test\.ts/s);
    expect(() => scan((h: Tensor) => [[h, h] as never, null], zeros([]), null, { length: 2 })).toThrow(
      /has the leaves \[\(itself\)\] before an iteration and \[0, 1\] after it/,
    );
    expect(() => scan((h: Tensor) => [h, null], zeros([]), null)).toThrow(/number of iterations is not known/);
    expect(() =>
      scan((h: Tensor, _x: { a: Tensor; b: Tensor }) => [h, null], zeros([]), { a: zeros([2]), b: zeros([3]) }),
    ).toThrow(/'b' of shape \[3\] has no 2 slices/);
  });

  it("refuses values that leave a body by other ways", () => {
    let leaked: Tensor | undefined;
    const run = jit((x: Tensor) => {
      scan(
        (h: Tensor) => {
          leaked = h.mul(2);
          return [h, null];
        },
        x,
        null,
        { length: 1 },
      );
      return (leaked as Tensor).add(1);
    });
    expect(() => run(zeros([]))).toThrow(/belongs to another trace/);
  });
});

describe("whileLoop", () => {
  const collatz = (start: Tensor): { n: Tensor; steps: Tensor } =>
    whileLoop(
      ({ n }) => n.ne(1),
      ({ n, steps }) => ({ n: select(n.rem(2).eq(0), n.div(2), n.mul(3).add(1)), steps: steps.add(1) }),
      { n: start, steps: tensor(0, { dtype: "i32" }) },
    );

  it("runs as long as its condition holds, eagerly and compiled", () => {
    for (const run of [collatz, jit(collatz)]) expect(run(tensor(27, { dtype: "i32" })).steps.itemSync()).toBe(111);
  });

  it("uses tensors from outside in its condition and its body", () => {
    const [limit, factor] = [tensor(100), tensor(3)];
    const run = (x: Tensor): Tensor =>
      whileLoop(
        (value) => value.lt(limit),
        (value) => value.mul(factor),
        x,
      );
    expect(jit(run)(tensor(1)).itemSync()).toBe(243);
    expect(run(tensor(500)).itemSync()).toBe(500);
  });
});

describe("cond", () => {
  const run = (test: Tensor, x: Tensor): { y: Tensor } =>
    cond(
      test,
      (v) => ({ y: v.mul(v) }),
      (v) => ({ y: add(v, x).neg() }),
      x,
    );

  it("takes one branch, eagerly, compiled and differentiated", () => {
    for (const fn of [run, jit(run)]) {
      expect(numbers(fn(tensor(true), tensor([2, 3])).y)).toEqual([4, 9]);
      expect(numbers(fn(tensor(false), tensor([2, 3])).y)).toEqual([-4, -6]);
    }
    const slope = grad((x: Tensor, test: Tensor) => run(test, x).y.sum());
    expect(numbers(slope(tensor([2, 3]), tensor(true)))).toEqual([4, 6]);
    expect(numbers(slope(tensor([2, 3]), tensor(false)))).toEqual([-2, -2]);
  });

  it("wants branches of one form", () => {
    expect(() =>
      cond(
        tensor(true),
        (x: Tensor) => x,
        (x: Tensor) => x.sum(),
        zeros([2]),
      ),
    ).toThrow(/result 0 is f32\[2\] in one branch and f32\[\] in the other/);
    expect(() =>
      cond(
        tensor([true, false]),
        (x: Tensor) => x,
        (x: Tensor) => x,
        zeros([2]),
      ),
    ).toThrow(/the predicate must be a bool scalar, got bool\[2\]/);
  });

  it("works in a loop over devices that hold parts", () => {
    const axes = mesh({ data: 2 });
    const two = localRuntime({ axes: axes.axes });
    const step = (x: Tensor): Tensor =>
      scan(
        (h: Tensor, _x, index) => [
          cond(
            h.sum().lt(20),
            (v) => v.mul(2),
            (v) => v.sub(index.cast("f32")),
            h,
          ),
          null,
        ],
        x,
        null,
        { length: 5 },
      )[0];
    const x = tensor([1, 2, 3, 4]);
    const fn = compileFunction(step, [x], two, { layouts: () => shardedOn(axes, { data: 0 }) });
    expect(
      numbers(fn.run(distribute(two, x.dataSync(), { dtype: "f32", shape: [4] }, shardedOn(axes, { data: 0 })))),
    ).toEqual(numbers(step(x)));
    two.close();
  });
});
