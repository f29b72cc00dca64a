import { type Node, type Shape, traceGraph } from "heddle/ir";
import { lowerProgram, printLowered } from "heddle/lower";
import * as ops from "heddle/ops";
import { splitGraph } from "heddle/program";
import { expect, test } from "vitest";
import { inputsFor } from "./graphs.ts";
import { simulate } from "./simulate.ts";

interface Case {
  readonly name: string;
  readonly shapes: readonly Shape[];
  readonly body: (x: Node, y: Node) => readonly Node[];
  /** Calls that compute, and calls that only copy or fill. */
  readonly calls: readonly [computing: number, moving: number];
  readonly donated?: readonly (number | undefined)[];
}

const wide: readonly Shape[] = [
  [4, 40],
  [4, 40],
];
const cases: readonly Case[] = [
  {
    name: "parts one after another",
    shapes: wide,
    calls: [2, 0],
    body: (x, y) => [ops.concat([ops.tanh(x), ops.exp(y)], 0)],
  },
  {
    name: "parts side by side",
    shapes: wide,
    calls: [2, 0],
    body: (x, y) => [ops.concat([ops.tanh(x), ops.exp(y)], 1)],
  },
  {
    name: "parts of another shape",
    shapes: [
      [4, 3, 40],
      [4, 50],
    ],
    calls: [2, 0],
    body: (x, y) => [ops.concat([ops.reshape(ops.tanh(x), [4, 120]), ops.exp(y)], 1)],
  },
  {
    name: "a part whose dims are in another order",
    shapes: [
      [3, 4, 40],
      [4, 3, 40],
    ],
    calls: [2, 0],
    body: (x, y) => [ops.concat([ops.transpose(ops.tanh(x), [1, 0, 2]), ops.exp(y)], 2)],
  },
  {
    name: "of two results of one call, one is copied",
    shapes: wide,
    calls: [1, 1],
    body: (x) => [ops.concat([ops.mul(ops.tanh(x), 2), ops.add(ops.tanh(x), 1)], 1)],
  },
  { name: "an input is copied", shapes: wide, calls: [1, 1], body: (x, y) => [ops.concat([ops.tanh(x), y], 1)] },
  {
    name: "a value that is read again is copied; the reversed value is a copy, too",
    shapes: wide,
    calls: [2, 2],
    body: (x, y) => [ops.concat([ops.tanh(x), ops.exp(y)], 1), ops.reverse(ops.tanh(x), [0])],
  },
  {
    name: "short rows are copied",
    shapes: [
      [4, 8],
      [4, 8],
    ],
    calls: [2, 2],
    body: (x, y) => [ops.concat([ops.tanh(x), ops.exp(y)], 1)],
  },
  {
    name: "columns that become rows are copied",
    shapes: wide,
    calls: [1, 2],
    body: (x, y) => [ops.concat([ops.transpose(ops.tanh(x), [1, 0]), ops.transpose(y, [1, 0])], 1)],
  },
  {
    name: "a value within others is copied, after those are written",
    shapes: wide,
    calls: [1, 3],
    body: (x) => [
      ops.call("pad", [ops.tanh(x), ops.constant("f32", 3)], { low: [1, 1], high: [0, 2], interior: [0, 0] }),
    ],
  },
  {
    name: "a part of a buffer that is still read is copied",
    shapes: [
      [4, 40],
      [8, 40],
    ],
    calls: [2, 2],
    body: (x, y) => [ops.concat([ops.tanh(x), ops.exp(ops.slice(y, [4, 0], [8, 40]))], 0)],
    donated: [1],
  },
];

test.each(cases)("$name", ({ shapes, body, calls, donated = [] }) => {
  const specs = shapes.map((shape, index) => ({ name: `x${index}`, type: { dtype: "f32" as const, shape } }));
  const graph = traceGraph("test", specs, (x, y) => body(x as Node, y as Node));
  const program = splitGraph(graph, [], { donated });
  const folded = lowerProgram(program, { slots: 2 });
  const lines = printLowered(folded).trimEnd().split("\n").slice(1);
  const moving = lines.filter((line) => / fused (copy|const)\b/.test(line)).length;
  expect([lines.length - moving, moving]).toEqual(calls);
  const apart = lowerProgram(program, { slots: 2, epilogues: "apart" });
  expect(simulate(folded, inputsFor(graph))).toEqual(simulate(apart, inputsFor(graph)));
});
