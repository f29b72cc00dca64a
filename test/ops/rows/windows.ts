/** @module Rows of reductions over windows and of their gradients, by loops over indices. */
import type { HostTensor } from "../../../src/ir/node.ts";
import type { Row } from "../../support/row.ts";
import { at, bools, build, distinct, floats, given, indices, ints, total } from "../../support/tensors.ts";

const nan = Number.NaN;

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

/** More than three dims from the first to the last. */
const apart: Windows = {
  op: "max",
  window: [2, 1, 1, 2, 2],
  strides: [1, 1, 1, 2, 1],
  padding: [
    [0, 0],
    [0, 0],
    [0, 0],
    [1, 0],
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

const scattered = (x: HostTensor, source: HostTensor, windows: Windows): number[] => {
  const sums = new Map<string, number>();
  for (const position of indices(source.shape)) {
    const place = String(winner(x, windows, position));
    sums.set(place, (sums.get(place) ?? 0) + at(source, position));
  }
  return build(x.shape, (...place) => sums.get(String(place)) ?? 0);
};

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
const unmoved = ["S(1) -> S(1)", "S(2) -> S(2)"];
const unmovedOfBoth = ["S(1), S(1) -> S(1)", "S(2), S(2) -> S(2)"];
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
  ...windowed("dims apart", apart, [3, 4, 2, 3, 2], [2, 4, 2, 2, 1], unmoved, unmovedOfBoth),
  ...windowed("sums of dims apart", { ...apart, op: "sum" }, [3, 4, 2, 3, 2], [2, 4, 2, 2, 1], unmoved, []),
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

export const windowTable: readonly Row[] = [...windowRows, ...windowTies];
