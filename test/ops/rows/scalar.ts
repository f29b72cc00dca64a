/** @module Rows of the scalar functions: formulas and known numbers, special values, integers. */
import type { HostTensor } from "../../../src/ir/node.ts";
import type { Row } from "../../support/row.ts";
import { bools, floats, given, ints, type Source } from "../../support/tensors.ts";

const shape = [4, 8];
const unary = ["S(0) -> S(0)", "S(1) -> S(1)"];
const binary = ["S(0), S(0) -> S(0)", "S(1), S(1) -> S(1)"];
const ternary = ["S(0), S(0), S(0) -> S(0)", "S(1), S(1), S(1) -> S(1)"];

type Range = readonly [low: number, high: number, kinks?: readonly number[]];
const map1 = (f: (x: number) => number) => (x: HostTensor) => [Array.from(x.data, f)];
const map2 = (f: (x: number, y: number) => number) => (x: HostTensor, y: HostTensor) => [
  Array.from(x.data, (value, index) => f(value, y.data[index] as number)),
];

const steps = [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2];

/** Other formulas than the table's, over a range without kinks. */
const unaryFloat: { readonly [op: string]: readonly [(x: number) => number, Range] } = {
  neg: [(x) => 0 - x, [-2, 2]],
  abs: [(x) => (x < 0 ? -x : x), [-2, 2, [0]]],
  sign: [(x) => (x < 0 ? -1 : 1), [-2, 2, [0]]],
  exp: [(x) => Math.E ** x, [-2, 2]],
  expm1: [(x) => 2 * Math.sinh(x / 2) * Math.E ** (x / 2), [-2, 2]],
  log: [(x) => Math.log2(x) * Math.LN2, [0.2, 3]],
  log1p: [(x) => 2 * Math.atanh(x / (2 + x)), [-0.5, 2]],
  sqrt: [(x) => Math.hypot(x) / x ** 0.5, [0.2, 3]],
  rsqrt: [(x) => x ** -0.5, [0.2, 3]],
  tanh: [(x) => (Math.exp(2 * x) - 1) / (Math.exp(2 * x) + 1), [-2, 2]],
  logistic: [(x) => 0.5 * (1 + Math.tanh(x / 2)), [-4, 4]],
  softplus: [(x) => Math.log(1 + Math.E ** x), [-4, 4]],
  sin: [(x) => Math.cos(x - Math.PI / 2), [-3, 3]],
  cos: [(x) => Math.sin(x + Math.PI / 2), [-3, 3]],
  floor: [(x) => x - (((x % 1) + 1) % 1), [-2, 2, steps]],
  ceil: [(x) => x + (((-x % 1) + 1) % 1), [-2, 2, steps]],
  round: [(x) => Number(x.toFixed(0)), [-2, 2, steps]],
};

const linearUnary: { readonly [op: string]: readonly string[] } = { neg: ["P(sum) -> P(sum)"] };

const unaryRows = Object.entries(unaryFloat).map(
  ([op, [value, [low, high, kinks]]]): Row => ({
    op,
    title: "floats",
    inputs: [floats(shape, low, high, kinks)],
    expected: map1(value),
    gradient: true,
    shardings: [...unary, ...(linearUnary[op] ?? [])],
  }),
);

const erfRow: Row = {
  op: "erf",
  title: "tabulated values",
  inputs: [given("f32", [4, 2], [0, 0.5, 1, 2, -0.5, -1, 3, -7])],
  // Abramowitz & Stegun, table 7.1.
  expected: () => [
    [
      0, 0.5204998778130465, 0.8427007929497149, 0.9953222650189527, -0.5204998778130465, -0.8427007929497149,
      0.9999779095030014, -1,
    ],
  ],
  gradient: true,
  shardings: unary,
};

const [nan, inf] = [Number.NaN, Infinity];
const special = [nan, inf, -inf, 0, -0];
/** Values at NaN, inf, -inf, 0, -0. */
const unarySpecial: { readonly [op: string]: readonly number[] } = {
  neg: [nan, -inf, inf, -0, 0],
  abs: [nan, inf, inf, 0, 0],
  sign: [nan, 1, -1, 0, -0],
  exp: [nan, inf, 0, 1, 1],
  expm1: [nan, inf, -1, 0, -0],
  log: [nan, inf, nan, -inf, -inf],
  log1p: [nan, inf, nan, 0, -0],
  sqrt: [nan, inf, nan, 0, -0],
  rsqrt: [nan, 0, nan, inf, -inf],
  tanh: [nan, 1, -1, 0, -0],
  logistic: [nan, 1, 0, 0.5, 0.5],
  erf: [nan, 1, -1, 0, -0],
  sin: [nan, nan, nan, 0, -0],
  cos: [nan, nan, nan, 1, 1],
  floor: [nan, inf, -inf, 0, -0],
  ceil: [nan, inf, -inf, 0, -0],
  round: [nan, inf, -inf, 0, -0],
};

const specialRows = Object.entries(unarySpecial).map(
  ([op, values]): Row => ({
    op,
    title: "special values",
    inputs: [given("f32", [5], special)],
    expected: () => [values],
    gradient: false,
    tolerance: 0,
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

const i32 = (...values: number[]): Source => given("i32", [values.length], values);
const u32 = (...values: number[]): Source => given("u32", [values.length], values);
const u8 = (...values: number[]): Source => given("u8", [values.length], values);
const bool = (...values: number[]): Source => given("bool", [values.length], values);
const f32 = (...values: number[]): Source => given("f32", [values.length], values);
const [lowest, highest] = [-2147483648, 2147483647];

const exactUnary: readonly Row[] = [
  exact("neg", "integers wrap", [i32(lowest, 5, 0)], [lowest, -5, 0]),
  exact("neg", "unsigned wrap", [u8(1, 0, 255)], [255, 0, 1]),
  exact("abs", "lowest integer wraps", [i32(lowest, -3)], [lowest, 3]),
  exact("sign", "integers", [i32(-7, 0, 9)], [-1, 0, 1]),
  exact("ceil", "small negatives give -0", [f32(-0.5, 0.5)], [-0, 1]),
  {
    ...exact(
      "round",
      "halves go to even",
      [f32(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609)],
      [0, 2, 2, -0, -2, -2, 0, 8388609],
    ),
    single: true,
  },
  {
    ...exact("expm1", "tiny values are exact", [f32(1e-20, -1e-20)], [Math.fround(1e-20), Math.fround(-1e-20)]),
    single: true,
  },
  { ...exact("log1p", "tiny values are exact", [f32(1e-20)], [Math.fround(1e-20)]), single: true },
  exact("exp", "overflow and underflow", [f32(1000, -1000)], [inf, 0]),
  { ...exact("logistic", "far tails", [f32(200, -200)], [1, 0]), single: true },
  {
    ...exact("softplus", "tails and special values", [f32(nan, inf, -inf, 200, -200)], [nan, inf, 0, 200, 0]),
    single: true,
  },
  exact("not", "bool", [bool(0, 1)], [1, 0]),
  exact("not", "bits", [i32(0, -1, 5)], [-1, 0, -6]),
  exact("not", "unsigned bits", [u8(0, 255, 1)], [255, 0, 254]),
  {
    op: "not",
    title: "sharded",
    inputs: [ints(shape, -9, 9)],
    expected: map1((x) => -x - 1),
    gradient: false,
    shardings: unary,
  },
  { op: "neg", title: "scalar", inputs: [given("f32", [], [2])], expected: () => [[-2]], gradient: true },
  { op: "exp", title: "nothing", inputs: [given("f32", [0, 3], [])], expected: () => [[]], gradient: true },
];

const binaryFloat: {
  readonly [op: string]: readonly [(x: number, y: number) => number, Range, Range, readonly string[]];
} = {
  add: [(x, y) => x - -y, [-2, 2], [-2, 2], ["P(sum), P(sum) -> P(sum)"]],
  sub: [(x, y) => x + -y, [-2, 2], [-2, 2], ["P(sum), P(sum) -> P(sum)"]],
  mul: [(x, y) => x / (1 / y), [-2, 2], [0.5, 2], ["P(sum), R -> P(sum)", "R, P(sum) -> P(sum)"]],
  div: [(x, y) => x * (1 / y), [-2, 2], [0.5, 2], ["P(sum), R -> P(sum)"]],
  rem: [(x, y) => x - y * Math.trunc(x / y), [0.1, 0.9], [1, 2], []],
  pow: [(x, y) => Math.exp(y * Math.log(x)), [0.3, 2], [-2, 2], []],
  max: [(_x, y) => y, [-2, 0], [0.1, 2], []],
  min: [(x) => x, [-2, 0], [0.1, 2], []],
};

const binaryRows = Object.entries(binaryFloat).map(
  ([op, [value, x, y, linear]]): Row => ({
    op,
    title: "floats",
    inputs: [floats(shape, x[0], x[1], x[2]), floats(shape, y[0], y[1], y[2])],
    expected: map2(value),
    gradient: true,
    shardings: [...binary, ...linear],
  }),
);

const bitRows = (["and", "or", "xor"] as const).flatMap((op): Row[] => {
  const value = {
    and: (x: number, y: number) => x * y,
    or: (x: number, y: number) => Math.max(x, y),
    xor: (x: number, y: number) => (x + y) % 2,
  }[op];
  return [
    {
      op,
      title: "truth values",
      inputs: [bools(shape), bools(shape)],
      expected: map2(value),
      gradient: false,
      shardings: binary,
    },
  ];
});

const shiftRows: readonly Row[] = [
  {
    op: "shiftLeft",
    title: "small amounts",
    inputs: [ints(shape, 0, 99), ints(shape, 0, 8)],
    expected: map2((x, y) => x * 2 ** y),
    gradient: false,
    shardings: binary,
  },
  {
    op: "shiftRight",
    title: "small amounts",
    inputs: [ints(shape, -999, 999), ints(shape, 0, 8)],
    expected: map2((x, y) => Math.floor(x / 2 ** y)),
    gradient: false,
    shardings: binary,
  },
  exact("shiftLeft", "the width or more gives 0", [i32(1, 1, 1, 3), i32(31, 32, -1, 31)], [lowest, 0, 0, lowest]),
  exact("shiftLeft", "u8 wraps", [u8(255, 1, 1), u8(1, 7, 8)], [254, 128, 0]),
  exact("shiftRight", "i32 keeps its sign", [i32(-8, -8, 8, lowest), i32(1, 99, 99, -1)], [-4, -1, 0, -1]),
  exact("shiftRight", "unsigned fill with 0", [u32(4294967295, 4294967295, 8), u32(31, 32, 2)], [1, 0, 2]),
];

const exactBinary: readonly Row[] = [
  exact("add", "-0 and 0", [f32(-0, -0, 0), f32(0, -0, -0)], [0, -0, 0]),
  exact("add", "infinities", [f32(inf, inf, nan), f32(-inf, 1, 1)], [nan, inf, nan]),
  exact("add", "integers wrap", [i32(highest, lowest), i32(1, -1)], [lowest, highest]),
  exact("add", "unsigned wrap", [u32(4294967295, 0), u32(1, 0)], [0, 0]),
  exact("sub", "unsigned wrap", [u8(0, 5), u8(1, 7)], [255, 254]),
  exact("mul", "integers wrap", [i32(65536, 123456789), i32(65536, 987654321)], [0, -67153019]),
  exact("mul", "unsigned wrap", [u32(4294967295, 65537), u32(4294967295, 65537)], [1, 131073]),
  exact("mul", "u8 wraps", [u8(16, 255), u8(16, 255)], [0, 1]),
  exact("mul", "zero times infinity", [f32(0, -0), f32(inf, 2)], [nan, -0]),
  exact("div", "floats by zero", [f32(1, -1, 0, 1), f32(0, 0, 0, -0)], [inf, -inf, nan, -inf]),
  exact("div", "integers truncate", [i32(7, -7, 7, lowest), i32(2, 2, -2, -1)], [3, -3, -3, lowest]),
  { op: "div", title: "integer by zero", inputs: [i32(1, 2), i32(1, 0)], fails: /div.*zero/, gradient: false },
  { op: "rem", title: "integer by zero", inputs: [u8(1), u8(0)], fails: /rem.*zero/, gradient: false },
  exact("rem", "takes the sign of x", [f32(5.5, -5.5, 5.5, -0), f32(2, 2, -2, 3)], [1.5, -1.5, 1.5, -0]),
  exact("rem", "integers", [i32(7, -7, lowest), i32(3, 3, -1)], [1, -1, 0]),
  exact("rem", "infinite", [f32(inf, 5, nan), f32(2, inf, 1)], [nan, 5, nan]),
  exact(
    "pow",
    "IEEE 754 special cases",
    [f32(1, 1, nan, 0, 0, -2, -8, inf, -1, -1), f32(nan, inf, 0, 0, -1, 3, 0.5, -1, inf, -inf)],
    [1, 1, 1, 1, inf, -8, nan, 0, 1, 1],
  ),
  exact(
    "pow",
    "integers wrap",
    [i32(3, -3, 2, 7, 0, lowest), i32(4, 3, 31, 20, 0, 1)],
    [81, -27, lowest, -1199696159, 1, lowest],
  ),
  exact("pow", "unsigned wrap", [u8(3, 16, 255, 0), u8(6, 2, 255, 255)], [217, 0, 255, 0]),
  exact(
    "pow",
    "integers to negative powers",
    [i32(1, -1, -1, 2, -7, 0), i32(-5, -3, -4, -1, -2, -1)],
    [1, -1, 1, 0, 0, 0],
  ),
  exact("max", "NaN wins", [f32(nan, 1, nan, inf), f32(1, nan, nan, nan)], [nan, nan, nan, nan]),
  exact("min", "NaN wins", [f32(nan, 1, -inf), f32(1, nan, nan)], [nan, nan, nan]),
  exact("max", "zeros", [f32(-0, 0), f32(0, -0)], [0, 0]),
  exact("min", "zeros", [f32(-0, 0), f32(0, -0)], [-0, -0]),
  exact("max", "unsigned above 2^31", [u32(4294967295, 1), u32(1, 2)], [4294967295, 2]),
  exact("min", "integers", [i32(lowest, 3), i32(0, -3)], [lowest, -3]),
  exact("and", "bits", [i32(-1, 12), i32(7, 10)], [7, 8]),
  exact("or", "unsigned bits", [u32(2147483648, 1), u32(1, 2)], [2147483649, 3]),
  exact("xor", "unsigned bits", [u8(255, 170), u8(15, 85)], [240, 255]),
];

const compares: { readonly [op: string]: readonly number[] } = {
  // At (1,2) (2,2) (3,2) (NaN,1) (1,NaN) (NaN,NaN) (0,-0) (inf,inf).
  eq: [0, 1, 0, 0, 0, 0, 1, 1],
  ne: [1, 0, 1, 1, 1, 1, 0, 0],
  lt: [1, 0, 0, 0, 0, 0, 0, 0],
  le: [1, 1, 0, 0, 0, 0, 1, 1],
  gt: [0, 0, 1, 0, 0, 0, 0, 0],
  ge: [0, 1, 1, 0, 0, 0, 1, 1],
};

const compareRows = Object.entries(compares).flatMap(([op, values]): Row[] => [
  exact(op, "NaN and zeros", [f32(1, 2, 3, nan, 1, nan, 0, inf), f32(2, 2, 2, 1, nan, nan, -0, inf)], values),
  {
    ...exact(
      op,
      "integers",
      [
        given("i32", [4, 4], [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1]),
        given("i32", [4, 4], new Array(16).fill(2)),
      ],
      [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1].map((x) => values[x - 1] as number),
    ),
    shardings: binary,
  },
  exact(op, "unsigned above 2^31", [u32(1, 2, 4294967295), u32(2147483648, 2, 1)], values.slice(0, 3)),
]);

const others: readonly Row[] = [
  {
    op: "isFinite",
    title: "floats",
    inputs: [floats(shape)],
    expected: map1(() => 1),
    gradient: false,
    shardings: unary,
  },
  exact("isFinite", "special values", [f32(...special, 3e38)], [0, 0, 0, 1, 1, 1]),
  {
    op: "select",
    title: "floats",
    inputs: [bools(shape), floats(shape), floats(shape)],
    expected: (condition, x, y) => [Array.from(condition.data, (c, index) => (c === 1 ? x : y).data[index] as number)],
    gradient: true,
    shardings: [...ternary, "R, P(sum), P(sum) -> P(sum)"],
  },
  exact("select", "takes no part of the other", [bool(1, 0), f32(1, nan), f32(nan, -0)], [1, -0]),
  {
    op: "relu",
    title: "floats",
    inputs: [floats(shape, -2, 2, [0])],
    expected: map1((x) => (x + Math.abs(x)) / 2),
    gradient: true,
    shardings: unary,
  },
  {
    op: "stopGradient",
    title: "floats",
    inputs: [floats(shape, -2, 2, [0])],
    expected: map1((x) => x),
    gradient: false,
    shardings: unary,
  },
  {
    op: "refuseGradient",
    title: "floats",
    inputs: [floats(shape, -2, 2, [0])],
    attrs: { why: "draws" },
    expected: map1((x) => x),
    gradient: false,
    shardings: unary,
  },
  exact("relu", "special values", [f32(...special)], [nan, inf, 0, 0, 0]),
];

export const scalarRows: readonly Row[] = [
  ...unaryRows,
  erfRow,
  ...specialRows,
  ...exactUnary,
  ...binaryRows,
  ...bitRows,
  ...shiftRows,
  ...exactBinary,
  ...compareRows,
  ...others,
];
