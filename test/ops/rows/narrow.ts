/** @module Rows of products of narrow numbers, beside products in f64. */
import { traceGraph } from "../../../src/ir/graph.ts";
import type { HostTensor, Node } from "../../../src/ir/node.ts";
import { add, broadcastTo, call, cast, constant, evaluateGraph, maximum } from "../../../src/ops/index.ts";
import type { Row } from "../../support/row.ts";
import { floats, ints } from "../../support/tensors.ts";

const dims = (xContract: number[], yContract: number[], xBatch: number[] = [], yBatch: number[] = []) => ({
  xBatch,
  yBatch,
  xContract,
  yContract,
});

const bytes = (shape: readonly number[], dtype: "i8" | "u8") =>
  ints(shape, dtype === "i8" ? -128 : 0, dtype === "i8" ? 128 : 256, dtype);
const halves = (shape: readonly number[]) => ({ ...floats(shape), dtype: "bf16" as const });

/** Sizes of products, with the dims of both operands: edges of tiles, more than a block of the contracted dim, and nothing. */
const narrowShapes: readonly [title: string, x: number[], y: number[], dims: ReturnType<typeof dims>][] = [
  ["small", [3, 5], [5, 7], dims([1], [0])],
  ["beyond tiles", [17, 67], [67, 33], dims([1], [0])],
  ["turned", [67, 18], [35, 67], dims([0], [1])],
  ["batched", [2, 5, 3], [5, 3, 2], dims([1], [0], [0], [2])],
  ["two contracted dims", [4, 2, 9], [9, 3, 2], dims([1, 2], [2, 0])],
  ["a vector", [70], [70, 40], dims([0], [0])],
  ["long", [2, 1100], [1100, 3], dims([1], [0])],
  ["nothing contracted", [2, 0], [0, 3], dims([1], [0])],
  ["no rows", [0, 4], [4, 3], dims([1], [0])],
];

const narrowPairs = [
  ["bf16", "bf16", "f32"],
  ["i8", "i8", "i32"],
  ["u8", "i8", "i32"],
  ["i8", "u8", "i32"],
  ["u8", "u8", "i32"],
] as const;

/** The same product of the operands in f64, which holds all sums of these sizes. */
export const exactly = (x: HostTensor, y: HostTensor, attrs: Row["attrs"]): number[] => {
  const wide = ({ shape, data }: HostTensor): HostTensor => ({
    dtype: "f64",
    shape,
    data: Float64Array.from(data as Float32Array),
  });
  const node = traceGraph(
    "wide",
    [x, y].map(({ shape }, index) => ({ name: `x${index}`, type: { dtype: "f64", shape } })),
    (a, b) => [call("dot", [a as Node, b as Node], attrs)],
  );
  return [...(evaluateGraph(node, [wide(x), wide(y)])[0] as HostTensor).data] as number[];
};

/** Products of narrow numbers with wider sums. */
export const narrowRows: readonly Row[] = narrowShapes.flatMap(([title, x, y, attrs]) => [
  ...narrowPairs.map(
    ([left, right, dtype]): Row => ({
      op: "dot",
      title: `${left} by ${right} in ${dtype}, ${title}`,
      inputs: [left === "bf16" ? halves(x) : bytes(x, left), right === "bf16" ? halves(y) : bytes(y, right)],
      attrs: { ...attrs, dtype },
      expected: (a, b) => [exactly(a, b, attrs)],
      tolerance: dtype === "i32" ? 0 : 1e-5,
      gradient: false,
    }),
  ),
  {
    op: "dot",
    title: `bf16, ${title}`,
    inputs: [halves(x), halves(y)],
    attrs,
    expected: (a, b) => [exactly(a, b, attrs)],
    // A unit in the last place of a number is at most 2^-7 of it.
    tolerance: 2 ** -8,
    gradient: false,
  },
  {
    op: "dot",
    title: `bf16 with bias and relu, ${title}`,
    inputs: [halves(x), halves(y), halves([y.at(-1) as number])],
    build: (a, b, bias) => {
      const product = call("dot", [a as Node, b as Node], attrs);
      const last = product.shape.at(-1) === bias?.shape[0] ? (bias as Node) : cast(constant("f32", 0.5), "bf16");
      return [maximum(add(product, broadcastTo(last, product.shape)), 0)];
    },
    tolerance: 2 ** -6,
    gradient: false,
  },
]);
