/** @module Rows of the scalar functions beyond exp and log, with values of mpmath, special values, and bits. */
import type { Node } from "../../../src/ir/node.ts";
import { full, isInf, isNaN, polygamma } from "../../../src/ops/index.ts";
import { fixture } from "../../fixtures/fixture.ts";
import type { Row } from "../../support/row.ts";
import { floats, given, ints, type Source } from "../../support/tensors.ts";

interface Case {
  readonly op: string;
  readonly inputs: readonly (readonly number[])[];
  readonly value: readonly number[];
}

const shape = [4, 8];
const unary = ["S(0) -> S(0)", "S(1) -> S(1)"];
const binary = ["S(0), S(0) -> S(0)", "S(1), S(1) -> S(1)"];

/** By order 0 and up; as an input it is constant, which differences are not. */
const constantInFirst = new Set(["polygamma"]);

const known = fixture<Case>("functions").map(
  ({ op, inputs, value }): Row => ({
    op,
    title: "values of mpmath",
    inputs: inputs.map((values) => given("f32", shape, values)),
    expected: () => [value],
    gradient: !constantInFirst.has(op),
    shardings: inputs.length === 1 ? unary : binary,
  }),
);

/** The derivatives of digamma by their argument. */
const byArgument: Row = {
  op: "polygamma",
  title: "order 1",
  inputs: [floats(shape, 0.5, 4)],
  build: (x) => [polygamma(full((x as Node).dtype, shape, 1), x as Node)],
  gradient: true,
};

const [nan, inf] = [Number.NaN, Infinity];
const special = [nan, inf, -inf, 0, -0];
const half = Math.PI / 2;
/** Values at NaN, inf, -inf, 0, -0. */
const specialValues: { readonly [op: string]: readonly number[] } = {
  trunc: [nan, inf, -inf, 0, -0],
  tan: [nan, nan, nan, 0, -0],
  atan: [nan, half, -half, 0, -0],
  asin: [nan, nan, nan, 0, -0],
  acos: [nan, nan, nan, half, half],
  sinh: [nan, inf, -inf, 0, -0],
  cosh: [nan, inf, inf, 1, 1],
  asinh: [nan, inf, -inf, 0, -0],
  acosh: [nan, inf, nan, nan, nan],
  atanh: [nan, nan, nan, 0, -0],
  exp2: [nan, inf, 0, 1, 1],
  log2: [nan, inf, nan, -inf, -inf],
  cbrt: [nan, inf, -inf, 0, -0],
  erfc: [nan, 0, 2, 1, 1],
  erfInv: [nan, nan, nan, 0, -0],
  lgamma: [nan, inf, inf, inf, inf],
  digamma: [nan, inf, nan, -inf, inf],
};

const specialRows = Object.entries(specialValues).map(
  ([op, values]): Row => ({
    op,
    title: "special values",
    inputs: [given("f32", [5], special)],
    expected: () => [values.map(Math.fround)],
    gradient: false,
    tolerance: 0,
    single: true,
  }),
);

const exact = (op: string, title: string, inputs: readonly Source[], values: readonly number[]): Row => ({
  op,
  title,
  inputs,
  expected: () => [values],
  gradient: false,
  tolerance: 0,
});

const row = (dtype: "i32" | "u32" | "u8" | "f32", values: readonly number[]): Source =>
  given(dtype, [values.length], values);
const lowest = -2147483648;

// On both sides of poles below 0: 1 less so little would be 1, so the distance to the pole must be taken before anything else.
const besidePoles = row("f32", [-1e-30, -1e-6, 2 ** -24 - 1, -1 - 2 ** -23, -2 - 2 ** -22, 2 ** -22 - 3]);
// The last is the least normal number.
const tiny = row("f32", [1e-30, 1e-37, 2 ** -126]);
/** Of mpmath. */
const gammas: readonly (readonly [string, string, Source, readonly number[]])[] = [
  ["lgamma", "tiny numbers", tiny, [69.07755278665, 85.195648449682, 87.336544750553]],
  ["digamma", "tiny numbers", tiny, [-1e30, -1e37, -(2 ** 126)]],
  [
    "lgamma",
    "beside poles",
    besidePoles,
    [69.07755278665, 13.815511137706, 16.635532358639, 15.942385102479, 14.55609057175, 13.457478802573],
  ],
  [
    "digamma",
    "beside poles",
    besidePoles,
    [1e30, 999999.425307447, -16777215.577215508, 8388608.42278402, 4194304.922783645, -4194302.743881615],
  ],
];

const largeNumbers = row("f32", [1e5, Math.fround(3e10), 2 ** 100, Math.fround(3e38), -16367173]);
/** Of mpmath. */
const large: readonly (readonly [string, readonly number[]])[] = [
  ["sin", [0.035748797972, -0.993267734934, -0.872183605418, 0.874904887764, -0.079146807342]],
  ["cos", [-0.999360807438, -0.115841299794, 0.489178656974, -0.484294783541, -0.996862970968]],
  ["tan", [-0.035771662952, 8.574383546263, -1.782955149376, -1.806554432335, 0.079395874505]],
];

const endRows: readonly Row[] = [
  exact("trunc", "toward zero", [row("f32", [-0.5, -1.5, 1.5, 8388609])], [-0, -1, 1, 8388609]),
  exact("log2", "powers of 2", [row("f32", [1, 2, 0.125, 1024])], [0, 1, -3, 10]),
  exact("exp2", "whole numbers", [row("f32", [0, 3, -2, 127, 2000])], [1, 8, 0.25, 2 ** 127, inf]),
  exact("erfInv", "ends", [row("f32", [1, -1, 2])], [inf, -inf, nan]),
  ...large.map(([op, values]) => ({ ...exact(op, "large numbers", [largeNumbers], values), tolerance: 1e-6 })),
  exact("atanh", "ends", [row("f32", [1, -1, 2])], [inf, -inf, nan]),
  exact("acosh", "ends", [row("f32", [1, 0.5, -3])], [0, nan, nan]),
  exact("lgamma", "poles", [row("f32", [-1, -2])], [inf, inf]),
  exact("digamma", "poles", [row("f32", [-1, -2])], [nan, nan]),
  ...gammas.map(([op, title, at, values]) => ({ ...exact(op, title, [at], values), tolerance: 1e-6 })),
  {
    op: "polygamma",
    title: "high orders",
    inputs: [row("f32", [30, 20]), row("f32", [20, 3.5])],
    // Of mpmath.
    expected: () => [[-1.59402668621415e-8, -9182070.204945628]],
    gradient: false,
    tolerance: 1e-6,
  },
  exact("polygamma", "what is no order", [row("f32", [0.5, -1]), row("f32", [1, 1])], [nan, nan]),
  {
    ...exact(
      "atan2",
      "zeros and infinities",
      [row("f32", [0, -0, 0, -0, 1, inf, inf, nan]), row("f32", [1, 1, -1, -1, 0, inf, -inf, 1])],
      [0, -0, Math.PI, -Math.PI, half, half / 2, 1.5 * half, nan].map(Math.fround),
    ),
    single: true,
  },
];

const ones = (bits: string): number => bits.replaceAll("0", "").length;
const binaryOf = (x: number): string => (x >>> 0).toString(2);

const bits: readonly Row[] = [
  {
    op: "popcount",
    title: "integers",
    inputs: [ints(shape, lowest, 2147483647)],
    expected: (x) => [Array.from(x.data, (value) => ones(binaryOf(value)))],
    gradient: false,
    shardings: unary,
  },
  {
    op: "countLeadingZeros",
    title: "integers",
    inputs: [ints(shape, -99, 9999999)],
    expected: (x) => [Array.from(x.data, (value) => 32 - binaryOf(value).length)],
    gradient: false,
    shardings: unary,
  },
  exact("popcount", "ends", [row("u32", [0, 1, 4294967295, 2147483648])], [0, 1, 32, 1]),
  exact("popcount", "u8", [row("u8", [0, 255, 129])], [0, 8, 2]),
  exact("countLeadingZeros", "ends", [row("i32", [0, 1, -1, 65536])], [32, 31, 0, 15]),
  exact("countLeadingZeros", "unsigned", [row("u32", [0, 4294967295, 2147483648, 2])], [32, 0, 0, 30]),
  exact("countLeadingZeros", "u8", [row("u8", [0, 1, 255])], [8, 7, 0]),
  {
    op: "shiftRightLogical",
    title: "small amounts",
    inputs: [ints(shape, -999, 999), ints(shape, 1, 8)],
    expected: (x, y) => [
      Array.from(x.data, (value, index) =>
        Math.floor((value < 0 ? value + 2 ** 32 : value) / 2 ** (y.data[index] as number)),
      ),
    ],
    gradient: false,
    shardings: binary,
  },
  {
    op: "shiftRightArithmetic",
    title: "small amounts",
    inputs: [ints(shape, -999, 999), ints(shape, 0, 8)],
    expected: (x, y) => [Array.from(x.data, (value, index) => Math.floor(value / 2 ** (y.data[index] as number)))],
    gradient: false,
    shardings: binary,
  },
  exact("shiftRightLogical", "the width or more", [row("i32", [-1, -1, -1]), row("i32", [31, 32, -1])], [1, 0, 0]),
  exact("shiftRightLogical", "u8", [row("u8", [255, 255]), row("u8", [7, 8])], [1, 0]),
  exact(
    "shiftRightArithmetic",
    "unsigned repeat the highest bit",
    [row("u32", [2147483648, 2147483648, 8]), row("u32", [31, 99, 2])],
    [4294967295, 4294967295, 2],
  ),
  exact("shiftRightArithmetic", "u8", [row("u8", [128, 127, 255]), row("u8", [3, 3, 9])], [240, 15, 255]),
];

const composed: readonly Row[] = [
  {
    ...exact("ne", "isNaN", [row("f32", special)], [1, 0, 0, 0, 0]),
    build: (x) => [isNaN(x as Node)],
  },
  {
    ...exact("eq", "isInf", [row("f32", special)], [0, 1, 1, 0, 0]),
    build: (x) => [isInf(x as Node)],
  },
];

export const functionTable: readonly Row[] = [...known, byArgument, ...specialRows, ...endRows, ...bits, ...composed];
