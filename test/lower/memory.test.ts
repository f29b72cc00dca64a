import { gradients } from "heddle/autodiff";
import { type HostTensor, type Node, type Shape, traceGraph } from "heddle/ir";
import { checkLowered, type LoweredProgram, lowerProgram, printLowered } from "heddle/lower";
import { splitGraph, verifyProgram } from "heddle/program";
import { expect, test } from "vitest";
import * as ops from "../support/nodes.ts";
import { lenetStep, valuesFor } from "./graphs.ts";
import { simulate } from "./simulate.ts";

type Body = (...inputs: Node[]) => readonly Node[];

/** Lowers with donation, checks the result against the graph, and shows the calls. */
function donated(
  shapes: readonly Shape[],
  donations: readonly (number | undefined)[],
  body: Body,
): { lowered: LoweredProgram; lines: string[] } {
  const specs = shapes.map((shape, index) => ({ name: `x${index}`, type: { dtype: "f64" as const, shape } }));
  const graph = traceGraph("test", specs, body);
  const program = splitGraph(graph, [], { donated: donations });
  verifyProgram(program);
  const lowered = lowerProgram(program, { slots: 1 });
  checkLowered(lowered);
  const inputs = specs.map((spec, index) => valuesFor(spec.type, index + 1));
  const expected = ops.evaluateGraph(graph, inputs);
  const numbers = (tensors: readonly HostTensor[]): number[][] => tensors.map((tensor) => [...tensor.data]);
  expect(numbers(simulate(lowered, inputs))).toEqual(numbers(expected));
  return { lowered, lines: printLowered(lowered).trimEnd().split("\n").slice(1) };
}

test("an update is written over its input", () => {
  const { lowered, lines } = donated([[8], [8]], [0], (weight, grad) => [
    ops.sub(weight as Node, ops.mul(grad as Node, 0.1)),
  ]);
  expect(lines).toEqual(["0 fused mul+sub [8] f64 f64 -> f64*"]);
  expect(lowered.arenaBytes).toBe(0);
  expect(lowered.arguments).toEqual([
    { name: "x0", type: { dtype: "f64", shape: [8] }, bytes: 64, input: 0, output: 0 },
    { name: "x1", type: { dtype: "f64", shape: [8] }, bytes: 64, input: 1 },
  ]);
});

test("other readers of the input come first", () => {
  const { lines } = donated(
    [
      [4, 4],
      [4, 4],
    ],
    [0],
    (weight, x) => {
      const next = ops.add(weight as Node, 1);
      return [next, ops.matmul(x as Node, weight as Node)];
    },
  );
  expect(lines).toEqual(["0 dot f64[1,4,4] f64[1,4,4] -> f64[1,4,4]", "1 fused add [4,4] f64 -> f64*"]);
});

test("an input that is read in another order than it is written is copied at the end", () => {
  const { lowered, lines } = donated([[4, 4]], [0], (weight) => [ops.mul(ops.transpose(weight as Node), 2)]);
  expect(lines).toEqual(["0 fused mul [4,4] f64(1,4) -> f64", "1 fused copy [4,4] f64 -> f64"]);
  expect(lowered.arenaBytes).toBe(128);
});

test("an input that is needed after the output that takes its buffer is copied at the end", () => {
  const { lines } = donated([[4, 4]], [0], (weight) => {
    const next = ops.add(weight as Node, 1);
    return [next, ops.matmul(next, weight as Node)];
  });
  expect(lines.at(-1)).toBe("2 fused copy [4,4] f64 -> f64");
});

test("two values change places", () => {
  donated([[4], [4]], [0, 1], (x, y) => [y as Node, x as Node]);
  donated([[4], [4]], [0, 1], (x, y) => [ops.exp(y as Node), ops.exp(x as Node)]);
  donated([[4], [4], [4]], [1, 2, 0], (x, y, z) => [x as Node, ops.add(y as Node, z as Node), z as Node]);
});

test("the newest of a history moves down before it is overwritten", () => {
  const { lines } = donated([[4], [4]], [0, 1], (now, before) => [ops.add(now as Node, before as Node), now as Node]);
  expect(lines.length).toBeLessThanOrEqual(3);
});

test("an input that is returned in its own buffer costs nothing; elsewhere it is copied", () => {
  expect(donated([[4]], [0], (x) => [x as Node]).lines).toEqual([]);
  expect(donated([[4]], [undefined], (x) => [x as Node]).lines).toEqual(["0 fused copy [4] f64 -> f64"]);
});

test("a value that is two outputs is copied once", () => {
  const { lines } = donated([[4]], [undefined, 0], (x) => {
    const y = ops.exp(x as Node);
    return [y, y];
  });
  expect(lines).toEqual(["0 fused exp [4] f64 -> f64", "1 fused copy [4] f64 -> f64"]);
});

test("a dynamic update happens in place", () => {
  const { lines } = donated([[8], [2]], [0], (x, update) => [
    ops.call("dynamicUpdateSlice", [x as Node, update as Node, ops.constant("i32", 3)]),
  ]);
  expect(lines.filter((line) => line.includes("dynamicUpdateSlice"))).toEqual([
    "1 dynamicUpdateSlice f64[8] f64[2] i32[] -> f64[8]*",
  ]);
});

test("a gradient of attention is not written over its query, which other blocks still read", () => {
  const shapes = [
    [1, 1, 3, 4],
    [1, 3, 4],
    [1, 3, 4],
  ];
  const { lines } = donated(shapes, [0], (q, k, v) => {
    const y = ops.attention(q as Node, k as Node, v as Node, { causal: true, scale: 0.5 });
    return gradients(ops.sum(ops.mul(y, y)), [q as Node]);
  });
  expect(lines.at(-1)).toContain("fused copy");
});

test("values share memory over time: LeNet's arena is within 2% of what is live at once", () => {
  const step = lenetStep();
  const lowered = lowerProgram(splitGraph(step.graph, [], step), { slots: 2 });
  const report = checkLowered(lowered);
  const total = lowered.layout.reduce((sum, value) => sum + value.bytes, 0);
  console.log(
    `LeNet, batch 128: ${report.steps} calls, arena ${lowered.arenaBytes} bytes (${total} without sharing), arguments ${lowered.argumentBytes}`,
  );
  expect(lowered.arenaBytes).toBeLessThan(1.02 * lowered.peak.bytes);
  expect(lowered.workBytes).toBeGreaterThanOrEqual(lowered.arenaBytes);
  expect(lowered.peakBytes).toBe(lowered.workBytes + lowered.argumentBytes);
  expect(lowered.peak.largest[0]?.bytes).toBeGreaterThan(1e6);
  expect(lowered.arguments.filter((argument) => argument.input === undefined).map((argument) => argument.name)).toEqual(
    ["loss"],
  );
});

test("time to split and lower LeNet's step", () => {
  const step = lenetStep();
  const times = [1, 2, 3, 4, 5].map(() => {
    const start = performance.now();
    lowerProgram(splitGraph(step.graph, [], step), { slots: 2 });
    return performance.now() - start;
  });
  console.log(`split and lower LeNet's step: ${times.map((time) => time.toFixed(1)).join(", ")} ms`);
});
