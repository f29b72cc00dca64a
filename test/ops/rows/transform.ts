/** @module Rows of the op table: ops whose graphs have their own rule for a transform (remat, custom derivatives), and the barrier. */
import { type InputSpec, traceGraph } from "../../../src/ir/graph.ts";
import type { Graph, Node } from "../../../src/ir/node.ts";
import * as ops from "../../../src/ops/index.ts";
import type { Row } from "../../support/row.ts";

const unit = (seed: number): { low: number; high: number; seed: number } => ({ low: -1, high: 1, seed });
const spec = (name: string, { dtype, shape }: Node): InputSpec => ({ name, type: { dtype, shape } });

/** Sums of elements of two inputs by position, in plain numbers. */
const numbers = (data: Iterable<number | bigint>): number[] => Array.from(data, Number);

/** (x, w) → tanh(x w) w, and what is within: the product and the tanh. */
const layer = (x: Node, w: Node): Graph =>
  traceGraph("layer", [spec("x", x), spec("w", w)], (a, b) => {
    const product = ops.matmul(a as Node, b as Node);
    const squashed = ops.tanh(product);
    return [ops.matmul(squashed, b as Node), product, squashed];
  });

const remat = (saved: number) => (x: Node, w: Node) => {
  const body = layer(x, w);
  const kept = { ...body, outputs: body.outputs.slice(0, 1 + saved) };
  return ops.resultsOf(ops.call("remat", [x, w], { body: kept, saved })).slice(0, 1);
};

function layerValues(x: readonly number[], w: readonly number[]): number[] {
  const product = (a: readonly number[]): number[] =>
    a.map((_one, at) => {
      const [row, column] = [Math.floor(at / 4), at % 4];
      return [0, 1, 2, 3].reduce((sum, k) => sum + (a[row * 4 + k] as number) * (w[k * 4 + column] as number), 0);
    });
  return product(product(x).map(Math.tanh));
}

const square: Row["inputs"] = [
  { dtype: "f32", shape: [4, 4], values: unit(1) },
  { dtype: "f32", shape: [4, 4], values: unit(2) },
];

/** x³ with the derivative 3 x² said by hand. */
const cube = (x: Node): Graph =>
  traceGraph("cube", [spec("x", x)], (a) => [ops.mul(ops.mul(a as Node, a as Node), a as Node)]);
const slope = (x: Node): Graph =>
  traceGraph("slope", [spec("y", x), spec("change", x), spec("x", x)], (_y, change, a) => [
    ops.mul(change as Node, ops.mul(ops.mul(a as Node, a as Node), 3)),
  ]);
const vector: Row["inputs"] = [{ dtype: "f32", shape: [8], values: unit(3) }];
const cubed: Row["expected"] = (x) => [numbers(x?.data ?? []).map((value) => value ** 3)];

export const transformTable: readonly Row[] = [
  {
    op: "optimizationBarrier",
    title: "after another value",
    inputs: [square[0] as Row["inputs"][number], vector[0] as Row["inputs"][number]],
    expected: (x) => [numbers(x?.data ?? [])],
    gradient: true,
    shardings: ["S(0), R -> S(0)", "S(1), R -> S(1)", "P(sum), R -> P(sum)"],
  },
  {
    op: "remat",
    title: "nothing saved",
    inputs: square,
    build: (x, w) => remat(0)(x as Node, w as Node),
    expected: (x, w) => [layerValues(numbers(x?.data ?? []), numbers(w?.data ?? []))],
    gradient: true,
  },
  {
    op: "remat",
    title: "all saved",
    inputs: square,
    build: (x, w) => remat(2)(x as Node, w as Node),
    gradient: true,
  },
  {
    op: "customGradient",
    title: "a cube",
    inputs: vector,
    build: (x) => [
      ops.call("customGradient", [x as Node], { body: cube(x as Node), gradient: slope(x as Node), by: [0] }),
    ],
    expected: cubed,
    gradient: true,
  },
  {
    op: "customJvp",
    title: "a cube",
    inputs: vector,
    build: (x) => [ops.call("customJvp", [x as Node], { body: cube(x as Node), tangent: slope(x as Node), by: [0] })],
    expected: cubed,
    gradient: true,
  },
];
