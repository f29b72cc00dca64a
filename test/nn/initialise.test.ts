/** Initialisers: moments, bounds and exact values against PyTorch's (test/fixtures/initialisers.py). */
import { evalShape, nn, random, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { inverseErf } from "../../src/nn/initialise.ts";
import { beyond } from "../../src/nn/normal-tail.ts";
import { fixture } from "../fixtures/fixture.ts";
import { expectClose } from "../support/close.ts";

interface Drawn {
  readonly initialiser: "normal";
  readonly options: object;
  readonly shape: readonly number[];
  readonly mean: number;
  readonly std: number;
  readonly bound: number | null;
}
interface Exact {
  readonly exact: "eye";
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

const cases = fixture<object>("initialisers");
const having = <Case>(name: string): Case[] => cases.filter((one) => name in one) as Case[];
const key = random.key(11);
const values = async (x: Tensor): Promise<number[]> => Array.from(await x.data());

describe.each(having<Drawn>("initialiser"))(
  "$initialiser $options",
  ({ initialiser, options, shape, mean, std, bound }) => {
    test.each(["f32", "f64"] as const)("%s", async (dtype) => {
      const x = nn.init[initialiser](options)(key, shape, dtype);
      expect([x.dtype, x.shape]).toEqual([dtype, shape]);
      const found = await values(x);
      const count = found.length;
      const own = found.reduce((sum, value) => sum + value, 0) / count;
      const deviation = Math.sqrt(found.reduce((sum, value) => sum + (value - own) ** 2, 0) / (count - 1));
      // Both are estimates from 64,000 values: five standard errors each.
      expect(Math.abs(own - mean)).toBeLessThan((10 * std) / Math.sqrt(count));
      expect(Math.abs(deviation / std - 1)).toBeLessThan(10 / Math.sqrt(2 * count));
      if (bound === null) return;
      const most = found.reduce((top, value) => Math.max(top, value), -Infinity);
      expect(most).toBeLessThanOrEqual(bound * (1 + 1e-6));
      expect(most).toBeGreaterThan(bound * 0.98);
    });

    test("follows its key", async () => {
      const make = async (seed: number) => values(nn.init[initialiser](options)(random.key(seed), [5, 4, 1, 1], "f32"));
      expect(await make(1)).toEqual(await make(1));
      expect(await make(1)).not.toEqual(await make(2));
    });
  },
);

test.each(having<Exact>("exact"))("$exact $shape", async ({ exact, shape, values: expected }) => {
  const x = nn.init[exact]()(key, shape, "f64");
  expect([x.shape, x.dtype, await values(x)]).toEqual([shape, "f64", expected]);
});

test("gains", () => {
  for (const { gain, nonlinearity } of having<{ gain: number; nonlinearity: "relu" }>("gain"))
    expect(nn.init.gainOf(nonlinearity)).toBeCloseTo(gain, 12);
});

test("the inverse of the error function", async () => {
  const [{ x, inverseErf: expected }] = having<{ x: number[]; inverseErf: number[] }>("inverseErf") as [
    { x: number[]; inverseErf: number[] },
  ];
  expectClose(await values(inverseErf(tensor(x, { dtype: "f64" }))), expected, 1e-6);
  // Near the ends a number of f32 is not near enough.
  expectClose(await values(inverseErf(tensor(x))), expected, 2e-4);
  expect((await values(inverseErf(tensor([-1, 1])))).map(Number.isFinite)).toEqual([true, true]);
});

// By mpmath: where the share u of the distribution between low and high lies beyond low.
const shares = [0, 1 / 1024, 0.125, 0.5, 0.875, 1023 / 1024];
test.each([
  [
    3,
    3.5,
    [0, 0.00024628236177431093, 0.033109339113906275, 0.15910822614059597, 0.372616649082147, 0.49875246416026936],
  ],
  [4, 40, [0, 0.000231212730447465, 0.03148865165007509, 0.16110427859788082, 0.4673943172263943, 1.4133457173166806]],
  [6, 9, [0, 0.000158647418174078, 0.0216453869290211, 0.11156506179518726, 0.32906768280730475, 1.0396719747346366]],
  [
    30,
    31,
    [0, 3.253190396471315e-5, 0.004445788518869687, 0.023070467827308927, 0.06915841826211981, 0.22991412372781372],
  ],
])("normal numbers from %d to %d", async (low, high, expected) => {
  for (const [dtype, tolerance] of [
    ["f64", 2e-14],
    ["f32", 5e-7],
  ] as const)
    expectClose(await values(beyond(tensor(shares, { dtype }), low, high)), expected, tolerance);
});

test.each(["f32", "f64", "f16", "bf16"] as const)("truncated normal far in a tail, %s", async (dtype) => {
  for (const [sign, bounds] of [
    [1, { min: 7, max: 10 }],
    [-1, { min: -8, max: -5 }],
  ] as const) {
    const drawn = await values(nn.init.truncatedNormal({ mean: 1, ...bounds })(key, [40, 50], dtype));
    const mean = drawn.reduce((sum, value) => sum + value, 0) / drawn.length;
    // SciPy's mean of both is 6.158482604 standard deviations from that of the whole.
    expect(Math.abs(mean - (1 + sign * 6.158482604))).toBeLessThan(0.02);
    expect(new Set(drawn).size).toBeGreaterThan(dtype === "bf16" ? 20 : dtype === "f16" ? 100 : 1900);
  }
});

test.each([
  [[4, 9], "f64", 1e-13],
  [[9, 4], "f64", 1e-13],
  [[6, 2, 3], "f32", 1e-6],
  [[1, 1], "f32", 1e-6],
] as const)("orthogonal %o", async (shape, dtype, tolerance) => {
  const x = nn.init.orthogonal({ gain: 2 })(key, shape, dtype);
  expect([x.shape, x.dtype]).toEqual([shape, dtype]);
  const rows = shape[0];
  const columns = x.size / rows;
  const flat = await values(x);
  const vectors =
    rows <= columns
      ? Array.from({ length: rows }, (_unused, row) => flat.slice(row * columns, (row + 1) * columns))
      : Array.from({ length: columns }, (_unused, column) => flat.filter((_value, at) => at % columns === column));
  for (const [i, left] of vectors.entries())
    for (const [j, right] of vectors.entries()) {
      const product = left.reduce((sum, value, at) => sum + value * (right[at] as number), 0);
      expect(Math.abs(product - (i === j ? 4 : 0))).toBeLessThan(tolerance * 20);
    }
  // Not of one sign: every such matrix is as likely.
  if (x.size > 30) expect([flat.some((value) => value > 0), flat.some((value) => value < 0)]).toEqual([true, true]);
});

test("layers take initialisers, each parameter with a key of its own", async () => {
  const init = { weight: nn.init.normal({ std: 0.1 }), bias: nn.init.normal() };
  const { params } = nn.linear(3, { init }).init(key, { shape: [1, 3], dtype: "f32" });
  const [weight, bias] = [await values(params["weight"] as Tensor), await values(params["bias"] as Tensor)];
  expect(weight.slice(0, 3).map((value) => value * 10)).not.toEqual(bias);
  const conv = nn.conv2d({ out: 2, kernel: 3, init: { weight: nn.init.dirac(), bias: nn.init.ones() } });
  const made = conv.init(key, { shape: [1, 2, 4, 4], dtype: "f64" });
  expect(await values(made.params["bias"] as Tensor)).toEqual([1, 1]);
  // What is not given is the default.
  const plain = nn.linear(3).init(key, { shape: [1, 3], dtype: "f32" }).params["bias"] as Tensor;
  const half = nn.linear(3, { init: { weight: nn.init.zeros() } }).init(key, { shape: [1, 3], dtype: "f32" }).params;
  expect(await values(half["bias"] as Tensor)).toEqual(await values(plain));
  expect(await values(half["weight"] as Tensor)).toEqual(new Array(9).fill(0));
});

test("errors", () => {
  expect(() => nn.init.xavierUniform()(key, [3], "f32")).toThrow(/a weight \[3\] has no fan in and out/);
  expect(() => nn.init.eye()(key, [3], "f32")).toThrow(/init.eye: makes matrices/);
  expect(() => nn.init.kaimingNormal({ mode: "fan_in" as never })).toThrow(/mode must be fanIn or fanOut/);
  expect(() => nn.init.kaimingNormal({ nonlinearity: "gelu" as never })).toThrow(/nonlinearity must be linear/);
  expect(() => nn.init.truncatedNormal({ min: 1, max: 0 })).toThrow(/max must be at least 1/);
  expect(() => nn.linear(3, { init: { weight: 1 as never } })).toThrow(/linear: init.weight must be an initialiser/);
  expect(() => nn.linear(3, { init: { wieght: nn.init.zeros() } as never })).toThrow(/did you mean 'weight'/);
  expect(() => evalShape((k: Tensor) => nn.init.orthogonal()(k, [3], "f32"), { shape: [2], dtype: "u32" })).toThrow(
    /fan/,
  );
});
