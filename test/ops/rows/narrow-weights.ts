/** @module Rows of products of bytes with weights whose rows are contracted, as linear layers have them: read where they lie. */
import type { DType } from "../../../src/ir/dtype.ts";
import type { Node } from "../../../src/ir/node.ts";
import { add, broadcastTo, call, maximum } from "../../../src/ops/index.ts";
import type { Row } from "../../support/row.ts";
import type { Source } from "../../support/tensors.ts";
import { exactly } from "./narrow.ts";

const dims: { readonly [name in "xBatch" | "yBatch" | "xContract" | "yContract"]: readonly number[] } & {
  dtype: string;
} = { xBatch: [], yBatch: [], xContract: [1], yContract: [1], dtype: "i32" };
const batched: typeof dims = { xBatch: [0], yBatch: [0], xContract: [2], yContract: [2], dtype: "i32" };

let seed = 55_000;
const bytes = (shape: readonly number[], dtype: DType): Source => {
  const range =
    dtype === "i8" ? { low: -128, high: 128 } : dtype === "u8" ? { low: 0, high: 256 } : { low: -9, high: 9 };
  return { dtype, shape, values: { ...range, seed: seed++ } };
};

/** The dims of a product in f64. */
const plain = ({ dtype: _dtype, ...rest }: typeof dims) => rest;

/** One row, by vectors; more rows, by tiles; edges of both, and several parts of the weights. */
const shapes: readonly [title: string, x: number[], weights: number[], attrs: typeof dims][] = [
  ["a row", [1, 70], [5, 70], dims],
  ["a row and many weights", [1, 1024], [600, 1024], dims],
  ["rows of one tile", [3, 64], [32, 64], dims],
  ["rows of several squares", [71, 192], [83, 192], dims],
  ["a few rows and many weights", [20, 512], [700, 512], dims],
  ["rows and several blocks of steps", [40, 1100], [70, 1100], dims],
  ["half steps", [20, 96], [40, 96], dims],
  ["few weights", [20, 128], [31, 128], dims],
  ["batched rows", [2, 1, 65], [2, 3, 65], batched],
  ["batched matrices", [2, 18, 64], [2, 40, 64], batched],
];

const pairs = [
  ["i8", "i8"],
  ["u8", "i8"],
  ["i8", "u8"],
  ["u8", "u8"],
] as const;

/** Products of bytes, and with a bias and a bound. */
export const narrowWeightRows: readonly Row[] = shapes.flatMap(([title, x, weights, attrs]) => [
  ...pairs.map(
    ([left, right]): Row => ({
      op: "dot",
      title: `${left} by weights of ${right}, ${title}`,
      inputs: [bytes(x, left), bytes(weights, right)],
      attrs,
      expected: (a, b) => [exactly(a, b, plain(attrs))],
      tolerance: 0,
      gradient: false,
    }),
  ),
  {
    op: "dot",
    title: `u8 by weights with bias and relu, ${title}`,
    inputs: [bytes(x, "u8"), bytes(weights, "i8"), bytes([weights.at(-2) as number], "i32")],
    build: (a, b, bias) => {
      const product = call("dot", [a as Node, b as Node], attrs);
      return [maximum(add(product, broadcastTo(bias as Node, product.shape)), 0)];
    },
    tolerance: 0,
    gradient: false,
  },
]);
