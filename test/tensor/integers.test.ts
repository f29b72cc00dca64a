/** Integers beside numbers that they do not hold, and sums in a wider dtype. */
import { describe, expect, test } from "vitest";
import { cumprod, cumsum, jit, lt, mean, prod, sum, type Tensor, tensor, vmap } from "../../src/functions/index.ts";

const comparisons = ["eq", "ne", "lt", "le", "gt", "ge"] as const;
const truth = {
  eq: (x: Value, y: Value) => x <= y && x >= y,
  ne: (x: Value, y: Value) => !(x <= y && x >= y),
  lt: (x: Value, y: Value) => x < y,
  le: (x: Value, y: Value) => x <= y,
  gt: (x: Value, y: Value) => x > y,
  ge: (x: Value, y: Value) => x >= y,
} as const;
type Value = number | bigint;

const ends = {
  bool: [0, 1],
  u8: [0, 1, 254, 255],
  i8: [-128, -1, 0, 1, 127],
  u32: [0, 1, 2 ** 32 - 1],
  i32: [-(2 ** 31), -2, -1, 0, 1, 2, 2 ** 31 - 1],
  i64: [-(2n ** 63n), -1n, 0n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n],
  u64: [0n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 64n - 1n],
} as const;
const others: readonly Value[] = [
  ...[
    0,
    -0,
    1,
    -1,
    1.5,
    0.5,
    -0.5,
    -1.5,
    127.5,
    255,
    256,
    -129,
    2 ** 31,
    -(2 ** 31) - 1,
    2 ** 32,
    2 ** 53,
    2 ** 53 + 2,
  ],
  ...[2 ** 63, -(2 ** 63), 2 ** 64, 1e300, -1e300, Infinity, -Infinity, Number.NaN],
  ...[2n, -3n, 2n ** 53n + 1n, 2n ** 63n, -(2n ** 63n) - 1n, 2n ** 64n, 2n ** 70n],
];

describe("comparisons with any number", () => {
  const cases = Object.entries(ends) as [keyof typeof ends, readonly Value[]][];
  test.each(cases)("of %s", (dtype, values) => {
    const x = tensor(values, { dtype });
    const wanted = others.map((y) => comparisons.map((name) => values.map((value) => truth[name](value, y))));
    const all = (given: Tensor): Tensor[][] => others.map((y) => comparisons.map((name) => given[name](y)));
    const shown = (found: Tensor[][]): unknown => found.map((some) => some.map((one) => one.arraySync()));
    expect(shown(all(x))).toEqual(wanted);
    expect(shown(jit(all)(x))).toEqual(wanted);
  });

  test("from the other side, and in batches", () => {
    const x = tensor([1, 2, 3], { dtype: "i32" });
    expect(lt(1.5, x).arraySync()).toEqual([false, true, true]);
    expect(vmap((one: Tensor) => one.ge(2.5))(x).arraySync()).toEqual([false, false, true]);
    expect(() => x.lt("2" as never)).toThrow(/^lt: operand 1 is "2", not a tensor/);
  });
});

describe("sums and products in another dtype", () => {
  const bytes = tensor([200, 100, 3], { dtype: "u8" });
  const made: readonly (readonly [string, (x: Tensor) => Tensor, string, unknown])[] = [
    ["a sum that wraps", (x) => x.sum(), "u8", 47],
    ["a sum", (x) => x.sum(undefined, { dtype: "i32" }), "i32", 303],
    ["a sum, of the function", (x) => sum(x, [0], { dtype: "i64", keepDims: true }), "i64", [303n]],
    ["a product", (x) => prod(x, 0, { dtype: "u32" }), "u32", 60_000],
    ["a mean", (x) => mean(x, 0, { dtype: "f64" }), "f64", 101],
    ["running sums", (x) => cumsum(x, 0, { dtype: "i32" }), "i32", [200, 300, 303]],
    ["running products", (x) => cumprod(x, 0, { dtype: "f32" }), "f32", [200, 20_000, 60_000]],
  ];
  test.each(made)("%s", (_what, make, dtype, wanted) => {
    for (const y of [make(bytes), jit(make)(bytes)]) expect([y.dtype, y.arraySync()]).toEqual([dtype, wanted]);
  });

  test("16-bit floats are added in the dtype that is named, and gradients come back", () => {
    const x = tensor([60_000, 60_000], { dtype: "f16" });
    expect([x.sum().itemSync(), x.sum(0, { dtype: "f32" }).itemSync()]).toEqual([Infinity, 2 * 59_968 + 64]);
  });

  test("what no sum is made in", () => {
    expect(() => bytes.sum(0, { dtype: "bool" })).toThrow(/^sum: cannot compute in bool.*any\(x\)/s);
    expect(() => bytes.mean(0, { dtype: "i32" })).toThrow(/^mean: cannot compute in i32.*float/s);
    expect(() => cumsum(bytes, 0, { dtype: "int" as never })).toThrow(/^cumsum: there is no dtype "int"/);
    expect(() => bytes.max(0, { dtype: "i32" } as never)).toThrow(/^max: unknown option 'dtype'/);
  });
});

test("a fraction beside integers is refused, in arithmetic", () => {
  const x = tensor([1], { dtype: "i32" });
  expect(() => x.add(1.5)).toThrow(/^add: 1.5 is not a value of i32.*cast the tensor first.*1 and 1.0 are one number/s);
  expect(() => jit((y: Tensor) => y.add(1.5))(x)).toThrow(/^add: 1.5 is not a value of i32/);
});
