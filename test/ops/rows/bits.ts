/** @module Rows of bitcast, by bits written out and by DataView, and of clamp, which is composed of max and min. */
import type { DType } from "../../../src/ir/dtype.ts";
import type { HostTensor, Node } from "../../../src/ir/node.ts";
import { bitcast, cast, clamp, full, mul, shiftRightLogical, transpose } from "../../../src/ops/index.ts";
import type { Row } from "../../support/row.ts";
import { floats, given, ints, type Source, scalar } from "../../support/tensors.ts";

const [nan, inf] = [Number.NaN, Infinity];
const [lowest, highest] = [-2147483648, 2147483647];

const bits = (title: string, inputs: readonly Source[], rest: Partial<Row>): Row => ({
  op: "bitcast",
  title,
  inputs,
  gradient: false,
  tolerance: 0,
  ...rest,
});

/** Values of one dtype and what their bits are in another, both ways. */
const pairs: readonly (readonly [from: DType, to: DType, values: readonly (readonly [number, number])[]])[] = [
  [
    "f32",
    "i32",
    [
      [0, 0],
      [-0, lowest],
      [1, 0x3f800000],
      [-2, -0x40000000],
      [inf, 0x7f800000],
      [-inf, -0x800000],
      [2 ** -149, 1],
      [nan, 0x7fc00000],
    ],
  ],
  [
    "f32",
    "u32",
    [
      [-0, 0x80000000],
      [-(2 ** -149), 0x80000001],
      [3.4028234663852886e38, 0x7f7fffff],
      [nan, 0x7fc00000],
    ],
  ],
  [
    "i32",
    "u32",
    [
      [-1, 4294967295],
      [lowest, 2147483648],
      [highest, highest],
    ],
  ],
  [
    "i8",
    "u8",
    [
      [-1, 255],
      [-128, 128],
      [127, 127],
    ],
  ],
  [
    "f16",
    "bf16",
    [
      [1, 2 ** -7],
      [-0, -0],
      [inf, 2 ** 121],
      [2 ** -24, 2 ** -133],
      [nan, 2 ** 125],
    ],
  ],
];

const pairRows = pairs.flatMap(([from, to, values]) => {
  const row = (source: DType, target: DType, side: 0 | 1): Row =>
    bits(
      `${source} to ${target}`,
      [
        given(
          source,
          [values.length],
          values.map((pair) => pair[side]),
        ),
      ],
      {
        attrs: { dtype: target },
        expected: () => [values.map((pair) => pair[1 - side] as number)],
      },
    );
  return [row(from, to, 0), row(to, from, 1)];
});

/** 64-bit integers hold bigints, which is what is compared. */
const longs = (...values: bigint[]): number[] => values as unknown as number[];

const wholeDouble = [0, -0, 1, -inf, 2 ** -1074, nan];
const wholeBits = [0n, 0x8000000000000000n, 0x3ff0000000000000n, 0xfff0000000000000n, 1n, 0x7ff8000000000000n];
const count = wholeDouble.length;

const longRows: readonly Row[] = [
  bits("f64 to u64 and i64", [given("f64", [count], wholeDouble)], {
    build: (x) => [bitcast(x, "u64"), bitcast(x, "i64")],
    expected: () => [longs(...wholeBits), longs(...wholeBits.map((one) => BigInt.asIntN(64, one)))],
  }),
  bits("u64 to f64 and i64", [given("u64", [count], longs(...wholeBits))], {
    build: (x) => [bitcast(x, "f64"), bitcast(x, "i64")],
    expected: () => [wholeDouble, longs(...wholeBits.map((one) => BigInt.asIntN(64, one)))],
  }),
];

// NaNs of both signs, quiet and signaling, with bits of their own.
const nans = [0x7fc00001, 0x7fffffff, 0x7f800001, -0x400000, -1, -0x7fffff, 0x7fedcba9];
const longNans = longs(0x7ff8000000000001n, 0x7ff0000000000001n, -1n, -0xfffffffffffffn, 0x7fffffffffffffffn);

const nanRows: readonly Row[] = [
  bits("the bits of NaNs stay, f32", [given("i32", [nans.length], nans)], {
    build: (x) => [bitcast(bitcast(x, "f32"), "i32"), bitcast(transpose(bitcast(x, "f32")), "i32")],
    expected: () => [nans, nans],
  }),
  bits("the bits of NaNs stay, f64", [given("i64", [longNans.length], longNans)], {
    build: (x) => [bitcast(bitcast(x, "f64"), "i64")],
    expected: () => [longNans],
  }),
  bits("the bits of a constant NaN stay", [], {
    build: () => [bitcast(bitcast(full("i32", [2], 0x7fc00001), "f32"), "i32"), bitcast(full("f32", [2], nan), "i32")],
    expected: () => [
      [0x7fc00001, 0x7fc00001],
      [0x7fc00000, 0x7fc00000],
    ],
  }),
];

const viewed = new DataView(new ArrayBuffer(4));
const bitsOf = (value: number): number => {
  viewed.setFloat32(0, value);
  return viewed.getInt32(0);
};

const castRows: readonly Row[] = [
  bits("sharded", [floats([4, 8])], {
    attrs: { dtype: "i32" },
    expected: (x) => [Array.from(x.data, bitsOf)],
    shardings: ["S(0) -> S(0)", "S(1) -> S(1)"],
  }),
  bits("of a transposed tensor, of one number, of none", [floats([4, 8]), floats([]), floats([0, 4])], {
    build: (x, one, none) => [transpose(x), one, none].map((node) => bitcast(node, "u32")),
    expected: (x, one) => {
      const of = (value: number): number => bitsOf(value) >>> 0;
      const turned = Array.from(x.data, (_value, at) => x.data[(at % 4) * 8 + Math.floor(at / 4)] as number);
      return [turned.map(of), Array.from(one.data, of), []];
    },
    single: true,
  }),
  bits("to its own dtype", [floats([4])], { attrs: { dtype: "f32" }, expected: (x) => [[...x.data]] }),
  bits("read beside what is read as it is", [floats([4, 4])], {
    build: (x) => [mul(bitcast(x, "i32"), cast(x, "i32"))],
    expected: (x) => [Array.from(x.data, (value) => Math.imul(bitsOf(value), Math.trunc(value)))],
    single: true,
  }),
  bits("nothing is derived through bits", [{ ...floats([4, 4], -2, 2, [0]), dtype: "f64" }], {
    build: (x) => [mul(x, cast(shiftRightLogical(bitcast(x, "u64"), 63), "f64"))],
    expected: (x) => [Array.from(x.data, (value) => (value < 0 ? value : 0))],
    gradient: true,
  }),
];

const clamped = (x: HostTensor, low: number, high: number): number[] =>
  Array.from(x.data, (value) => (Number.isNaN(value) ? value : value < low ? low : value > high ? high : value));

const bounds = (title: string, inputs: readonly Source[], rest: Partial<Row>): Row => ({
  op: "max",
  title: `clamp: ${title}`,
  inputs,
  gradient: false,
  tolerance: 0,
  ...rest,
});
const within =
  (low: number | bigint, high: number | bigint) =>
  (x: Node): readonly Node[] => [clamp(x, low, high)];

const clampRows: readonly Row[] = [
  bounds("numbers", [floats([4, 8], -2, 2, [-0.5, 1.25])], {
    build: within(-0.5, 1.25),
    expected: (x) => [clamped(x, -0.5, 1.25)],
    gradient: true,
  }),
  bounds("NaN stays, infinities do not", [given("f32", [6], [nan, inf, -inf, -3, 0.5, -0])], {
    build: within(-1, 1),
    expected: () => [[nan, 1, -1, -1, 0.5, -0]],
  }),
  bounds("of tensors, the upper bound wins", [floats([4, 4]), given("f32", [4], [0, 3, nan, -1]), scalar("f32", 1)], {
    build: (x, low, high) => [clamp(x, low, high)],
    expected: (x, low) => [
      Array.from(x.data, (value, at) => {
        const least = low.data[at % 4] as number;
        return Number.isNaN(least) ? nan : Math.min(Math.max(value, least), 1);
      }),
    ],
  }),
  ...(["i8", "u8", "i32", "u32"] as const).map((dtype) =>
    bounds(dtype, [ints([4, 4], dtype.startsWith("i") ? -120 : 0, 120, dtype)], {
      build: within(3, 77),
      expected: (x) => [clamped(x, 3, 77)],
    }),
  ),
  bounds("64-bit integers", [given("i64", [3], longs(-(2n ** 63n), 5n, 2n ** 62n))], {
    build: within(-(2n ** 60n), 2n ** 60n + 1n),
    expected: () => [longs(-(2n ** 60n), 5n, 2n ** 60n + 1n)],
  }),
];

export const bitsTable: readonly Row[] = [...pairRows, ...longRows, ...nanRows, ...castRows, ...clampRows];
