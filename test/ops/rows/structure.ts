/** @module Rows of the ops that move elements, by index formulas. */
import type { HostTensor } from "../../../src/ir/node.ts";
import type { Row } from "../../support/row.ts";
import { at, build, distinct, floats, given, ints, scalar } from "../../support/tensors.ts";

const broadcastRows: readonly Row[] = [
  {
    op: "broadcast",
    title: "new outer dim",
    inputs: [floats([4, 8])],
    attrs: { shape: [4, 4, 8], dims: [1, 2] },
    expected: (x) => [build([4, 4, 8], (_a, b, c) => at(x, [b, c]))],
    gradient: true,
    shardings: ["S(0) -> S(1)", "S(1) -> S(2)", "R -> S(0)", "P(sum) -> P(sum)"],
  },
  {
    op: "broadcast",
    title: "inner dims, as a bias of channels",
    inputs: [floats([4])],
    attrs: { shape: [8, 4, 4], dims: [1] },
    expected: (x) => [build([8, 4, 4], (_a, b) => at(x, [b]))],
    gradient: true,
    shardings: ["S(0) -> S(1)", "R -> S(0)", "R -> S(2)", "P(sum) -> P(sum)"],
  },
  {
    op: "broadcast",
    title: "stretched dim of size 1",
    inputs: [floats([4, 1])],
    attrs: { shape: [4, 8], dims: [0, 1] },
    expected: (x) => [build([4, 8], (a) => at(x, [a, 0]))],
    gradient: true,
    shardings: ["S(0) -> S(0)", "R -> S(1)", "P(sum) -> P(sum)"],
  },
  {
    op: "broadcast",
    title: "scalar",
    inputs: [scalar("i32", 7)],
    attrs: { shape: [2, 2], dims: [] },
    expected: () => [[7, 7, 7, 7]],
    gradient: false,
  },
  {
    op: "broadcast",
    title: "to nothing",
    inputs: [floats([1])],
    attrs: { shape: [0], dims: [0] },
    expected: () => [[]],
    gradient: true,
  },
];

const reshapeRows: readonly Row[] = [
  {
    op: "reshape",
    title: "merge",
    inputs: [floats([4, 4, 8])],
    attrs: { shape: [4, 32] },
    expected: (x) => [build([4, 32], (a, b) => at(x, [a, Math.floor(b / 8), b % 8]))],
    gradient: true,
    shardings: ["S(0) -> S(0)", "S(1) -> S(1)", "P(sum) -> P(sum)"],
  },
  {
    op: "reshape",
    title: "split",
    inputs: [floats([32, 4])],
    attrs: { shape: [4, 8, 4] },
    expected: (x) => [build([4, 8, 4], (a, b, c) => at(x, [a * 8 + b, c]))],
    gradient: true,
    shardings: ["S(0) -> S(0)", "S(1) -> S(2)", "P(sum) -> P(sum)"],
  },
  {
    op: "reshape",
    title: "ones come and go",
    inputs: [floats([4, 1, 8])],
    attrs: { shape: [1, 4, 8, 1] },
    expected: (x) => [build([1, 4, 8, 1], (_z, a, b) => at(x, [a, 0, b]))],
    gradient: true,
    shardings: ["S(0) -> S(1)", "S(2) -> S(2)", "P(sum) -> P(sum)"],
  },
  {
    op: "reshape",
    title: "scalar",
    inputs: [given("i32", [1, 1], [3])],
    attrs: { shape: [] },
    expected: () => [[3]],
    gradient: false,
  },
  {
    op: "reshape",
    title: "nothing",
    inputs: [given("f32", [0, 3], [])],
    attrs: { shape: [2, 0] },
    expected: () => [[]],
    gradient: true,
  },
];

const transposeRows: readonly Row[] = [
  {
    op: "transpose",
    title: "three dims",
    inputs: [floats([4, 8, 4])],
    attrs: { order: [2, 0, 1] },
    expected: (x) => [build([4, 4, 8], (a, b, c) => at(x, [b, c, a]))],
    gradient: true,
    shardings: ["S(0) -> S(1)", "S(1) -> S(2)", "S(2) -> S(0)", "P(sum) -> P(sum)"],
  },
  {
    op: "transpose",
    title: "scalar",
    inputs: [scalar("f32", 1.5)],
    attrs: { order: [] },
    expected: () => [[1.5]],
    gradient: true,
  },
  {
    op: "transpose",
    title: "bytes",
    inputs: [ints([3, 5], 0, 256, "u8")],
    attrs: { order: [1, 0] },
    expected: (x) => [build([5, 3], (a, b) => at(x, [b, a]))],
    gradient: false,
  },
];

const sliceRows: readonly Row[] = [
  {
    op: "slice",
    title: "with stride",
    inputs: [floats([8, 9])],
    attrs: { start: [0, 1], limit: [8, 8], stride: [1, 3] },
    expected: (x) => [build([8, 3], (a, b) => at(x, [a, 1 + 3 * b]))],
    gradient: true,
    shardings: ["S(0) -> S(0)", "P(sum) -> P(sum)"],
  },
  {
    op: "slice",
    title: "both dims",
    inputs: [ints([5, 4], -9, 9)],
    attrs: { start: [2, 0], limit: [5, 3], stride: [2, 1] },
    expected: (x) => [build([2, 3], (a, b) => at(x, [2 + 2 * a, b]))],
    gradient: false,
    shardings: ["P(sum) -> P(sum)"],
  },
  {
    op: "slice",
    title: "nothing",
    inputs: [floats([4])],
    attrs: { start: [2], limit: [2], stride: [1] },
    expected: () => [[]],
    gradient: true,
  },
];

/** Element of the padded tensor, from the place in it. */
const paddedAt = (
  x: HostTensor,
  value: number,
  low: readonly number[],
  interior: readonly number[],
  index: readonly number[],
): number => {
  const places = index.map((place, dim) => (place - (low[dim] as number)) / ((interior[dim] as number) + 1));
  return places.every(Number.isInteger) ? at(x, places, value) : value;
};

const padRow = (
  title: string,
  shape: readonly number[],
  low: number[],
  high: number[],
  interior: number[],
  out: readonly number[],
  shardings: readonly string[],
): Row => ({
  op: "pad",
  title,
  inputs: [floats(shape), scalar("f32", 0.5)],
  attrs: { low, high, interior },
  expected: (x, value) => [build(out, (...index) => paddedAt(x, value.data[0] as number, low, interior, index))],
  gradient: true,
  shardings,
});

const padRows: readonly Row[] = [
  padRow("edges", [4, 3], [0, 2], [0, 1], [0, 0], [4, 6], ["S(0), R -> S(0)", "P(sum), P(sum) -> P(sum)"]),
  padRow("between", [4, 3], [1, 0], [0, 0], [2, 0], [11, 3], ["S(1), R -> S(1)", "P(sum), P(sum) -> P(sum)"]),
  padRow(
    "negative amounts cut off",
    [8, 5],
    [0, -2],
    [0, -1],
    [0, 1],
    [8, 6],
    ["S(0), R -> S(0)", "P(sum), P(sum) -> P(sum)"],
  ),
  padRow(
    "more cut off than there is",
    [4, 3],
    [0, -4],
    [0, 5],
    [0, 0],
    [4, 4],
    ["S(0), R -> S(0)", "P(sum), P(sum) -> P(sum)"],
  ),
  padRow("around nothing", [0], [1], [1], [3], [2], ["P(sum), P(sum) -> P(sum)"]),
];

const moveRows: readonly Row[] = [
  {
    op: "concat",
    title: "three",
    inputs: [floats([4, 2]), floats([4, 1]), floats([4, 0])],
    attrs: { dim: 1 },
    expected: (x, y) => [build([4, 3], (a, b) => (b < 2 ? at(x, [a, b]) : at(y, [a, 0])))],
    gradient: true,
    shardings: ["S(0), S(0), S(0) -> S(0)", "P(sum), P(sum), P(sum) -> P(sum)"],
  },
  {
    op: "concat",
    title: "outer dim of integers",
    inputs: [ints([1, 4], -9, 9), ints([3, 4], -9, 9)],
    attrs: { dim: 0 },
    expected: (x, y) => [[...x.data, ...y.data]],
    gradient: false,
    shardings: ["S(1), S(1) -> S(1)", "P(sum), P(sum) -> P(sum)"],
  },
  {
    op: "reverse",
    title: "two of three dims",
    inputs: [distinct([4, 3, 2])],
    attrs: { dims: [1, 2] },
    expected: (x) => [build([4, 3, 2], (a, b, c) => at(x, [a, 2 - b, 1 - c]))],
    gradient: true,
    shardings: ["S(0) -> S(0)", "P(sum) -> P(sum)"],
  },
  {
    op: "reverse",
    title: "nothing",
    inputs: [given("f32", [0, 2], [])],
    attrs: { dims: [0] },
    expected: () => [[]],
    gradient: true,
  },
  {
    op: "iota",
    title: "inner dim",
    inputs: [],
    attrs: { dtype: "i32", shape: [4, 8], dim: 1 },
    expected: () => [build([4, 8], (_a, b) => b)],
    gradient: false,
    shardings: ["-> S(0)", "-> S(1)"],
  },
  {
    op: "iota",
    title: "outer dim of floats",
    inputs: [],
    attrs: { dtype: "f64", shape: [4, 4], dim: 0 },
    expected: () => [build([4, 4], (a) => a)],
    gradient: false,
    shardings: ["-> S(0)", "-> S(1)"],
  },
  {
    op: "iota",
    title: "u8 wraps",
    inputs: [],
    attrs: { dtype: "u8", shape: [300], dim: 0 },
    expected: () => [build([300], (a) => a % 256)],
    gradient: false,
  },
  {
    op: "constant",
    title: "float",
    inputs: [],
    attrs: { dtype: "f32", value: -0.5 },
    expected: () => [[-0.5]],
    gradient: false,
    shardings: [],
  },
  {
    op: "constant",
    title: "special values",
    inputs: [],
    attrs: { dtype: "f64", value: -0 },
    expected: () => [[-0]],
    gradient: false,
    tolerance: 0,
  },
  {
    op: "constant",
    title: "NaN",
    inputs: [],
    attrs: { dtype: "f32", value: Number.NaN },
    expected: () => [[Number.NaN]],
    gradient: false,
  },
];

export const structureRows: readonly Row[] = [
  ...broadcastRows,
  ...reshapeRows,
  ...transposeRows,
  ...sliceRows,
  ...padRows,
  ...moveRows,
];
