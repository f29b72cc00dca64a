/** Async collectives: where they start and end, and that results do not change. */
import { describe, expect, test } from "vitest";
import { type Graph, type HostTensor, type Node, type TensorType, traceGraph } from "../../src/ir/index.ts";
import type { Overlap } from "../../src/lower/async-collectives.ts";
import { checkLowered, type LoweredProgram, lowerProgram, printLowered } from "../../src/lower/index.ts";
import * as ops from "../../src/ops/index.ts";
import { formBuckets } from "../../src/plan/index.ts";
import { type ProgramAxis, splitGraph } from "../../src/program/index.ts";
import { chain, dataParallelStep } from "../program/graphs.ts";
import { valuesFor } from "./graphs.ts";
import { simulateMesh } from "./simulate.ts";

const data: ProgramAxis[] = [{ name: "data", size: 2 }];
const grid: ProgramAxis[] = [...data, { name: "model", size: 2 }];

const sum = (x: Node, label: string): Node =>
  ops.call("allReduce", [x], { axis: "data", parts: 2, reduction: "sum", label }) as Node;

const f64 = (...shape: number[]): TensorType => ({ dtype: "f64", shape });

/** One collective, then a product that does not need it. */
function beside(inner: (x: Node, y: Node) => readonly Node[], ...types: TensorType[]): Graph {
  const specs = types.map((type, index) => ({ name: `x${index}`, type }));
  return traceGraph("beside", specs, (x, y) => inner(x as Node, y as Node));
}

const step = dataParallelStep(3, 8, 8, 2);
const graphs: readonly (readonly [string, Graph, readonly ProgramAxis[], readonly (number | undefined)[]])[] = [
  ["a data-parallel step", step, data, []],
  ["a data-parallel step in place", step, data, [0, 1, 2, undefined]],
  ["collectives one after the other", chain(2), grid, []],
  [
    "a gather of a parameter that is updated",
    beside(
      (w, x) => {
        const whole = ops.call("allGather", [w], { axis: "data", parts: 2, dim: 0, label: "w" });
        return [ops.mul(w, 0.5), ops.matmul(x, whole), ops.matmul(x, x)];
      },
      f64(4, 8),
      f64(8, 8),
    ),
    data,
    [0, undefined, undefined],
  ],
  [
    "two collectives that read one value",
    beside(
      (x, y) => {
        const made = ops.tanh(x);
        const [one, other] = [sum(made, "one"), sum(made, "other")];
        const between = ops.matmul(y, y);
        return [ops.exp(one), ops.tanh(other), between, ops.matmul(x, y)];
      },
      f64(8, 8),
      f64(8, 8),
    ),
    data,
    [],
  ],
  [
    "a loop beside a collective",
    beside(
      (x, y) => {
        const body = traceGraph(
          "body",
          [
            { name: "count", type: { dtype: "i32", shape: [] } },
            { name: "carry", type: f64(8, 8) },
          ],
          (_count, carry) => [ops.tanh(ops.matmul(carry as Node, carry as Node))],
        );
        const last = ops.call("scan", [y], { body, carries: 1, slices: 0, length: 3, reverse: false });
        return [ops.add(sum(ops.neg(x), "x"), 1), last];
      },
      f64(8, 8),
      f64(8, 8),
    ),
    data,
    [undefined, undefined],
  ],
];

const lowered = (
  graph: Graph,
  axes: readonly ProgramAxis[],
  donated: readonly (number | undefined)[],
  overlap: Overlap,
) => lowerProgram(splitGraph(graph, axes, { donated }), { slots: 1, overlap });

const kernels = (program: LoweredProgram): string[] =>
  program.json.steps.map((call) => (call["handle"] === undefined ? call.k : `${call.k} ${call["handle"]}`));

describe("collectives beside other calls", () => {
  test.each(graphs)("%s: the same values, carried out at the start or at the wait", (_what, graph, axes, donated) => {
    const sizes = axes.map((axis) => axis.size);
    const ranks = sizes.reduce((product, size) => product * size, 1);
    const types = graph.inputs.map((input) => input.types[0] as TensorType);
    const inputs = Array.from({ length: ranks }, (_unused, rank) =>
      types.map((type, index): HostTensor => valuesFor(type, 10 * rank + index)),
    );
    const results = (["none", "all"] as const).map((overlap) => {
      const program = lowered(graph, axes, donated, overlap);
      checkLowered(program, sizes);
      return simulateMesh(program, sizes, inputs).map((outputs) => outputs.map(({ data }) => [...data]));
    });
    expect(results[1]).toEqual(results[0]);
  });

  test("a message that holds one memory twice writes over neither", () => {
    const graph = beside(
      (x) => {
        const made = ops.tanh(x);
        return [ops.exp(sum(made, "")), ops.exp(sum(ops.reshape(made, [64]), ""))];
      },
      f64(8, 8),
    );
    const { json } = lowered(formBuckets(graph), data, [], "none");
    const parts = json.steps.find(({ k }) => k === "collective")?.["parts"] as { in: number[]; out: number[] }[];
    expect(parts.length).toBe(2);
    expect(parts[0]?.in).toEqual(parts[1]?.in);
    expect(new Set([parts[0]?.in, parts[0]?.out, parts[1]?.out].map(String)).size).toBe(3);
  });

  test("each starts where its inputs are ready, and ends before what it brings is used", () => {
    expect(kernels(lowered(step, data, [0, 1, 2, undefined], "none"))).not.toContain("wait 0");
    const text = printLowered(lowered(step, data, [0, 1, 2, undefined], "all"), [2]);
    expect(`\n${text}`).toMatchInlineSnapshot(`
      "
      lowered @dataParallel: 25 calls, arena 1.86 KB
      0 dot f64[1,4,8] f64[1,8,8] -> f64[1,4,8]
      1 fused tanh [4,8] f64 -> f64*
      2 dot f64[1,4,8] f64[1,8,8] -> f64[1,4,8]
      3 fused tanh [4,8] f64 -> f64*
      4 dot f64[1,4,8] f64[1,8,8] -> f64[1,4,8]
      5 fusedRows tanh+mul+sum+div [32] f64 -> f64* f64 f64[]
      6 start 0 collective allReduce f64[1] -> f64[1]
      7 fused div [] -> f64
      8 fused mul+add+sub+mul [4,8] f64(0,0) f64 f64 -> f64*
      9 dot f64[1,8,4] f64[1,4,8] -> f64[1,8,8]
      10 start 1 collective allReduce f64[64] -> f64[64]*
      11 dot f64[1,4,8] f64[1,8,8] -> f64[1,4,8]
      12 fused mul+sub+mul [4,8] f64 f64 -> f64*
      13 dot f64[1,8,4] f64[1,4,8] -> f64[1,8,8]
      14 start 2 collective allReduce f64[64] -> f64[64]*
      15 dot f64[1,4,8] f64[1,8,8] -> f64[1,4,8]
      16 fused mul+sub+mul [4,8] f64 f64 -> f64*
      17 dot f64[1,8,4] f64[1,4,8] -> f64[1,8,8]
      18 collective allReduce f64[64] -> f64[64]*
      19 fused mul+sub [8,8] f64 f64 -> f64*
      20 wait 2
      21 fused mul+sub [8,8] f64 f64 -> f64*
      22 wait 1
      23 fused mul+sub [8,8] f64 f64 -> f64*
      24 wait 0
      "
    `);
  });

  test("only what saves more than a handover does so: large ones with much to do beside", () => {
    const asyncCount = (layers: number, size: number, batch: number): number =>
      kernels(lowered(dataParallelStep(layers, size, batch, 2), data, [], "paying")).filter((name) =>
        name.startsWith("wait"),
      ).length;
    expect(asyncCount(3, 8, 8)).toBe(0);
    // Of four gradients of 8 MB the last has nothing beside it.
    expect(asyncCount(4, 1024, 512)).toBe(3);
    const alone = dataParallelStep(4, 1024, 512, 1);
    expect(
      kernels(lowered(alone, [{ name: "data", size: 1 }], [], "all")).some((name) => name.startsWith("wait")),
    ).toBe(false);
  });

  test.each<[string, (steps: Record<string, unknown>[]) => void, RegExp]>([
    [
      "uses what it brings",
      (steps) => steps.splice(1, 0, steps.splice(4, 1)[0] as never),
      /fused\): .* overlaps memory that the/,
    ],
    ["is never waited for", (steps) => steps.splice(3, 2), /nothing waits for async collective 0 of op 0/],
    ["is waited for twice", (steps) => steps.push({ k: "wait", handle: 0 }), /async collective 0 is not pending/],
  ])("a program in which one %s is refused", (_what, change, message) => {
    const graph = beside((x, y) => [sum(ops.matmul(y, y), "y"), ops.mul(sum(x, "x"), 2)], f64(8, 8), f64(8, 8));
    const program = lowered(graph, data, [], "all");
    expect(kernels(program)).toEqual(["collective 0", "dot", "collective 1", "wait 0", "fused", "wait 1"]);
    const steps = program.json.steps.map((call) => ({ ...call }));
    change(steps);
    const changed = { ...program, layout: [], json: { ...program.json, steps } };
    expect(() => checkLowered(changed as LoweredProgram, [2])).toThrow(message);
  });
});
