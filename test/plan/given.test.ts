/** Plans that are read back, edited, and run: by their own graphs, or by their layouts alone. */
import { describe, expect, test } from "vitest";
import { withSource } from "../../src/compile/index.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import {
  compileFunction,
  compilePlan,
  type FunctionOptions,
  planFunction,
  type Tensor,
  tensor,
} from "../../src/functions/index.ts";
import {
  mesh,
  type Plan,
  parseAnyPlan,
  parseLayouts,
  parsePlan,
  printLayouts,
  printPlan,
} from "../../src/plan/index.ts";
import { diffPlans } from "../../src/report/index.ts";
import { executors } from "../support/executors.ts";

const f32 = (...shape: number[]) => ({ shape, dtype: "f32" });
const two = mesh({ data: 2 });

interface Step {
  readonly w: Tensor;
  readonly x: Tensor;
}
const step = ({ w, x }: Step) => ({ w: w.sub(x.matmul(w).mean(0).mul(0.1)), loss: x.matmul(w).pow(2).mean() });
const example = [{ w: f32(4, 6), x: f32(8, 4) }];
const planned = (options: FunctionOptions = {}, width = 6) => {
  const { plan, graph } = planFunction(step, [{ w: f32(4, width), x: f32(8, 4) }], two, { name: "step", ...options });
  return withSource(plan, graph);
};
const text = printPlan(planned());
const edited = (from: string, to: string): string => {
  expect(text).toContain(from);
  return text.replaceAll(from, to);
};
/** Without its graphs. */
const head = (whole: string): string => whole.slice(0, whole.indexOf("\n\n") + 1);

test("layouts read back", () => {
  expect(printLayouts(parseLayouts(text))).toBe(head(text));
  expect(printLayouts(parseLayouts(head(text)))).toBe(head(text));
  expect("classes" in parseAnyPlan(text)).toBe(true);
  expect("classes" in parseAnyPlan(head(text))).toBe(false);
  // As editors leave it: other line ends, blank lines, blanks at ends, a mark at the beginning.
  const left = `\uFEFF${text.replaceAll(" R\n", " R  \n\n").replaceAll("\n", "\r\n")}`;
  expect(printPlan(parsePlan(left))).toBe(text);
  const used = { layouts: () => [{ kind: "shard", dim: 0 }] as const, uses: () => [{ kind: "replicate" }] as const };
  const kept = printPlan(planned(used));
  expect(kept).toContain("input w: f32[4,6] S(0) used R\n");
  expect(printPlan(parsePlan(kept))).toBe(kept);
});

describe.each(executors)("$name", ({ name }) => {
  const values = {
    w: tensor(Array.from({ length: 4 }, (_r, row) => [1, 2, 3, 4, 5, row])),
    x: tensor(Array(8).fill([1, 2, 3, 4])),
  };

  test.each([
    ["as it is", text],
    ["a weight split by columns", head(edited("w: f32[4,6] R", "w: f32[4,6] S(1)"))],
    ["a batch split by rows", head(edited("x: f32[8,4] R", "x: f32[8,4] S(0)"))],
  ])("%s: the numbers of the function", async (_what, given) => {
    const runtime = localRuntime({ axes: two.axes, executor: name as "native" });
    const whole = step(values);
    const { plan } = compileFunction(step, example, runtime, { name: "step", plan: parseAnyPlan(given) });
    for (const [line] of given.matchAll(/^input .*/gm)) expect(printPlan(plan)).toContain(line);
    const made = compilePlan(parsePlan(printPlan(plan)), runtime).run(values);
    expect(Array.from((await made["w"]?.data()) ?? [])).toEqual(
      Array.from(await whole.w.data(), (value) => expect.closeTo(value, 5)),
    );
    expect(await made["loss"]?.item()).toBeCloseTo(await whole.loss.item(), 3);
    expect(Object.keys(made)).toEqual(["w", "loss"]);
    runtime.close();
  });

  test("what is donated is gone, by name", async () => {
    const runtime = localRuntime({ axes: two.axes, executor: name as "native" });
    const own = { ...values, w: values.w.add(0) };
    const run = compilePlan(planned(), runtime, { donate: ["w"] });
    const { w } = run.run({ ...own, w: own.w }) as { w: Tensor };
    run.run({ ...own, w });
    await expect(async () => w.data()).rejects.toThrow(/donated/);
    runtime.close();
  });
});

const go = (given: string, at = two) => planFunction(step, example, at, { name: "step", plan: parseAnyPlan(given) });
const other = printPlan(planned({}, 5));
const runtime = localRuntime({ axes: two.axes, executor: "reference" });
test.each<[string, () => unknown, RegExp]>([
  [
    "a plan of a function with other types",
    () => go(other),
    /^plan 'step' is of another function than 'step' \(graph \w+ there, \w+ here\): input 'w' \(line 2\) is f32\[4,5\] in the plan and f32\[4,6\] here/,
  ],
  [
    "a plan of a function that computes something else",
    () =>
      planFunction(({ w, x }: Step) => ({ ...step({ w, x }), w }), example, two, { plan: parseAnyPlan(head(text)) }),
    /\(graph \w+ there, \w+ here\): the values are the same, the computation differs\n/,
  ],
  [
    "a value that is not there",
    () => go(head(edited("input x:", "input y:"))),
    /input 'y' \(line 3\) is in the plan only/,
  ],
  ["another mesh", () => go(text, mesh({ data: 4 })), /plan 'step' is for mesh data=2, the devices are data=4/],
  [
    "layouts that the graphs do not have",
    () => go(edited("input w: f32[4,6] R", "input w: f32[4,6] S(1)")),
    /input 'w' is not S\(1\) in the local graph[\s\S]*hint: leave the graphs out/,
  ],
  ["a malformed line", () => go(head(edited("input w:", "imput w:"))), /line 2: malformed value 'imput w/],
  [
    "a misspelt value",
    () => go(edited("input w:", "input W:")),
    /another function than 'step': .*'W' \(line 2\) is in the plan only; did you mean 'w'\?[\s\S]*hint: correct the lines/,
  ],
  [
    "a value twice",
    () => go(`${head(text)}input x: f32[8,4] R\n`),
    /line 6: input 'x' is given twice, first in line 3/,
  ],
  ["an odd type", () => go(edited("x: f32[8,4]", "x: f23[8,4]")), /line 3: 'f23\[8,4\]' is not a type; write it as/],
  [
    "an odd placement",
    () => go(edited("x: f32[8,4] R", "x: f32[8,4] S[0]")),
    /line 3: 'S\[0\]' is not a placement; write/,
  ],
  [
    "no such dim",
    () => go(edited("x: f32[8,4] R", "x: f32[8,4] S(9)")),
    /line 3: f32\[8,4\] cannot be S\(9\) .*no dim 9/,
  ],
  [
    "no such placement",
    () => go(edited("x: f32[8,4] R", "x: f32[8,4] O(2)")),
    /line 3: O\(2\) is no placement on axis 'data'/,
  ],
  ["odd sizes", () => go(edited("x: f32[8,4] R", "x: f32[8,4] S(0:3+4)")), /line 3: .*: dim 0 has 8 elements/],
  [
    "too few placements",
    () => go(edited("f32[8,4] R", "f32[8,4]")),
    /line 3: placements: 0 are given, mesh data=2 takes 1/,
  ],
  ["an odd mesh", () => go(edited("on data=2", "on data")), /line 1: 'data' is not an axis of a mesh/],
  ["an odd graph", () => go(edited("= dot ", "= bot ")), /line \d\d?: .*bot/],
  ["no graph to run", () => compilePlan(parsePlan(head(text)), runtime), /the plan has no graph/],
  [
    "an input that is left out",
    () => compilePlan(planned(), runtime).run({ w: tensor([1]) }),
    /'w' is f32\[4,6\], got f32\[1\]/,
  ],
  [
    "an input of another name",
    () => compilePlan(planned(), runtime).run({ v: tensor([1]) }),
    /has no input 'v', only w, x/,
  ],
  [
    "an unknown donor",
    () => compilePlan(planned(), runtime, { donate: ["v"] }),
    /'v' cannot be donated: the inputs are w, x/,
  ],
])("%s is refused", (_what, run, message) => expect(run).toThrow(message));

test("a difference has layouts, collectives and cost", () => {
  const split = planFunction(step, example, two, {
    name: "step",
    layouts: (path) => (path === "x" ? [{ kind: "shard", dim: 0 }] : undefined),
  });
  const lines = diffPlans(planned(), split.plan as Plan);
  expect(lines).toMatch(/^a: plan @step on mesh data=2\nb: plan @step on mesh data=2\n/);
  expect(lines).toMatch(/\n {2}x +f32\[8,4\] +R +S\(0\)\n {2}2 others are alike\n/);
  expect(lines).toMatch(/\n {2}allReduce on data +- +\d sending \d+ B\n/);
  expect(lines).toMatch(/\n {2}communicate +0 s +[\d.]+ us\n/);
  const same = diffPlans(planned(), planned());
  expect(same).toContain("Layouts: all 3 values are alike");
  const heads = diffPlans(parseLayouts(text), parseLayouts(head(other)));
  const elsewhere = planFunction(step, example, mesh({ data: 4 }), { name: "step" });
  const odd = { ...elsewhere.plan, source: "1" };
  expect(diffPlans(planned(), odd)).toMatch(
    /They are of different graphs, as one training on two meshes is: graph \w+, and 1\n/,
  );
  expect(heads).toMatch(/Collectives and cost: plans without graphs have none\n/);
  expect(heads).toMatch(/They are of different functions: graph \w+, and \w+\n/);
  expect(heads).toMatch(/\n {2}w +f32\[4,6\] \| f32\[4,5\] +f32\[4,6\] R +f32\[4,5\] R\n/);
});
