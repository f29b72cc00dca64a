/** @module Rows of what is combined up to each element, by loops over indices. */
import type { HostTensor } from "../../../src/ir/node.ts";
import type { Row } from "../../support/row.ts";
import { at, build, distinct, floats, given, ints, total } from "../../support/tensors.ts";

const row = (x: HostTensor, a: number): number[] => build([x.shape[1] as number], (b) => at(x, [a, b]));
const nan = Number.NaN;

/** The elements up to each one, combined from the left. */
const upTo = (x: HostTensor, fold: (a: number, b: number) => number): number[] =>
  build(x.shape, (a, b) =>
    row(x, a as number)
      .slice(0, (b as number) + 1)
      .reduce(fold),
  );
const logAdd = (a: number, b: number): number => {
  const larger = Math.max(a, b);
  return Math.abs(larger) === Infinity ? larger : larger + Math.log(Math.exp(a - larger) + Math.exp(b - larger));
};

const cumulativeRows: readonly Row[] = [
  {
    op: "cumulative",
    title: "prod",
    inputs: [given("f32", [2, 5], [1.5, -2, 0, 3, 2, 0.5, 3, -1, 2, 2])],
    attrs: { kind: "prod", dim: 1 },
    expected: (x) => [upTo(x, (a, b) => a * b)],
    gradient: true,
  },
  {
    op: "cumulative",
    title: "max",
    inputs: [distinct([4, 9])],
    attrs: { kind: "max", dim: 1 },
    expected: (x) => [upTo(x, (a, b) => Math.max(a, b))],
    gradient: true,
  },
  {
    op: "cumulative",
    title: "min",
    inputs: [distinct([4, 5])],
    attrs: { kind: "min", dim: 1 },
    expected: (x) => [upTo(x, (a, b) => Math.min(a, b))],
    gradient: true,
  },
  {
    op: "cumulative",
    title: "logSumExp",
    inputs: [floats([4, 6])],
    attrs: { kind: "logSumExp", dim: 1 },
    expected: (x) => [upTo(x, logAdd)],
    gradient: true,
  },
  {
    op: "cumulative",
    title: "logSumExp of extremes",
    inputs: [given("f32", [2, 5], [-Infinity, -Infinity, -2000, 1000, 2000, 3000, 1, Infinity, nan, 1])],
    attrs: { kind: "logSumExp", dim: 1 },
    expected: () => [[-Infinity, -Infinity, -2000, 1000, 2000, 3000, 3000, Infinity, nan, nan]],
    gradient: false,
  },
  ...[1, 3, 8, 17, 33].flatMap((size) =>
    (["max", "min", "prod"] as const).map(
      (kind): Row => ({
        op: "cumulative",
        title: `${kind} of ${size} with NaN at each place`,
        inputs: [
          given(
            "f32",
            [size, size],
            build([size, size], (a, b) => (a === b ? nan : 1)),
          ),
        ],
        attrs: { kind, dim: 1 },
        expected: () => [build([size, size], (a, b) => ((b as number) >= (a as number) ? nan : 1))],
        gradient: false,
      }),
    ),
  ),
];

const cumsumRows: readonly Row[] = [
  {
    op: "cumulative",
    title: "inner dim",
    inputs: [floats([4, 9])],
    attrs: { kind: "sum", dim: 1 },
    expected: (x) => [build([4, 9], (a, b) => total(row(x, a).slice(0, b + 1)))],
    gradient: true,
    shardings: ["S(0) -> S(0)", "P(sum) -> P(sum)"],
  },
  {
    op: "cumulative",
    title: "outer dim of integers that wrap",
    inputs: [given("i32", [3, 2], [2147483647, 1, 1, 2, -5, 3])],
    attrs: { kind: "sum", dim: 0 },
    expected: () => [[2147483647, 1, -2147483648, 3, 2147483643, 6]],
    gradient: false,
  },
  ...[0, 1, 2, 5].map(
    (size): Row => ({
      op: "cumulative",
      title: `${size} bytes`,
      inputs: [ints([size], 0, 256, "u8")],
      attrs: { kind: "sum", dim: 0 },
      expected: (x) => [build([size], (at) => total([...x.data].slice(0, at + 1)) % 256)],
      gradient: false,
    }),
  ),
];

export const cumulativeTable: readonly Row[] = [...cumulativeRows, ...cumsumRows];
