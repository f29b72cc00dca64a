/** Values of a function are named by its arguments, or by the fields of its only one; functions themselves need no name. */
import { describe, expect, test } from "vitest";
import { type FunctionOptions, jit, planFunction, type Tensor, tensor } from "../../src/functions/index.ts";
import { parseGraph, printGraph } from "../../src/ir/index.ts";
import { mesh, parsePlan, printPlan, shard } from "../../src/plan/index.ts";
import { parseProgram, printProgram } from "../../src/program/index.ts";

const f32 = (...shape: number[]) => ({ shape, dtype: "f32" });
const split = (path: string) => (path === "batch.x" ? [shard(0)] : undefined);

interface Step {
  readonly params: { readonly w: Tensor };
  readonly batch: { readonly x: Tensor };
}
const step = ({ params, batch }: Step) => ({ params: { w: params.w.sub(batch.x.mean(0)) } });
const steps: readonly (readonly [string, (...inputs: never[]) => unknown, unknown[], FunctionOptions])[] = [
  ["the fields of a record", step, [{ params: { w: f32(3) }, batch: { x: f32(4, 3) } }], {}],
  [
    "the names of arguments",
    (params: Step["params"], batch: Step["batch"]) => step({ params, batch }),
    [{ w: f32(3) }, { x: f32(4, 3) }],
    { argumentNames: ["params", "batch"] },
  ],
];

test.each(steps)("layouts and donation go by %s", (_what, fn, example, options) => {
  const { plan, program } = planFunction(fn, example, mesh({ data: 2 }), {
    ...options,
    layouts: split,
    donate: ["params"],
  });
  expect(printPlan(plan).split("\n").slice(1, 4)).toEqual([
    "input params.w: f32[3] R",
    "input batch.x: f32[4,3] S(0)",
    "output params.w: f32[3] R",
  ]);
  expect(program.donated).toEqual([0]);
});

test("messages have them, too", () => {
  const x = tensor([1, 2]);
  const both = jit(({ state, x: other }: { state: Tensor; x: Tensor }) => state.add(other), { donate: ["state"] });
  expect(() => both({ state: x, x })).toThrow("argument 'state' is donated, and argument 'x' is the same tensor");
});

describe.each(["", "a step", 'of "two" (2)'])("a function called '%s'", (name) => {
  test("reads back as graph, plan and program", () => {
    const twice = (x: Tensor) => x.add(x.sum());
    const { graph, plan, program } = planFunction(twice, [f32(4)], mesh({ data: 2 }), {
      name,
      layouts: () => [shard(0)],
    });
    for (const [print, parse, value] of [
      [printGraph, parseGraph, graph],
      [printPlan, parsePlan, plan],
      [printProgram, parseProgram, program],
    ] as [(value: unknown) => string, (text: string) => { name: string }, { name: string }][]) {
      expect(print(parse(print(value)))).toBe(print(value));
      expect(parse(print(value)).name).toBe(name);
    }
  });
});
