import { describe, expect, test } from "vitest";
import { trainings } from "../../bench/plans/trainings.ts";
import type { Machine } from "../../src/cost/index.ts";
import { type Graph, type Node, type TensorType, traceGraph } from "../../src/ir/index.ts";
import type { Overlap } from "../../src/lower/async-collectives.ts";
import { callCost, costOf, type LoweredStep, lowerProgram, numberedCalls } from "../../src/lower/index.ts";
import { parseMesh } from "../../src/plan/index.ts";
import { costOf as costOfProgram, type Program, type ProgramAxis, splitGraph } from "../../src/program/index.ts";
import { modelTypes } from "../../src/train/functions.ts";
import type { TrainOptions } from "../../src/train/options.ts";
import { planStep } from "../../src/train/programs.ts";
import { resolveOptions } from "../../src/train/resolve-options.ts";
import { mlpStep as smallStep } from "../plan/networks.ts";
import { dataParallelStep } from "../program/graphs.ts";
import { leNetGradient } from "../support/lenet.ts";
import * as ops from "../support/nodes.ts";
import { attentionStep, lenetStep, mlpStep, type TestGraph } from "./graphs.ts";

const at = [0, 0] as const;
const strided = (...strides: number[]) => ({ at, strides, dtype: "f32", reg: 0 });

const steps: { name: string; step: LoweredStep; bytes: number }[] = [
  {
    name: "a product: three matrices",
    step: {
      k: "dot",
      dtype: "f32",
      b: 1,
      m: 2,
      k2: 3,
      n: 4,
      x: strided(6, 3, 1),
      y: strided(12, 4, 1),
      out: strided(8, 4, 1),
    },
    bytes: 4 * (6 + 12 + 8),
  },
  {
    name: "a fused group: constants are free, a broadcast operand is read once",
    step: {
      k: "fused",
      shape: [5, 8],
      in: [strided(8, 1), strided(0, 1)],
      ops: [
        ["const", "f32", 2],
        ["mul", "f32", 0, 2],
        ["add", "f32", 3, 1],
      ],
      out: [strided(8, 1)],
    },
    bytes: 4 * (40 + 8 + 40),
  },
  {
    name: "a gather: the rows that are moved, not the table",
    step: { k: "gather", dtype: "f32", outer: 1, size: 1000, inner: 4, count: 3, in: at, indices: at, out: at },
    bytes: 2 * 4 * 12,
  },
  {
    name: "a collective",
    step: { k: "collective", op: "allGather", axis: 0, dtype: "f64", parts: [{ in: at, out: at, count: 10 }] },
    bytes: 8 * (10 + 20),
  },
];

test.each(steps)("$name", ({ step, bytes }) => expect(callCost(step, [2])).toEqual({ flops: 0, bytes }));

test("calls are numbered as native code does: a loop, its condition, its steps, then what follows", () => {
  const end = { k: "axisIndex", axis: 0, out: at };
  const inner = { ...end, axis: 1 };
  const test = { ...end, axis: 2 };
  const loop: LoweredStep = { k: "loop", test: at, out: at, condition: [test], steps: [inner] };
  const calls = numberedCalls([loop, end]);
  expect(calls.map(({ call, depth }) => [call.k, call["axis"], depth])).toEqual([
    ["loop", undefined, 0],
    ["axisIndex", 2, 1],
    ["axisIndex", 1, 1],
    ["axisIndex", 0, 0],
  ]);
  expect(callCost(loop)).toEqual({ flops: 0, bytes: 0 });
});

/** Round numbers: a second for 100 operations, 10 bytes of memory, 1 byte of a link after half a second; no call costs anything. */
const machine: Machine = { flops: 100, memory: 10, latency: 0.5, bandwidth: 1, call: 0, handover: 0 };

const f32 = (...shape: number[]): TensorType => ({ dtype: "f32", shape });
const bool: TensorType = { dtype: "bool", shape: [] };
const graph = (types: TensorType[], fn: (...nodes: Node[]) => Node[]): Graph =>
  traceGraph(
    "f",
    types.map((type, index) => ({ name: `x${index}`, type })),
    (...nodes) => fn(...(nodes as Node[])),
  );
const data: ProgramAxis[] = [{ name: "data", size: 2 }];
const body = graph([{ dtype: "i32", shape: [] }, f32(8)], (_count, carry) => [ops.mul(carry as Node, 3)]);
const [small, large] = [graph([f32(8)], (x) => [ops.mul(x as Node, 2)]), graph([f32(8)], (x) => [ops.exp(x as Node)])];
const sum = (x: Node): Node =>
  ops.call("allReduce", [x], { axis: "data", parts: 2, reduction: "sum", label: "x" }) as Node;

describe("a lowered program", () => {
  const cases: {
    name: string;
    of: Graph;
    axes?: ProgramAxis[];
    overlap?: Overlap;
    donated?: (number | undefined)[];
    cost: object;
  }[] = [
    {
      name: "a fused group: what is between its ops is neither written nor read, and needs no memory",
      of: graph([f32(8), f32(8)], (x, y) => [ops.mul(ops.add(ops.mul(x as Node, y as Node), x as Node), 2)]),
      cost: { flops: 24, bytes: 96, depth: 9.6, seconds: 9.6, peak: 96 },
    },
    {
      name: "a chain: what is between two products is in the arena; the second product waits for the first one",
      of: graph([f32(4, 4)], (x) => [ops.matmul(ops.matmul(x as Node, x as Node), x as Node)]),
      cost: { flops: 256, bytes: 6 * 64, depth: 38.4, seconds: 38.4, peak: 2 * 64 + 64 },
    },
    {
      name: "two products wait for nothing",
      of: graph([f32(4, 4), f32(4, 4)], (x, y) => [ops.matmul(x as Node, y as Node), ops.matmul(y as Node, x as Node)]),
      cost: { flops: 256, bytes: 6 * 64, depth: 19.2, seconds: 38.4, peak: 4 * 64 },
    },
    {
      name: "write after read: an input's buffer is written over when it has been read",
      of: graph([f32(4, 4), f32(4, 4)], (x, y) => [ops.mul(x as Node, 2), ops.matmul(x as Node, y as Node)]),
      donated: [0, undefined],
      cost: { flops: 16 + 128, bytes: 2 * 64 + 3 * 64, depth: 32, seconds: 32, peak: 3 * 64 },
    },
    {
      name: "a loop: its body, again and again, between the first carry and what follows",
      of: graph([f32(8)], (x) => {
        const attrs = { body, length: 5, carries: 1, slices: 0, reverse: false };
        return [ops.exp(ops.resultsOf(ops.call("scan", [x as Node], attrs))[0] as Node)];
      }),
      // A copy of the carry, five products by 3, the function; the arena holds the carry and the count.
      cost: { flops: 5 * 8 + 80, bytes: 64 + 5 * 64 + 64, depth: 44.8, seconds: 44.8, peak: 64 + 128 },
    },
    {
      name: "a branch: the one with more arithmetic",
      of: graph([bool, f32(8)], (test, x) => [
        ops.resultsOf(ops.call("cond", [test as Node, x as Node], { onTrue: small, onFalse: large }))[0] as Node,
      ]),
      cost: { flops: 80, bytes: 64, depth: 6.4, seconds: 6.4, peak: 65 },
    },
    {
      name: "a collective that is waited for: the device does nothing beside it",
      of: graph([f32(8), f32(4, 4)], (x, y) => [ops.exp(sum(x as Node)), ops.matmul(y as Node, y as Node)]),
      axes: data,
      overlap: "none",
      // Two messages of 16 bytes: 33 seconds; 19.2 of the product; 6.4 of the function.
      cost: { flops: 80 + 128, sent: 32, communicationSeconds: 33, depth: 33 + 6.4, seconds: 33 + 19.2 + 6.4 },
    },
    {
      name: "an async collective: one product is beside it, the other one after the wait",
      of: graph([f32(4, 4), f32(4, 4)], (x, y) => {
        const summed = sum(x as Node);
        return [ops.matmul(ops.matmul(y as Node, y as Node), summed)];
      }),
      axes: data,
      overlap: "all",
      cost: { flops: 256, sent: 64, communicationSeconds: 65, depth: 65 + 19.2, seconds: 65 + 19.2 },
    },
  ];
  test.each(cases)("$name", ({ of, axes = [], overlap = "paying", donated = [], cost: want }) => {
    const lowered = lowerProgram(splitGraph(of, axes, { donated }), { slots: 1, overlap, machine });
    const cost = costOf(lowered, machine);
    for (const [name, value] of Object.entries(want))
      expect(cost[name as "flops"], `${name} of ${cost.flops} ${cost.bytes} ${cost.depth} ${cost.peak}`).toBeCloseTo(
        value,
        9,
      );
  });
});

describe("lowering keeps the arithmetic", () => {
  const step = ({ graph, donated }: TestGraph): Program => splitGraph(graph, [], { donated });
  const networks: { [name: string]: () => Program } = {
    mlp: () => step(mlpStep()),
    "mlp of bf16": () => step(mlpStep("bf16")),
    "mlp of f64 with dropout": () => splitGraph(smallStep(), []),
    lenet: () => step(lenetStep()),
    "lenet of f64": () => splitGraph(leNetGradient(), []),
    attention: () => step(attentionStep()),
    "data parallel": () => splitGraph(dataParallelStep(3, 8, 8, 2), data),
    ...Object.fromEntries(
      Object.keys(trainings).map((name) => [
        `${name} of two devices`,
        () => {
          const settings = resolveOptions(trainings[name] as TrainOptions);
          return planStep(settings, modelTypes(settings), parseMesh("data=2")).program;
        },
      ]),
    ),
  };
  test.each(Object.entries(networks))("%s", (_name, network) => {
    const program = network();
    const lowered = lowerProgram(program, { slots: 2 });
    const cost = costOf(lowered);
    expect(cost.flops).toBe(costOfProgram(program).flops);
    expect(cost.sent).toBe(costOfProgram(program).sent);
    // All that a run takes: the arena, room for partial results, arguments.
    expect(cost.peak).toBe(lowered.peakBytes);
    expect(cost.peak - lowered.argumentBytes).toBeGreaterThanOrEqual(lowered.arenaBytes);
    // The longest chain is a part of a run.
    expect(cost.depth).toBeLessThanOrEqual(cost.seconds * (1 + 1e-12));
  });
});
