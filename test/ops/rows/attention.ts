/** @module Rows of attention and its gradient: sums over keys, one score after the other. */
import type { HostTensor, Node } from "../../../src/ir/node.ts";
import { attention, call, mul, resultsOf, sum } from "../../support/nodes.ts";
import type { Row } from "../../support/row.ts";
import { at, bools, build, floats, given, indices } from "../../support/tensors.ts";

const { NaN: nan } = Number;

interface Asked {
  readonly causal?: boolean;
  readonly scale?: number;
}

/** The index into a mask, whose sizes of 1 serve all. */
const alike = (mask: HostTensor, index: readonly number[]): number =>
  at(
    mask,
    index.map((place, dim) => (mask.shape[dim] === 1 ? 0 : place)),
  );

/** Output and log of sums, for queries `[g, r, n, d]`. */
function naive({ causal = false, scale = 0.5 }: Asked) {
  return (q: HostTensor, k: HostTensor, v: HostTensor, mask?: HostTensor): [number[], number[]] => {
    const [g, r, n, d] = q.shape as [number, number, number, number];
    const [m, e] = v.shape.slice(-2) as [number, number];
    const scores = (a: number, b: number, i: number): number[] =>
      build([m], (j) => {
        let score = 0;
        for (let place = 0; place < d; place++) score += at(q, [a, b, i, place]) * at(k, [a, j, place]);
        score *= scale;
        if (mask?.dtype === "bool" && alike(mask, [a, b, i, j]) === 0) score = -Infinity;
        else if (mask !== undefined && mask.dtype !== "bool") score += alike(mask, [a, b, i, j]);
        return causal && j > i ? -Infinity : score;
      });
    const logOf = (row: readonly number[]): number => {
      const top = Math.max(...row);
      return top === -Infinity ? top : top + Math.log(row.reduce((total, score) => total + Math.exp(score - top), 0));
    };
    const rows = indices([g, r, n]).map((query) => {
      const row = scores(...(query as [number, number, number]));
      return { row, log: logOf(row) };
    });
    const out = build([g, r, n, e], (a, b, i, c) => {
      const query = ((a as number) * r + (b as number)) * n + (i as number);
      const { row, log } = rows[query] as (typeof rows)[number];
      if (log === -Infinity) return 0;
      return row.reduce((total, score, j) => total + Math.exp(score - log) * at(v, [a as number, j, c as number]), 0);
    });
    return [out, rows.map(({ log }) => log)];
  };
}

const attrs = (given: {
  causal?: boolean;
  scale?: number;
  masked?: boolean;
  rate?: number;
  total?: readonly number[];
}) => ({
  causal: false,
  scale: 0.5,
  masked: false,
  rate: 0,
  total: [],
  ...given,
});

/** The op, both of its results. */
const both =
  (own: ReturnType<typeof attrs>) =>
  (...inputs: Node[]): readonly Node[] =>
    resultsOf(call("attention", inputs, own));

const qkv = (g: number, r: number, n: number, m: number, d: number, e: number) => [
  floats([g, r, n, d]),
  floats([g, m, d]),
  floats([g, m, e]),
];

const key = given("u32", [2], [7, 11]);
const start = given("i32", [4], [0, 0, 0, 0]);

/** Losses by all of the op's gradients would be many: one of the sum of its results, weighed by themselves. */
const gradientOf =
  (own: ReturnType<typeof attrs>) =>
  (...inputs: Node[]) =>
    resultsOf(call("attentionGrad", inputs, own));

export const attentionTable: readonly Row[] = [
  {
    op: "attention",
    title: "heads of their own",
    inputs: qkv(4, 1, 4, 5, 3, 2),
    build: both(attrs({})),
    expected: naive({}),
    gradient: true,
    shardings: ["S(0), S(0), S(0) -> S(0), S(0)", "S(1), R, R -> S(1), S(1)", "S(2), R, R -> S(2), S(2)"],
  },
  {
    op: "attention",
    title: "groups, causal",
    inputs: qkv(4, 4, 4, 5, 3, 2),
    build: both(attrs({ causal: true, scale: 1 })),
    expected: naive({ causal: true, scale: 1 }),
    gradient: true,
    shardings: ["S(0), S(0), S(0) -> S(0), S(0)", "S(1), R, R -> S(1), S(1)"],
  },
  {
    op: "attention",
    title: "a mask of columns, and one row that sees nothing",
    inputs: [...qkv(2, 2, 3, 4, 2, 2), given("bool", [1, 1, 3, 4], [1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1])],
    build: (...inputs) => [both(attrs({ masked: true }))(...inputs)[0] as Node],
    expected: (q, k, v, mask) => [naive({})(q, k, v, mask)[0]],
    gradient: true,
  },
  {
    op: "attention",
    title: "a mask that is added",
    inputs: [...qkv(2, 2, 3, 4, 2, 2), floats([2, 1, 3, 4])],
    build: both(attrs({ masked: true })),
    expected: naive({}),
    gradient: true,
  },
  {
    op: "attention",
    title: "more blocks than one",
    inputs: [...qkv(2, 2, 130, 260, 8, 4), bools([2, 1, 1, 260])],
    build: both(attrs({ masked: true, causal: true })),
    expected: naive({ causal: true }),
    gradient: false,
  },
  {
    op: "attention",
    title: "huge scores and NaN",
    inputs: [
      given("f32", [1, 1, 2, 1], [1000, nan]),
      given("f32", [1, 2, 1], [1, -1]),
      given("f32", [1, 2, 1], [3, 5]),
    ],
    build: (...inputs) => [both(attrs({ scale: 1 }))(...inputs)[0] as Node],
    expected: () => [[3, nan]],
    gradient: false,
  },
  {
    op: "attention",
    title: "dropped weights",
    inputs: [...qkv(4, 4, 4, 8, 3, 2), key, start],
    build: both(attrs({ rate: 0.5, total: [4, 4, 4, 8] })),
    gradient: true,
    shardings: [
      "S(0), S(0), S(0), R, R -> S(0), S(0)",
      "S(1), R, R, R, R -> S(1), S(1)",
      "S(2), R, R, R, R -> S(2), S(2)",
    ],
  },
  {
    op: "attention",
    title: "dropped weights, two leading dims, more blocks than one",
    inputs: [floats([2, 1, 2, 70, 4]), floats([2, 1, 140, 4]), floats([2, 1, 140, 3]), key],
    build: (q, k, v, word) => [
      attention(q as Node, k as Node, v as Node, { causal: true, scale: 0.5, rate: 0.25, key: word as Node }),
    ],
    gradient: false,
  },
  {
    op: "attentionGrad",
    title: "heads of their own",
    inputs: [...qkv(4, 1, 4, 5, 3, 2), floats([4, 1, 4], 2, 3), floats([4, 1, 4]), floats([4, 1, 4, 2])],
    build: gradientOf(attrs({})),
    gradient: true,
    shardings: [
      "S(0), S(0), S(0), S(0), S(0), S(0) -> S(0), S(0), S(0)",
      "S(1), R, R, S(1), S(1), S(1) -> S(1), P(sum), P(sum)",
      "S(2), R, R, S(2), S(2), S(2) -> S(2), P(sum), P(sum)",
    ],
  },
  {
    op: "attentionGrad",
    title: "of the op, over blocks, with a mask and groups",
    inputs: [...qkv(1, 2, 130, 260, 8, 4), bools([1, 1, 130, 260]), floats([1, 2, 130, 4])],
    build: (q, k, v, mask, dy) => {
      const own = attrs({ masked: true, causal: true });
      const [out, lse] = both(own)(q as Node, k as Node, v as Node, mask as Node) as [Node, Node];
      const delta = sum(mul(out, dy as Node), -1);
      return gradientOf(own)(q as Node, k as Node, v as Node, lse, delta, dy as Node, mask as Node);
    },
    gradient: false,
    tolerance: 1e-4,
  },
  {
    op: "attentionGrad",
    title: "dropped weights",
    inputs: [
      ...qkv(2, 2, 70, 5, 3, 2),
      floats([2, 2, 70], 2, 3),
      floats([2, 2, 70]),
      floats([2, 2, 70, 2]),
      key,
      start,
    ],
    build: gradientOf(attrs({ rate: 0.5, total: [2, 2, 70, 5] })),
    gradient: false,
  },
];
