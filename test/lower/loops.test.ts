import { describe, expect, test } from "vitest";
import { runPasses } from "../../src/compile/index.ts";
import { type Graph, type HostTensor, inputSpecs, type Node, traceGraph } from "../../src/ir/index.ts";
import { checkLowered, lowerProgram, printLowered } from "../../src/lower/index.ts";
import * as ops from "../../src/ops/index.ts";
import { mesh, planGraph, shardedOn } from "../../src/plan/index.ts";
import { splitGraph, verifyProgram } from "../../src/program/index.ts";
import { controlTable } from "../ops/rows/control.ts";
import { powerIteration, recurrentStates, recurrentStep } from "../plan/loops.ts";
import { rowGraph, rowInputs } from "../support/row.ts";
import { difference, makeTensor } from "../support/tensors.ts";
import { simulate, simulateMesh } from "./simulate.ts";

const samples = (graph: Graph): HostTensor[] =>
  inputSpecs(graph).map(({ type }, index) => {
    const whole = type.dtype === "u32";
    return makeTensor({ ...type, values: { low: whole ? 0 : -1, high: whole ? 2 ** 31 : 1, seed: 50 + index } });
  });

function compare(
  graph: Graph,
  inputs: readonly HostTensor[],
  tolerance: number,
  donated: readonly (number | undefined)[] = [],
): void {
  const program = splitGraph(graph, [], { donated });
  verifyProgram(program);
  const lowered = lowerProgram(program, { slots: 2 });
  checkLowered(lowered);
  const results = simulate(lowered, inputs);
  ops.evaluateGraph(graph, inputs).forEach((expected, index) => {
    expect(
      difference((results[index] as HostTensor).data, expected.data, tolerance),
      `output ${index}`,
    ).toBeUndefined();
  });
}

const graphs: readonly (readonly [string, Graph, readonly (number | undefined)[]])[] = [
  ["a recurrent step", recurrentStep(), [undefined, 3, 4, 5]],
  ["recurrent states", recurrentStates(), []],
  ["power iteration", powerIteration(), [1]],
  ...controlTable.flatMap((row) =>
    row.fails === undefined ? [[`${row.op}: ${row.title}`, rowGraph(row), []] as const] : [],
  ),
];

describe("lowered loops compute what their graphs say", () => {
  test.each(graphs)("%s", (name, graph, donated) => {
    const row = controlTable.find((one) => `${one.op}: ${one.title}` === name);
    const inputs = row === undefined ? samples(graph) : rowInputs(row);
    compare(graph, inputs, row === undefined ? 1e-12 : 1e-6, donated);
    compare(runPasses(graph), inputs, row === undefined ? 1e-12 : 1e-6, donated);
  });

  test("on two devices", () => {
    const axes = mesh({ data: 2 });
    const graph = runPasses(recurrentStates());
    const plan = planGraph(graph, axes, { inputs: [shardedOn(axes, { data: 1 })] });
    const lowered = lowerProgram(splitGraph(plan.local, axes.axes), { slots: 2 });
    checkLowered(lowered, [2]);
    const [x, ...rest] = samples(graph) as [HostTensor, ...HostTensor[]];
    const half = (device: number): HostTensor => ({
      dtype: "f64",
      shape: [5, 2, 2],
      data: Float64Array.from(
        { length: 20 },
        (_zero, at) => x.data[Math.floor(at / 4) * 8 + device * 4 + (at % 4)] as number,
      ),
    });
    const results = simulateMesh(
      lowered,
      [2],
      [
        [half(0), ...rest],
        [half(1), ...rest],
      ],
    );
    const [expected] = ops.evaluateGraph(graph, [x, ...rest]) as [HostTensor];
    results.forEach(([part], device) => {
      const wanted = Float64Array.from(
        { length: 40 },
        (_zero, at) => expected.data[Math.floor(at / 8) * 16 + device * 8 + (at % 8)] as number,
      );
      expect(difference((part as HostTensor).data, wanted, 1e-12)).toBeUndefined();
    });
  });

  test("in place of a carry where the body is done with it", () => {
    const graph = traceGraph("sum", [{ name: "x", type: { dtype: "f32", shape: [8, 4] } }], (x) => {
      const specs = [
        { name: "i", type: { dtype: "i32" as const, shape: [] } },
        { name: "total", type: { dtype: "f32" as const, shape: [4] } },
        { name: "x", type: { dtype: "f32" as const, shape: [4] } },
      ];
      const body = traceGraph("add", specs, (_i, total, value) => [ops.add(total as Node, value as Node)]);
      const attrs = { body, length: 8, carries: 1, slices: 1, reverse: false };
      return ops.scan([ops.full("f32", [4], 0), x], attrs).slice(0, 1);
    });
    const lowered = lowerProgram(splitGraph(runPasses(graph), []), { slots: 1 });
    expect(printLowered(lowered)).toMatchInlineSnapshot(`
      "lowered @sum: 3 calls, arena 192 B
      0 fused const [4] -> f32
      1 fused const [] -> i32
      2 loop 8
        0 dynamicSlice f32[8,4] i32[] i32[] -> f32[1,4]
        1 fused add [4] f32 f32 -> f32*
      "
    `);
  });

  /** States of a product with a turned weight, from `[rows, 8]` on. */
  const turned = (rows: number, length: number, columns = 8): Graph =>
    traceGraph(
      "turned",
      [
        { name: "h", type: { dtype: "f64", shape: [rows, columns] } },
        { name: "w", type: { dtype: "f64", shape: [columns, columns] } },
      ],
      (h, w) => {
        const specs = [
          { name: "i", type: { dtype: "i32" as const, shape: [] } },
          { name: "h", type: { dtype: "f64" as const, shape: [rows, columns] } },
          { name: "w", type: { dtype: "f64" as const, shape: [columns, columns] } },
        ];
        const body = traceGraph("step", specs, (_i, state, weight) => [
          ops.tanh(ops.matmul(state as Node, ops.transpose(weight as Node, [1, 0]))),
        ]);
        return ops.scan([h as Node, w as Node], { body, length, carries: 1, slices: 0, reverse: false }).slice(0, 1);
      },
    );

  test("a right side that a loop does not change is packed once before it", () => {
    const lowered = lowerProgram(splitGraph(runPasses(turned(4, 8)), []), { slots: 1 });
    expect(printLowered(lowered)).toMatchInlineSnapshot(`
      "lowered @turned: 3 calls, arena 832 B
      0 fused copy [4,8] f64 -> f64
      1 fused copy [8,8] f64(1,8) -> f64
      2 loop 8
        0 dot f64[1,4,8] f64[1,8,8] -> f64[1,4,8]
        1 fused tanh [4,8] f64 -> f64
      "
    `);
  });

  test.each([
    ["a few rows", turned(4, 8), true],
    ["rows of 2 KiB", turned(2, 4, 256), true],
    ["one row, which is read as it is", turned(1, 8), false],
    ["many rows, which are copied in any case", turned(57, 8), false],
    ["few iterations, which do not pay for a copy", turned(4, 3), false],
  ])("right sides of loops: %s", (_name, graph, isPacked) => {
    compare(runPasses(graph), samples(graph), 1e-12);
    const text = printLowered(lowerProgram(splitGraph(runPasses(graph), []), { slots: 1 }));
    expect(/copy .* f64\(1,/.test(text)).toBe(isPacked);
  });

  test("memory of an iteration serves again within it", () => {
    const chain = (x: Node): Node => {
      let value = x;
      for (let step = 0; step < 6; step++) value = ops.matmul(value, value);
      return value;
    };
    const graph = traceGraph("chains", [{ name: "x", type: { dtype: "f32", shape: [64, 64] } }], (x) => {
      const specs = [
        { name: "i", type: { dtype: "i32" as const, shape: [] } },
        { name: "x", type: { dtype: "f32" as const, shape: [64, 64] } },
      ];
      const body = traceGraph("chain", specs, (_i, value) => [chain(value as Node)]);
      return ops.scan([x], { body, length: 3, carries: 1, slices: 0, reverse: false }).slice(0, 1);
    });
    const lowered = lowerProgram(splitGraph(runPasses(graph), []), { slots: 1 });
    expect(lowered.arenaBytes).toBeLessThan(4 * 64 * 64 * 4);
  });
});
