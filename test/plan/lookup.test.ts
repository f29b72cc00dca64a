import { describe, expect, test } from "vitest";
import { gradients } from "../../src/autodiff/index.ts";
import { passesAfterPlanning, runPasses } from "../../src/compile/index.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import { distribute, gather, jit, mul, sub, sum, type Tensor, valueAndGrad } from "../../src/functions/index.ts";
import { type Graph, type HostTensor, type Node, printGraph, traceGraph } from "../../src/ir/index.ts";
import * as ops from "../../src/ops/index.ts";
import { formatLayout, type Mesh, mesh, parseLayout, planGraph, trafficOf, verifyPlan } from "../../src/plan/index.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { executors } from "../support/executors.ts";
import { randomFrom } from "../support/tensors.ts";
import { expectAnswers, runPlan } from "./run.ts";

/** A step of gradient descent on an embedding table and the weights behind it. */
function lookupStep(rows: number, ids: number): Graph {
  const inputs = [
    { name: "table", type: { dtype: "f64" as const, shape: [rows, 3] } },
    { name: "weights", type: { dtype: "f64" as const, shape: [3, 2] } },
    { name: "ids", type: { dtype: "i32" as const, shape: [ids] } },
  ];
  return traceGraph("lookup", inputs, (table, weights, where) => {
    const found = ops.gather(table as Node, where as Node, 0);
    const loss = ops.mean(ops.tanh(ops.matmul(found, weights as Node)));
    const [byTable, byWeights] = gradients(loss, [table as Node, weights as Node]) as [Node, Node];
    const moved = (value: Node | undefined, grad: Node): Node => ops.sub(value as Node, ops.mul(grad, 0.5));
    return [loss, moved(table, byTable), moved(weights, byWeights), found];
  });
}

function values(rows: number, ids: number): HostTensor[] {
  const random = randomFrom(5);
  const floats = (...shape: number[]): HostTensor => ({
    dtype: "f64",
    shape,
    data: Float64Array.from({ length: shape.reduce((size, dim) => size * dim, 1) }, () => random() * 2 - 1),
  });
  // Some rows several times, some never.
  const where = Int32Array.from({ length: ids }, (_unused, index) => (index % 3 === 0 ? rows - 1 : (index * 5) % rows));
  return [floats(rows, 3), floats(3, 2), { dtype: "i32", shape: [ids], data: where }];
}

interface Case {
  readonly what: string;
  readonly axes: Mesh;
  readonly table: string;
  readonly ids: string;
  readonly rows?: number;
}

const line = mesh({ a: 2 });
const square = mesh({ a: 2, b: 2 });
const cases: readonly Case[] = [
  { what: "ids on all devices", axes: line, table: "S(0)", ids: "R" },
  { what: "ids on the table's axis", axes: line, table: "S(0)", ids: "S(0)", rows: 400 },
  { what: "ids on another axis", axes: square, table: "R S(0)", ids: "S(0) R" },
  { what: "the table over both axes", axes: square, table: "S(0) S(0)", ids: "R R" },
  { what: "rows that do not divide", axes: mesh({ a: 2, b: 3 }), table: "R S(0)", ids: "S(0) R", rows: 13 },
  // Large enough to be updated by the rows that are touched.
  { what: "a large table", axes: line, table: "S(0)", ids: "S(0)", rows: 40_000 },
  { what: "a large table, unequally", axes: mesh({ a: 3 }), table: "S(0)", ids: "R", rows: 40_000 },
];

describe.each(executors)("a table split by rows, $name", ({ make }) => {
  test.each(cases)("$what", async ({ axes, table, ids, rows = 12 }) => {
    const graph = lookupStep(rows, 8);
    const plan = planGraph(graph, axes, {
      inputs: [parseLayout(table), undefined, parseLayout(ids)],
      outputs: [undefined, parseLayout(table), undefined, undefined],
      finish: (local) => runPasses(local, passesAfterPlanning),
    });
    verifyPlan(plan);
    const given = values(rows, 8);
    const expected = ops.evaluateGraph(graph, given);
    const results = await runPlan(plan, given, make);
    expectAnswers(results, expected);
    expect(formatLayout(plan.outputs[1]?.layout ?? [])).toBe(formatLayout(plan.inputs[0]?.layout ?? []));
    // Devices look up and add up rows of their own, and no table travels whole.
    const text = printGraph(plan.local);
    expect(text).toMatch(/ gatherPart /);
    expect(text).toMatch(rows < 40_000 ? / scatterAddPart / : / scatter .*"replace"/);
    expect(text).not.toMatch(new RegExp(`f64\\[${rows},3\\]`));
    expect(trafficOf(plan).map(({ name }) => name)).not.toContain("exchange");
  });

  test("a large table on every device, ids split: rows travel, not the table", async () => {
    const rows = 40_000;
    const graph = lookupStep(rows, 8);
    const plan = planGraph(graph, line, { inputs: [undefined, undefined, parseLayout("S(0)")] });
    const given = values(rows, 8);
    expectAnswers(await runPlan(plan, given, make), ops.evaluateGraph(graph, given));
    expect(formatLayout(plan.outputs[1]?.layout ?? [])).toBe("R");
    const sent = trafficOf(plan).reduce((total, one) => total + one.sent, 0);
    // Eight ids and as many rows of three f64, besides the weights' gradient and the loss.
    expect(sent).toBeLessThan(8 * (4 + 3 * 8) + 100);
  });

  test("an id outside the table is an error that names it, and the table stays as it was", async () => {
    const name = make === executors[0]?.make ? "reference" : "native";
    const runtime = localRuntime({ axes: square.axes, executor: name, threads: 1 });
    const [table, weights, ids] = values(12, 8) as [HostTensor, HostTensor, HostTensor];
    const loss = (rows: Tensor, factor: Tensor, where: Tensor): Tensor => sum(mul(gather(rows, where), factor));
    const step = jit(
      (rows: Tensor, factor: Tensor, where: Tensor) => {
        const { value, grad } = valueAndGrad(loss)(rows, factor, where);
        return { value, rows: sub(rows, mul(grad, 0.5)) };
      },
      { donate: [0] },
    );
    const put = (value: HostTensor, layout: string): Tensor =>
      distribute(runtime, value.data, value, parseLayout(layout));
    const rows = put(table, "R S(0)");
    const factor = put({ dtype: "f64", shape: [3], data: weights.data.slice(0, 3) }, "R R");
    // Only the devices with the second half of the ids see the wrong one.
    const wrong = { ...ids, data: Int32Array.from(ids.data, (id, index) => (index === 6 ? 12 : id)) };
    await expect(
      (async () => (await step(rows, factor, put(wrong, "S(0) R")).rows.data()) as unknown)(),
    ).rejects.toThrow(/index 12 at position \d+ is outside \[-12, 12\)/);
    expect([...(await rows.data())]).toEqual([...table.data]);
    runtime.close();
  });

  test("a step that goes well takes its donor's memory", async () => {
    const name = make === executors[0]?.make ? "reference" : "native";
    const runtime = localRuntime({ axes: line.axes, executor: name, threads: 1 });
    const step = jit((rows: Tensor, where: Tensor) => sub(rows, gather(rows, where)), { donate: [0] });
    const rows = distribute(runtime, Float64Array.of(1, 2, 4, 8), { dtype: "f64", shape: [4] }, parseLayout("S(0)"));
    const where = distribute(runtime, Int32Array.of(3, 3, 0, 1), { dtype: "i32", shape: [4] }, parseLayout("R"));
    expect([...(await step(rows, where).data())]).toEqual([1 - 8, 2 - 8, 4 - 1, 8 - 2]);
    await expect((async () => rows.data())()).rejects.toThrow(HeddleError);
    runtime.close();
  });
});
