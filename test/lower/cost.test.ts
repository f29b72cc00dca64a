import { expect, test } from "vitest";
import type { LoweredStep } from "../../src/lower/index.ts";
import { costOf, numberedCalls } from "../../src/lower/index.ts";

const at = [0, 0] as const;
const strided = (...strides: number[]) => ({ at, strides, dtype: "f32", reg: 0 });

const steps: { name: string; step: LoweredStep; flops: number; bytes: number }[] = [
  {
    name: "a product: two operations for each pair, three matrices",
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
    flops: 2 * 2 * 3 * 4,
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
    flops: 2 * 40,
    bytes: 4 * (40 + 8 + 40),
  },
  {
    name: "a gather: the rows that are moved, not the table",
    step: { k: "gather", dtype: "f32", outer: 1, size: 1000, inner: 4, count: 3, in: at, indices: at, out: at },
    flops: 0,
    bytes: 2 * 4 * 12,
  },
  {
    name: "a collective",
    step: { k: "collective", op: "allGather", axis: 0, dtype: "f64", parts: [{ in: at, out: at, count: 10 }] },
    flops: 0,
    bytes: 8 * (10 + 20),
  },
];

test.each(steps)("$name", ({ step, flops, bytes }) => expect(costOf(step, [2])).toEqual({ flops, bytes }));

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
  expect(costOf(loop)).toEqual({ flops: 0, bytes: 0 });
});
