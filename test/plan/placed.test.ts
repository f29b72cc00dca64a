/** withLayout: a plan splits the value as asked, the answer is that of one device, and so is the gradient. */
import { expectClose } from "heddle/testing";
import { describe, expect, test } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import { compileFunction, planFunction } from "../../src/functions/index.ts";
import { grad, jit, type Tensor, tensor, vmap, withLayout } from "../../src/index.ts";
import { collectivesOf, formatLayout, type Layout, mesh, shardedOn } from "../../src/plan/index.ts";
import { executors } from "../support/executors.ts";

const x = tensor([
  [1, 2, 3, 4],
  [5, 6, 7, 8],
]);
const w = tensor([
  [1, -1],
  [2, 0],
  [0, 3],
  [1, 1],
]);

/** A product whose result is placed, and what follows. */
const placed =
  (dims: Parameters<typeof withLayout>[1]) =>
  (a: Tensor, b: Tensor): Tensor =>
    withLayout(a.matmul(b), dims).tanh().mul(2);

const rows: readonly [string, Record<string, number>, Parameters<typeof withLayout>[1], string][] = [
  ["rows of the result", { data: 2 }, { data: 0 }, "S(0)"],
  ["columns, counted from the end", { data: 2 }, { data: -1 }, "S(1)"],
  ["whole", { data: 2 }, { data: null }, "R"],
  ["two axes", { data: 2, model: 2 }, { data: 0, model: 1 }, "S(0) S(1)"],
  ["an axis that the mesh lacks", { data: 2 }, { model: 1 }, "R"],
];

describe.each(executors)("withLayout by $name", ({ name }) => {
  test.each(rows)("%s", (_what, sizes, dims, layout) => {
    const axes = mesh(sizes);
    const runtime = localRuntime({ axes: axes.axes, executor: name });
    const fn = placed(dims);
    const planned = compileFunction(fn, [x, w], runtime);
    expect(formatLayout(planned.plan.outputs[0]?.layout as Layout)).toBe(layout);
    expectClose(planned.run(x, w), fn(x, w));
    const gradients = grad(([a, b]: [Tensor, Tensor]) => fn(a, b).square().sum());
    const split = compileFunction(gradients, [[x, w]], runtime).run([x, w]);
    gradients([x, w]).forEach((wanted, index) => {
      expectClose(split[index] as Tensor, wanted);
    });
    runtime.close();
  });
});

const layoutOf = (fn: (a: Tensor) => Tensor, sizes: Record<string, number>): string =>
  formatLayout(planFunction(fn, [x], mesh(sizes)).plan.outputs[0]?.layout as Layout);

test("the gradient is split as the value is", () => {
  const cotangent = (a: Tensor): Tensor => grad((v: Tensor) => withLayout(v, { data: 1 }).square().sum())(a);
  expect(layoutOf(cotangent, { data: 2 })).toBe("S(1)");
});

test("under vmap the dim is that of the value without the batch", () => {
  const rowsOf = vmap((row: Tensor) => withLayout(row.mul(2), { data: 0 }));
  expect(layoutOf(rowsOf, { data: 2 })).toBe("S(1)");
  expect(layoutOf((a) => vmap((row: Tensor) => withLayout(row.mul(2), { data: null }))(a), { data: 2 })).toBe("R");
});

test("a sum over devices is formed where the value is asked for whole", () => {
  const traffic = planFunction((a: Tensor) => withLayout(a.sum(0), { data: null }).mul(3), [x], mesh({ data: 2 }), {
    layouts: () => shardedOn(mesh({ data: 2 }), { data: 0 }),
  });
  expect(collectivesOf(traffic.plan).map(({ op }) => op.name)).toEqual(["allReduce"]);
});

test("outside of compiled functions it is the value, and a function on one device computes the same", () => {
  expect(withLayout(x, { data: 0 })).toBe(x);
  expect(jit((a: Tensor) => withLayout(a, { data: 0 }).add(1))(x).arraySync()).toEqual(x.add(1).arraySync());
});

test.each<[() => unknown, RegExp]>([
  [
    () => withLayout(x, { data: 2 }),
    /withLayout: axis 'data' takes a dim of the value of 2 dims, or null, got 2\n[\s\S]*hint/,
  ],
  [() => withLayout(x, { data: "0" } as never), /takes a dim of the value of 2 dims, or null, got "0"/],
  [() => withLayout(x, 0 as never), /withLayout: /],
  [() => withLayout(3 as never, { data: 0 }), /withLayout: /],
  [() => layoutOf((a) => withLayout(a, { data: 0 }), { data: 3 }), /f32\[2,4\] does not split over data=3 as asked/],
])("mistake %#", (call, message) => expect(call).toThrow(message));
