/** @module Rows of reductions and argMax, by loops over indices. */
import type { HostTensor } from "../../../src/ir/node.ts";
import type { Row } from "../../support/row.ts";
import { at, bools, build, distinct, floats, given, total } from "../../support/tensors.ts";

const row = (x: HostTensor, a: number): number[] => build([x.shape[1] as number], (b) => at(x, [a, b]));
const nan = Number.NaN;

const reduceRows: readonly Row[] = [
  {
    op: "reduce",
    title: "sum of inner dim",
    inputs: [floats([4, 8])],
    attrs: { op: "sum", dims: [1] },
    expected: (x) => [build([4], (a) => total(row(x, a)))],
    gradient: true,
    shardings: ["S(0) -> S(0)", "S(1) -> P(sum)", "P(sum) -> P(sum)"],
  },
  {
    op: "reduce",
    title: "sum of outer and inner dims",
    inputs: [floats([4, 8, 4])],
    attrs: { op: "sum", dims: [0, 2] },
    expected: (x) => [build([8], (b) => total(build([4, 4], (a, c) => at(x, [a, b, c]))))],
    gradient: true,
    shardings: ["S(0) -> P(sum)", "S(1) -> S(0)", "S(2) -> P(sum)", "P(sum) -> P(sum)"],
  },
  {
    op: "reduce",
    title: "max",
    inputs: [distinct([4, 8])],
    attrs: { op: "max", dims: [0] },
    expected: (x) => [build([8], (b) => [0, 1, 2, 3].map((a) => at(x, [a, b])).sort((p, q) => q - p)[0] as number)],
    gradient: true,
    shardings: ["S(0) -> P(max)", "S(1) -> S(0)"],
  },
  {
    op: "reduce",
    title: "min",
    inputs: [distinct([4, 8])],
    attrs: { op: "min", dims: [1] },
    expected: (x) => [build([4], (a) => row(x, a).sort((p, q) => p - q)[0] as number)],
    gradient: true,
    shardings: ["S(0) -> S(0)", "S(1) -> P(min)"],
  },
  {
    op: "reduce",
    title: "min of all, by rows",
    inputs: [distinct([66, 264])],
    attrs: { op: "min", dims: [0, 1] },
    expected: (x) => [
      [build([66], (a) => row(x, a).reduce((p, q) => Math.min(p, q))).reduce((p, q) => Math.min(p, q))],
    ],
    gradient: false,
  },
  {
    op: "reduce",
    title: "and",
    inputs: [bools([8, 4])],
    attrs: { op: "and", dims: [1] },
    expected: (x) => [build([8], (a) => Number(row(x, a).every((value) => value === 1)))],
    gradient: false,
    shardings: ["S(0) -> S(0)"],
  },
  {
    op: "reduce",
    title: "or",
    inputs: [bools([8, 4])],
    attrs: { op: "or", dims: [0] },
    expected: (x) => [build([4], (b) => Number([0, 1, 2, 3, 4, 5, 6, 7].some((a) => at(x, [a, b]) === 1)))],
    gradient: false,
    shardings: ["S(1) -> S(0)"],
  },
  {
    op: "reduce",
    title: "and of bits",
    inputs: [given("u8", [3], [255, 7, 13])],
    attrs: { op: "and", dims: [0] },
    expected: () => [[5]],
    gradient: false,
  },
  {
    op: "reduce",
    title: "or of bits",
    inputs: [given("i32", [3], [-8, 1, 2])],
    attrs: { op: "or", dims: [0] },
    expected: () => [[-5]],
    gradient: false,
  },
  {
    op: "reduce",
    title: "integer sums wrap",
    inputs: [given("i32", [2], [2147483647, 1])],
    attrs: { op: "sum", dims: [0] },
    expected: () => [[-2147483648]],
    gradient: false,
  },
  {
    op: "reduce",
    title: "u8 sums wrap",
    inputs: [given("u8", [3], [200, 100, 1])],
    attrs: { op: "sum", dims: [0] },
    expected: () => [[45]],
    gradient: false,
  },
  {
    op: "reduce",
    title: "max of unsigned above 2^31",
    inputs: [given("u32", [3], [1, 4294967295, 7])],
    attrs: { op: "max", dims: [0] },
    expected: () => [[4294967295]],
    gradient: false,
  },
  {
    op: "reduce",
    title: "sum of nothing is 0",
    inputs: [given("f32", [2, 0], [])],
    attrs: { op: "sum", dims: [1] },
    expected: () => [[0, 0]],
    gradient: true,
  },
  {
    op: "reduce",
    title: "no dims",
    inputs: [floats([3])],
    attrs: { op: "sum", dims: [] },
    expected: (x) => [[...x.data]],
    gradient: true,
  },
  {
    op: "reduce",
    title: "size-1 dim",
    inputs: [floats([3, 1])],
    attrs: { op: "max", dims: [1] },
    expected: (x) => [[...x.data]],
    gradient: true,
  },
  {
    op: "reduce",
    title: "infinities",
    inputs: [given("f32", [2, 2], [Infinity, 1, Infinity, -Infinity])],
    attrs: { op: "sum", dims: [1] },
    expected: () => [[Infinity, nan]],
    gradient: false,
  },
  {
    op: "reduce",
    title: "max of -inf",
    inputs: [given("f32", [2], [-Infinity, -Infinity])],
    attrs: { op: "max", dims: [0] },
    expected: () => [[-Infinity]],
    gradient: false,
  },
  // NaN must win wherever it stands and whatever the vector width.
  ...[1, 3, 4, 7, 8, 9, 15, 16, 17, 33].flatMap((size) =>
    (["max", "min"] as const).map(
      (op): Row => ({
        op: "reduce",
        title: `${op} of ${size} with NaN at each place`,
        inputs: [
          given(
            "f32",
            [size, size],
            build([size, size], (a, b) => (a === b ? nan : b + 1)),
          ),
        ],
        attrs: { op, dims: [1] },
        expected: () => [new Array<number>(size).fill(nan)],
        gradient: false,
      }),
    ),
  ),
];

const prodRows: readonly Row[] = [
  ...[0, 1, 2, 5, 8, 33].map(
    (size): Row => ({
      op: "reduce",
      title: `prod of ${size}`,
      inputs: [floats([4, size])],
      attrs: { op: "prod", dims: [1] },
      expected: (x) => [build([4], (a) => row(x, a).reduce((p, q) => p * q, 1))],
      gradient: size > 8 ? false : { step: 1e-5, tolerance: 1e-6 },
      ...(size === 8 ? { shardings: ["S(0) -> S(0)"] } : {}),
    }),
  ),
  {
    op: "reduce",
    title: "prod of outer and inner dims, with zeros",
    inputs: [given("f32", [2, 3, 2], [0, 2, 3, 4, 0.5, 6, 2, 0, 3, -1, 2, 0])],
    attrs: { op: "prod", dims: [0, 2] },
    expected: () => [[0, -36, 0]],
    gradient: true,
  },
  {
    op: "reduce",
    title: "integer prods wrap",
    inputs: [given("i32", [3], [65536, 65537, 3])],
    attrs: { op: "prod", dims: [0] },
    expected: () => [[196608]],
    gradient: false,
  },
];

const argMaxRows: readonly Row[] = [
  {
    op: "argMax",
    title: "inner dim",
    inputs: [distinct([4, 8])],
    attrs: { dim: 1 },
    expected: (x) => [build([4], (a) => row(x, a).indexOf(row(x, a).sort((p, q) => q - p)[0] as number))],
    gradient: false,
    shardings: ["S(0) -> S(0)"],
  },
  {
    op: "argMax",
    title: "outer dim of integers, first of ties",
    inputs: [given("i32", [3, 4], [1, 5, 2, 0, 9, 5, 2, 0, 9, 4, 3, 0])],
    attrs: { dim: 0 },
    expected: () => [[1, 0, 2, 0]],
    gradient: false,
    shardings: ["S(1) -> S(0)"],
  },
  {
    op: "argMax",
    title: "the first NaN wins",
    inputs: [given("f32", [3, 3], [1, nan, nan, nan, 5, nan, Infinity, 1, 2])],
    attrs: { dim: 1 },
    expected: () => [[1, 0, 0]],
    gradient: false,
  },
  {
    op: "argMax",
    title: "no rows",
    inputs: [given("f32", [0, 3], [])],
    attrs: { dim: 1 },
    expected: () => [[]],
    gradient: false,
  },
  {
    op: "argMax",
    title: "-inf alone",
    inputs: [given("f32", [2], [-Infinity, -Infinity])],
    attrs: { dim: 0 },
    expected: () => [[0]],
    gradient: false,
  },
];

export const reduceTable: readonly Row[] = [...reduceRows, ...prodRows, ...argMaxRows];
