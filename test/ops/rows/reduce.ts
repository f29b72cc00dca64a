/** @module Rows of reductions, windows and argMax, by loops over indices. */
import type { HostTensor } from "../../../src/ir/node.ts";
import type { Row } from "../../support/row.ts";
import { at, bools, build, distinct, floats, given, indices, ints, total } from "../../support/tensors.ts";

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

interface Windows {
  readonly op: "max" | "min" | "sum" | "prod" | "and" | "or";
  readonly window: number[];
  readonly strides: number[];
  readonly padding: [number, number][];
  readonly dilation?: number[];
}

/** The places of the input that a window covers, in row-major order. */
function covered(
  x: HostTensor,
  { window, strides, padding, dilation }: Windows,
  position: readonly number[],
): number[][] {
  return indices(window)
    .map((tap) =>
      tap.map(
        (step, dim) =>
          (position[dim] as number) * (strides[dim] as number) +
          step * (dilation?.[dim] ?? 1) -
          (padding[dim]?.[0] as number),
      ),
    )
    .filter((place) => place.every((index, dim) => index >= 0 && index < (x.shape[dim] as number)));
}

function winner(x: HostTensor, windows: Windows, position: readonly number[]): number[] {
  const better = (a: number, b: number): boolean => (windows.op === "max" ? a > b : a < b);
  return covered(x, windows, position).reduce((best, place) => (better(at(x, place), at(x, best)) ? place : best));
}

const pool: Windows = {
  op: "max",
  window: [1, 2, 2, 1],
  strides: [1, 2, 2, 1],
  padding: [
    [0, 0],
    [0, 0],
    [0, 0],
    [0, 0],
  ],
};
const overlapping: Windows = {
  op: "max",
  window: [1, 3, 2],
  strides: [1, 2, 1],
  padding: [
    [0, 0],
    [1, 1],
    [0, 1],
  ],
};
const minimum: Windows = { ...overlapping, op: "min" };
const sums: Windows = { ...overlapping, op: "sum" };
const products: Windows = { ...overlapping, op: "prod" };
const gaps: Windows = {
  ...overlapping,
  dilation: [1, 2, 3],
  padding: [
    [0, 0],
    [2, 2],
    [1, 2],
  ],
};
const volumes: Windows = {
  op: "max",
  window: [1, 2, 2, 3, 1],
  strides: [1, 1, 2, 1, 1],
  padding: [
    [0, 0],
    [1, 0],
    [0, 1],
    [1, 1],
    [0, 0],
  ],
};

const folds: { readonly [op in Windows["op"]]?: (values: readonly number[]) => number } = {
  sum: total,
  prod: (values) => values.reduce((a, b) => a * b, 1),
  and: (values) => values.reduce((a, b) => a & b, -1),
  or: (values) => values.reduce((a, b) => a | b, 0),
};

const reduced = (x: HostTensor, windows: Windows, out: readonly number[]): number[] =>
  build(out, (...position) => {
    const fold = folds[windows.op];
    return fold === undefined
      ? at(x, winner(x, windows, position))
      : fold(covered(x, windows, position).map((place) => at(x, place)));
  });

const scattered = (x: HostTensor, source: HostTensor, windows: Windows): number[] =>
  build(x.shape, (...place) =>
    total(
      indices(source.shape).map((position) =>
        String(winner(x, windows, position)) === String(place) ? at(source, position) : 0,
      ),
    ),
  );

const windowed = (
  title: string,
  windows: Windows,
  shape: readonly number[],
  out: readonly number[],
  unaryShardings: readonly string[],
  binaryShardings: readonly string[],
): Row[] => [
  {
    op: "reduceWindow",
    title,
    inputs: [windows.op === "prod" ? floats(shape) : distinct(shape)],
    attrs: { ...windows },
    expected: (x) => [reduced(x, windows, out)],
    // Differences of large products.
    gradient: windows.op === "prod" ? { step: 1e-5, tolerance: 1e-6 } : true,
    shardings: [...unaryShardings, ...(windows.op === "sum" ? ["P(sum) -> P(sum)"] : [])],
  },
  ...(folds[windows.op] !== undefined
    ? []
    : [
        {
          op: "selectAndScatter",
          title,
          inputs: [distinct(shape), floats(out)],
          attrs: { ...windows },
          expected: (x: HostTensor, source: HostTensor) => [scattered(x, source, windows)],
          gradient: true,
          shardings: [...binaryShardings, "R, P(sum) -> P(sum)"],
        },
        {
          op: "windowTake",
          title,
          inputs: [distinct(shape), floats(shape)],
          attrs: { ...windows },
          expected: (x: HostTensor, source: HostTensor) => [
            build(out, (...position) => at(source, winner(x, windows, position))),
          ],
          gradient: true,
          shardings: [...binaryShardings, "R, P(sum) -> P(sum)"],
        },
      ]),
];

const [batch, channels] = ["S(0) -> S(0)", "S(3) -> S(3)"];
const [batches, channelsOfBoth] = ["S(0), S(0) -> S(0)", "S(3), S(3) -> S(3)"];

const windowRows: readonly Row[] = [
  ...windowed("pooling", pool, [4, 4, 4, 4], [4, 2, 2, 4], [batch, channels], [batches, channelsOfBoth]),
  ...windowed("overlap and padding", overlapping, [4, 6, 4], [4, 3, 4], [batch], [batches]),
  ...windowed("minimum", minimum, [4, 6, 4], [4, 3, 4], [batch], [batches]),
  ...windowed("sums", sums, [4, 6, 4], [4, 3, 4], [batch], []),
  ...windowed("products", products, [4, 6, 4], [4, 3, 4], [batch], []),
  ...windowed("gaps", gaps, [4, 6, 4], [4, 3, 4], [batch], [batches]),
  ...windowed("sums with gaps", { ...gaps, op: "sum" }, [4, 6, 4], [4, 3, 4], [batch], []),
  ...windowed("products with gaps", { ...gaps, op: "prod" }, [4, 6, 4], [4, 3, 4], [batch], []),
  ...windowed(
    "volumes",
    volumes,
    [4, 3, 4, 3, 4],
    [4, 3, 2, 3, 4],
    ["S(0) -> S(0)", "S(4) -> S(4)"],
    ["S(0), S(0) -> S(0)", "S(4), S(4) -> S(4)"],
  ),
  ...windowed(
    "sums of volumes",
    { ...volumes, op: "sum" },
    [4, 3, 4, 3, 4],
    [4, 3, 2, 3, 4],
    ["S(0) -> S(0)", "S(4) -> S(4)"],
    [],
  ),
  {
    op: "reduceWindow",
    title: "or of truth values",
    inputs: [bools([4, 6, 4])],
    attrs: { ...overlapping, op: "or" },
    expected: (x) => [reduced(x, { ...overlapping, op: "or" }, [4, 3, 4])],
    gradient: false,
  },
  {
    op: "reduceWindow",
    title: "and of bits",
    inputs: [ints([4, 6, 4], -9, 9)],
    attrs: { ...overlapping, op: "and" },
    expected: (x) => [reduced(x, { ...overlapping, op: "and" }, [4, 3, 4])],
    gradient: false,
  },
];

const flat: Windows = {
  op: "max",
  window: [1, 2],
  strides: [1, 2],
  padding: [
    [0, 0],
    [0, 0],
  ],
};
const tied = given("f32", [1, 6], [2, 2, nan, nan, 1, nan]);
const windowTies: readonly Row[] = [
  {
    op: "reduceWindow",
    title: "NaN wins",
    inputs: [tied],
    attrs: { ...flat },
    expected: () => [[2, nan, nan]],
    gradient: false,
  },
  {
    op: "selectAndScatter",
    title: "first of ties, first NaN",
    inputs: [tied, given("f32", [1, 3], [5, 6, 7])],
    attrs: { ...flat },
    expected: () => [[5, 0, 6, 0, 0, 7]],
    gradient: false,
  },
  {
    op: "windowTake",
    title: "first of ties, first NaN",
    inputs: [tied, given("f32", [1, 6], [1, 2, 3, 4, 5, 6])],
    attrs: { ...flat },
    expected: () => [[1, 3, 6]],
    gradient: false,
  },
  {
    op: "reduceWindow",
    title: "integer sums",
    inputs: [ints([2, 6], -9, 9)],
    attrs: { ...flat, op: "sum" },
    expected: (x) => [reduced(x, { ...flat, op: "sum" }, [2, 3])],
    gradient: false,
  },
  {
    op: "reduceWindow",
    title: "no rows",
    inputs: [given("f32", [0, 4], [])],
    attrs: { ...flat },
    expected: () => [[]],
    gradient: true,
  },
];

export const reduceTable: readonly Row[] = [
  ...reduceRows,
  ...prodRows,
  ...argMaxRows,
  ...cumsumRows,
  ...cumulativeRows,
  ...windowRows,
  ...windowTies,
];
