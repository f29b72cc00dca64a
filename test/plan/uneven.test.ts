import { describe, expect, test } from "vitest";
import { type Graph, type Node, sizeOf, traceGraph } from "../../src/ir/index.ts";
import * as ops from "../../src/ops/index.ts";
import {
  formatMesh,
  type Layout,
  type Mesh,
  mesh,
  parseLayout,
  parseMesh,
  parsePlan,
  planGraph,
  printPlan,
  shardedOn,
  trafficOf,
  verifyPlan,
} from "../../src/plan/index.ts";
import { type Program, verifySameCollectives } from "../../src/program/index.ts";
import { executors } from "../support/executors.ts";
import { mlpForward, mlpStep, samples } from "./networks.ts";
import { devicePrograms, expectAnswers, runPlan } from "./run.ts";

const three = mesh({ a: 3 });

/** Plans, verifies, reads back, runs on virtual devices and compares with one device. */
async function check(
  graph: Graph,
  axes: Mesh,
  inputs: readonly (Layout | undefined)[],
  outputs?: readonly (Layout | undefined)[],
  make?: Parameters<typeof runPlan>[2],
) {
  const plan = planGraph(graph, axes, { inputs, ...(outputs === undefined ? {} : { outputs }) });
  verifyPlan(plan);
  expect(printPlan(parsePlan(printPlan(plan)))).toBe(printPlan(plan));
  const values = samples(graph);
  const expected = ops.evaluateGraph(graph, values);
  const results = await runPlan(plan, values, make);
  expectAnswers(results, expected);
  return plan;
}

const f64 = (...shape: number[]) => ({ dtype: "f64" as const, shape });
const same = traceGraph("same", [{ name: "x", type: f64(10, 9) }], (x) => [x as Node]);
const summed = traceGraph("summed", [{ name: "x", type: f64(3, 10, 9) }], (x) => [ops.sum(x as Node, 0)]);

describe.each(executors)("uneven parts, $name", ({ make }) => {
  const layouts = ["R", "S(0)", "S(1)", "S(0:2+0+8)", "S(0:4+4+2)", "S(1:5+1+3)"];
  test.each(layouts)("moved from %s to every other layout", async (from) => {
    for (const to of layouts) await check(same, three, [parseLayout(from)], [parseLayout(to)], make);
  });

  test("contributions are summed into uneven parts", async () => {
    for (const to of layouts) await check(summed, three, [parseLayout("S(0)")], [parseLayout(to)], make);
  });

  test("elementwise, reductions, and products with an uneven contracted dim", async () => {
    const inputs = [
      { name: "x", type: f64(10, 7) },
      { name: "y", type: f64(7, 5) },
    ];
    const graph = traceGraph("several", inputs, (x, y) => {
      const [a, b] = [x as Node, y as Node];
      const z = ops.matmul(ops.tanh(a), b);
      return [z, ops.mean(z), ops.max(z), ops.sum(a, 0), ops.mean(ops.mul(a, a), 1), ops.reshape(a, [70])];
    });
    for (const layout of ["S(0)", "S(1)", "S(0:1+2+7)", "S(1:3+0+4)"])
      await check(graph, three, [parseLayout(layout), undefined], undefined, make);
    await check(graph, three, [undefined, parseLayout("S(0)")], undefined, make);
  });

  test.each([
    ["10 rows on 3 devices", 10, three],
    ["97 rows on 2", 97, mesh({ a: 2 })],
    ["shares of 2 to 1", 9, mesh({ a: 2 }, { shares: { a: [2, 1] } })],
    ["beside a second axis", 10, mesh({ a: 3, b: 2 })],
  ])("a data-parallel step: %s", async (_what, rows, axes) => {
    const batch = shardedOn(axes, { a: 0 });
    const plan = await check(mlpStep(rows), axes, [batch, batch], undefined, make);
    // Nothing but the loss, the count and the gradients is communicated.
    expect(trafficOf(plan).every(({ name }) => name === "allReduce")).toBe(true);
  });

  test("tensor parallelism over a hidden layer that does not divide", async () => {
    const layouts = ["R", "S(1:3+3+2)", "S(0:3+3+2)"].map(parseLayout);
    const plan = await check(mlpForward(8), three, layouts, undefined, make);
    expect(trafficOf(plan).map(({ name }) => name)).toEqual(["allReduce"]);
  });
});

test("devices with equal parts are one class", () => {
  const plan = planGraph(same, three, { inputs: [parseLayout("S(0)")] });
  expect(plan.classes.map(({ devices }) => devices)).toEqual([[0], [1, 2]]);
  expect(plan.inputs[0]?.layout).toEqual(parseLayout("S(0:4+3+3)"));
  expect(planGraph(same, three, { inputs: [parseLayout("S(1)")] }).classes).toHaveLength(1);
});

test("the bytes of an uneven gather are what each device lacks", () => {
  const plan = planGraph(same, three, { inputs: [parseLayout("S(0)")], outputs: [parseLayout("R")] });
  const row = 9 * 8;
  expect([0, 1, 2].map((device) => trafficOf(plan, device)[0]?.sent)).toEqual([2 * 4 * row, 2 * 3 * row, 2 * 3 * row]);
  expect(sizeOf([10, 9]) * 8 * 2).toBe(
    [0, 1, 2].reduce((sum, device) => sum + (trafficOf(plan, device)[0]?.sent as number), 0),
  );
});

test.each([
  ["S(0:4+3)", /axis 'a' has 3 devices/],
  ["S(0:4+3+4)", /dim 0 has 10 elements/],
  ["S(2:1+1+1)", /there is no dim 2/],
])("%s is refused", (layout, message) => {
  expect(() => planGraph(same, three, { inputs: [parseLayout(layout)] })).toThrow(message);
});

test("the text of a mesh with shares is read back; equal shares are none", () => {
  const shares = mesh({ data: 2, model: 3 }, { shares: { data: [2, 1] } });
  expect(formatMesh(shares)).toBe("data=2:1,model=3");
  expect(parseMesh(formatMesh(shares))).toEqual(shares);
  expect(mesh({ data: 2 }, { shares: { data: [3, 3] } })).toEqual(mesh({ data: 2 }));
  expect(() => mesh({ data: 2 }, { shares: { data: [2, 1, 1] } })).toThrow(/shares 2:1:1/);
});

test("programs that would meet in different collectives are refused", () => {
  const plan = planGraph(summed, three, { inputs: [parseLayout("S(0)")], outputs: [parseLayout("S(0)")] });
  const [one, other] = devicePrograms(plan) as [Program, Program];
  verifySameCollectives([one, other]);
  const steps = other.steps.filter(({ kind }) => kind !== "collective");
  expect(() => verifySameCollectives([one, { ...other, steps }])).toThrow(
    /runs exchange 'exchange 0' on a of 1, another no/,
  );
});
