/** Random tensors: distributions at a fixed key, the ends of every range, and the same numbers on any mesh. */
import { grad, jit, jvp, mesh, nn, random, type Tensor, tensor, vmap, zeros } from "heddle";
import { describe, expect, test } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import { distribute } from "../../src/functions/index.ts";
import { erf, lgamma } from "../../src/ops/special.ts";
import { shardedOn } from "../../src/plan/index.ts";

const key = random.key(7);
const numbers = async (x: Tensor): Promise<number[]> => Array.from((await x.data()) as ArrayLike<number>, Number);
const many = 20_000;

/** The largest distance between the numbers' distribution function and another one, in units of 1 / √n: Kolmogorov and Smirnov's. */
function distance(values: readonly number[], below: (x: number) => number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const gaps = sorted.map((value, index) => {
    const wanted = below(value);
    return Math.max(wanted - index / sorted.length, (index + 1) / sorted.length - wanted);
  });
  return gaps.reduce((most, gap) => Math.max(most, gap), 0) * Math.sqrt(sorted.length);
}
// One in 4000 that are right is further away.
const limit = 2.1;

/** The distribution function of gamma variables by its series (Abramowitz and Stegun, 6.5.29). */
function gammaBelow(a: number, x: number): number {
  let [term, sum] = [1 / a, 1 / a];
  for (let n = 1; n < 10_000 && term > 1e-16 * sum; n++) {
    term *= x / (a + n);
    sum += term;
  }
  return x <= 0 ? 0 : Math.exp(a * Math.log(x) - x - lgamma(a)) * sum;
}

const { exponential, gamma, gumbel, laplace, logistic, cauchy, normal, uniform, beta } = random;
type Draw = (shape: readonly number[], dtype: "f32" | "f64") => Tensor;
const laplaceBelow = (x: number): number => (x < 0 ? Math.exp(x) / 2 : 1 - Math.exp(-x) / 2);

/** Name, how it is drawn, the distribution function, mean and variance. */
const distributions: readonly [string, Draw, (x: number) => number, number?, number?][] = [
  ["uniform [0, 1)", (shape, dtype) => uniform(key, shape, { dtype }), (x) => x, 1 / 2, 1 / 12],
  ["uniform [-3, 5)", (s, dtype) => uniform(key, s, { dtype, min: -3, max: 5 }), (x) => (x + 3) / 8, 1, 64 / 12],
  ["normal", (shape, dtype) => normal(key, shape, { dtype }), (x) => (1 + erf(x / Math.SQRT2)) / 2, 0, 1],
  ["exponential", (shape, dtype) => exponential(key, shape, { dtype }), (x) => -Math.expm1(-x), 1, 1],
  ["gumbel", (s, dtype) => gumbel(key, s, { dtype }), (x) => Math.exp(-Math.exp(-x)), 0.5772156649, Math.PI ** 2 / 6],
  ["laplace", (shape, dtype) => laplace(key, shape, { dtype }), laplaceBelow, 0, 2],
  ["logistic", (shape, dtype) => logistic(key, shape, { dtype }), (x) => 1 / (1 + Math.exp(-x)), 0, Math.PI ** 2 / 3],
  ["cauchy", (shape, dtype) => cauchy(key, shape, { dtype }), (x) => 1 / 2 + Math.atan(x) / Math.PI],
  ...[0.1, 0.5, 1, 1.5, 30].map((a): (typeof distributions)[number] => [
    `gamma ${a}`,
    (shape, dtype) => gamma(key, a, shape, { dtype }),
    (x) => gammaBelow(a, x),
    a,
    a,
  ]),
  // Of shapes 1 and b the distribution function is 1 - (1 - x)^b.
  ["beta 1, 3", (s, dtype) => beta(key, 1, 3, s, { dtype }), (x) => 1 - (1 - x) ** 3, 1 / 4, 3 / 80],
  [
    "beta 0.5, 0.5",
    (s, dtype) => beta(key, 0.5, 0.5, s, { dtype }),
    (x) => 1 - (2 / Math.PI) * Math.acos(Math.sqrt(x)),
    1 / 2,
    1 / 8,
  ],
];

test.each(distributions)("%s is distributed as it says, in f32 and f64", async (_name, draw, below, mean, variance) => {
  for (const dtype of ["f32", "f64"] as const) {
    const values = await numbers(draw([many], dtype));
    expect(values.every(Number.isFinite)).toBe(true);
    expect(distance(values, below)).toBeLessThan(limit);
    if (mean === undefined || variance === undefined) continue;
    const found = values.reduce((sum, x) => sum + x, 0) / many;
    const squares = values.reduce((sum, x) => sum + (x - found) ** 2, 0) / many;
    expect(Math.abs(found - mean)).toBeLessThan(4.5 * Math.sqrt(variance / many));
    expect(Math.abs(squares / variance - 1)).toBeLessThan(0.12);
  }
});

test.each(["f16", "bf16"] as const)("in %s numbers are those of f32, rounded once", async (dtype) => {
  for (const draw of [exponential, gumbel, laplace, logistic, cauchy, normal]) {
    const whole = draw(key, [100]).cast(dtype);
    expect(await numbers(draw(key, [100], { dtype }))).toEqual(await numbers(whole));
  }
  const drawn = gamma(key, tensor([0.5, 3], { dtype }), [50, 2]);
  expect([drawn.dtype, await numbers(drawn)]).toEqual([
    dtype,
    await numbers(gamma(key, tensor([0.5, 3]), [50, 2]).cast(dtype)),
  ]);
});

describe("uniform", () => {
  test.each([
    ["f32", 1, 1 + 2 ** -22],
    ["f32", 100, 101],
    ["f32", 1000, 1001],
    ["f16", 1, 2],
    ["f16", 16, 17],
    ["f16", -65504, 65504],
    ["bf16", 1, 2],
    ["bf16", 0.1, 0.7],
    ["f32", -3e38, 3e38],
    ["f64", -1.7e308, 1.7e308],
    ["f32", -1e-40, 1e-40],
    ["f32", 0, 2 ** -149],
    ["f64", 1, 1 + 2 ** -51],
    ["f16", -1, 0],
    ["bf16", -(2 ** -133), 0],
    ["f16", 0, 2 ** -24],
  ] as const)("of %s from %d stays below %d", async (dtype, min, max) => {
    const values = await numbers(uniform(key, [4096], { dtype, min, max }));
    const [low] = await numbers(tensor([min], { dtype }));
    expect(values.filter((value) => !(value >= (low as number) && value < max))).toEqual([]);
  });

  test.each([
    ["f32", 1, 1 + 2 ** -22, 2],
    ["f64", 1, 1 + 2 ** -50, 4],
    ["f16", 1, 1 + 2 ** -6, 16],
    ["bf16", 1, 2, 128],
    ["bf16", -2, -1, 128],
    ["f16", 0, 2 ** -22, 4],
  ] as const)("of %s in [%d, %d) each of %d numbers is as likely", async (dtype, min, max, count) => {
    const values = await numbers(uniform(key, [many], { dtype, min, max }));
    const often = new Map<number, number>();
    for (const value of values) often.set(value, (often.get(value) ?? 0) + 1);
    expect(often.size).toBe(count);
    const expected = many / count;
    const square = [...often.values()].reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
    // Chi-squared: mean count - 1, and five standard deviations.
    expect(square).toBeLessThan(count + 5 * Math.sqrt(2 * count));
  });

  test("has the bits that the dtype holds, the first of which are the same in all", async () => {
    const [wide, single] = await Promise.all(
      (["f64", "f32"] as const).map((dtype) => numbers(uniform(key, [1000], { dtype }))),
    );
    const scaled = (wide as number[]).map((value) => value * 2 ** 53);
    expect(scaled.every(Number.isInteger)).toBe(true);
    expect(scaled.filter((value) => value % 2 === 1).length).toBeGreaterThan(400);
    expect((wide as number[]).map((value) => Math.floor(value * 2 ** 24) / 2 ** 24)).toEqual(single);
  });

  test("equal bounds give the bound", async () => {
    expect(await numbers(uniform(key, [2], { min: 3, max: 3 }))).toEqual([3, 3]);
    expect(await numbers(uniform(key, [1], { min: -0, max: 0 }))).toEqual([0]);
    // Nothing of f32 lies between.
    expect(await numbers(uniform(key, [1], { min: 1, max: 1 + 1e-10 }))).toEqual([1]);
  });

  test.each([
    [{ min: 1, max: 0 }, /max must be at least 1, got 0/],
    [{ min: 5 }, /max must be at least 5/],
    [{ max: Infinity }, /random.uniform: max must be .*got Infinity/],
    [{ min: -Infinity }, /min must be .*got -Infinity/],
    [{ min: Number.NaN }, /min must be .*got NaN/],
    [{ max: "1" as never }, /max must be a number/],
    [{ dtype: "f16", max: 1e5 }, /max must be at least 0 and at most 65504, got 100000/],
    [{ max: 1e39 }, /at most 3.4/],
    [{ dtype: "i32" }, /gives floats, not i32/],
  ] as const)("%o is refused", (options, message) => {
    expect(() => uniform(key, [2], options as object)).toThrow(message);
  });
});

test("truth values at the ends", async () => {
  const share = async (p: number): Promise<number> =>
    (await numbers(random.bernoulli(key, p, [many]))).reduce((sum, x) => sum + x, 0) / many;
  expect(await Promise.all([0, 1e-12, 1 - 1e-12, 1 - 2 ** -34, 1].map(share))).toEqual([0, 0, 1, 1, 1]);
  expect(Math.abs((await share(0.3)) - 0.3)).toBeLessThan(0.02);
  // What keeps nearly all keeps them.
  const { y } = nn.dropout(1e-12).apply({ params: {}, state: {} }, tensor([1, 2, 3]), { train: true, key });
  expect(await numbers(y)).toEqual([1, 2, 3]);
});

describe("integers", () => {
  const top = {
    i8: 127n,
    u8: 255n,
    i32: 2n ** 31n - 1n,
    u32: 2n ** 32n - 1n,
    i64: 2n ** 63n - 1n,
    u64: 2n ** 64n - 1n,
  };
  test.each(Object.entries(top))("of %s take their whole range", async (name, highest) => {
    const dtype = name as keyof typeof top;
    const lowest = dtype.startsWith("i") ? -highest - 1n : 0n;
    const width = Number(highest - lowest) + 1;
    for (const cut of [0n, 1n]) {
      const drawn = random.randint(key, [4096], { min: lowest, max: highest + 1n - cut, dtype });
      expect(drawn.dtype).toBe(dtype);
      const values = Array.from((await drawn.data()) as unknown as ArrayLike<number | bigint>, BigInt);
      expect(values.every((value) => value >= lowest && value <= highest - cut)).toBe(true);
      expect(
        distance(
          values.map((v) => Number(v - lowest)),
          (x) => (x + width / 2 ** 9) / width,
        ),
      ).toBeLessThan(limit + 0.2);
    }
  });

  test.each([[3n], [7n], [2n ** 63n + 2n ** 62n]])("below %d are each as likely", async (count) => {
    const values = await random.randint(key, [many], { max: count, dtype: "u64" }).data();
    const parts = 3;
    const often = [0, 0, 0];
    for (const value of values as unknown as BigUint64Array) {
      const part = Number((value * BigInt(parts)) / count);
      if (count % 3n === 0n || count > 100n) often[part] = (often[part] as number) + 1;
      else if (value < 3n) often[Number(value)] = (often[Number(value)] as number) + 1;
    }
    const expected = count === 7n ? many / 7 : many / 3;
    const square = often.reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
    expect(square).toBeLessThan(14);
  });

  test("one integer, none, and what is refused", async () => {
    expect(await numbers(random.randint(key, [3], { min: 5, max: 6 }))).toEqual([5, 5, 5]);
    expect(random.randint(key, [0], { max: 3 }).shape).toEqual([0]);
    for (const [options, message] of [
      [{ max: 0 }, /max must be above min, got \[0, 0\)/],
      [{ min: 3, max: 1 }, /got \[3, 1\)/],
      [{ max: 1.5 }, /max must be a whole number in .* for i32, got 1.5/],
      [{ max: 257, dtype: "u8" }, /whole number in \[0, 256\] for u8, got 257/],
      [{ min: -1, max: 3, dtype: "u32" }, /min must be .*got -1/],
      [{ max: Number.NaN }, /got NaN/],
      [{ max: 3, dtype: "f32" }, /gives integers, not f32/],
      [{}, /max must be .*got undefined/],
    ] as const)
      expect(() => random.randint(key, [2], options as never)).toThrow(message);
  });
});

describe("choices", () => {
  test("without replacement are different, and each as often first", async () => {
    const hands = vmap((k: Tensor) => random.choice(k, 5, [3], { replace: false }))(random.bits(key, [3000, 2]));
    const rows = (await hands.array()) as number[][];
    expect(rows.every((row) => new Set(row).size === 3)).toBe(true);
    for (const place of [0, 1, 2]) {
      const often = [0, 1, 2, 3, 4].map((value) => rows.filter((row) => row[place] === value).length);
      expect(often.reduce((sum, n) => sum + (n - 600) ** 2 / 600, 0)).toBeLessThan(19);
    }
  });

  test("without replacement by weights are as if drawn one after the other", async () => {
    const weights = tensor([1, 2, 0, 5]);
    const pairs = vmap((k: Tensor) => random.choice(k, 4, [2], { replace: false, weights }))(
      random.bits(key, [4000, 2]),
    );
    const rows = (await pairs.array()) as number[][];
    const share = (first: number, second: number): number =>
      rows.filter((row) => row[0] === first && row[1] === second).length / rows.length;
    for (const [first, second, chance] of [
      [3, 1, (5 / 8) * (2 / 3)],
      [3, 0, (5 / 8) * (1 / 3)],
      [1, 3, (2 / 8) * (5 / 6)],
      [0, 1, (1 / 8) * (2 / 7)],
    ] as const)
      expect(Math.abs(share(first, second) - chance)).toBeLessThan(4.5 * Math.sqrt(chance / rows.length));
    expect(rows.flat().includes(2)).toBe(false);
  });

  test("with replacement, with weights and without", async () => {
    const plain = await numbers(random.choice(key, 4, [many]));
    const weighted = await numbers(random.choice(key, 4, [many], { weights: [0, 3, 0, 1] }));
    const often = (values: number[]): number[] => [0, 1, 2, 3].map((v) => values.filter((x) => x === v).length / many);
    for (const share of often(plain)) expect(Math.abs(share - 0.25)).toBeLessThan(0.015);
    const [a, b, c, d] = often(weighted) as [number, number, number, number];
    expect([a, c]).toEqual([0, 0]);
    expect(Math.abs(b - 0.75) + Math.abs(d - 0.25)).toBeLessThan(0.03);
  });

  test("of slices of a tensor, in any dim; orders; classes", async () => {
    const x = tensor([
      [1, 2, 3],
      [4, 5, 6],
    ]);
    const [picked, turned] = [random.choice(key, x, [2, 2]), random.permutation(key, x, -1)];
    expect([picked.shape, turned.shape]).toEqual([
      [2, 2, 3],
      [2, 3],
    ]);
    expect((await numbers(turned)).sort()).toEqual([1, 2, 3, 4, 5, 6]);
    const order = await numbers(random.permutation(key, 1000));
    expect([...order].sort((a, b) => a - b)).toEqual(order.map((_value, index) => index));
    expect(order).not.toEqual([...order].sort((a, b) => a - b));
    const logits = tensor([Math.log(2), Math.log(6), -Infinity]).broadcastTo([many, 3]);
    const classes = await numbers(random.categorical(key, logits));
    expect(Math.abs(classes.reduce((sum, c) => sum + c, 0) / many - 0.75)).toBeLessThan(0.015);
    expect(random.choice(key, 0, [0]).shape).toEqual([0]);
  });

  test.each([
    [3, [4], { replace: false }, /4 of 3 cannot be chosen without replacement/],
    [0, [1], {}, /nothing to choose from/],
    [3, [1], { weights: [1, 2] }, /weights must be floats \[3\], got f64\[2\]/],
    [3, [1], { weights: [1, -1, 2] }, /weight 1 is -1, not a finite number from 0 on/],
    [3, [1], { weights: [1, Number.NaN, 2] }, /weight 1 is NaN/],
    [3, [1], { weights: [0, 0, 0] }, /only 0 weights are above 0/],
    [3, [2], { weights: [0, 1, 0], replace: false }, /2 cannot be chosen: only 1 weights/],
    [2.5, [2], {}, /the count must be a whole number/],
    [tensor([1, 2]), [2], { dim: 1 }, /there is no dim 1 in f32\[2\]/],
  ] as const)("%s %o %o is refused", (among, shape, options, message) => {
    expect(() => random.choice(key, among as number, shape, options as object)).toThrow(message);
  });
});

describe("gamma, beta, dirichlet", () => {
  test("at the ends of their parameters", async () => {
    const shapes = tensor([0, 1e-30, 1e30, Infinity, Number.NaN, -1]);
    const [zero, tiny, huge, infinite, ...none] = await numbers(gamma(key, shapes, [6]));
    expect([zero, tiny, infinite, none]).toEqual([0, 0, Infinity, [Number.NaN, Number.NaN]]);
    expect((huge as number) / 1e30).toBeCloseTo(1, 5);
    const halves = await numbers(beta(key, 1e-4, 1e-4, [1000]));
    expect(halves.every((value) => value >= 0 && value <= 1)).toBe(true);
    expect(Math.abs(halves.reduce((sum, x) => sum + x, 0) / 1000 - 0.5)).toBeLessThan(0.08);
    const points = random.dirichlet(key, tensor([0.5, 2, 1.5], { dtype: "f64" }), [4000]);
    expect([points.shape, points.dtype]).toEqual([[4000, 3], "f64"]);
    const means = await numbers(points.mean(0));
    [1 / 8, 1 / 2, 3 / 8].forEach((mean, index) => {
      expect(Math.abs((means[index] as number) - mean)).toBeLessThan(0.02);
    });
    expect((await numbers(points.sum(1))).every((sum) => Math.abs(sum - 1) < 1e-12)).toBe(true);
  });

  test("refuse what they cannot draw, and derivatives", () => {
    expect(() => gamma(key, -1, [])).toThrow(/random.gamma: a must be at least 0, got -1/);
    expect(() => gamma(key, Number.NaN, [])).toThrow(/a must be/);
    expect(() => gamma(key, tensor([1, 2]), [3])).toThrow(/a f32\[2\] does not broadcast to \[3\]/);
    expect(() => beta(key, 1, tensor([1], { dtype: "i32" }), [1])).toThrow(/b must be floats, got i32\[1\]/);
    expect(() => random.dirichlet(key, 3 as never)).toThrow(/alpha must be a tensor/);
    const draw = (a: Tensor): Tensor => gamma(key, a, []);
    expect(() => grad(draw)(tensor(2))).toThrow(/gamma variables have no derivative by their shape/);
    expect(() => jvp(draw, [tensor(2)], [tensor(1)])).toThrow(/no derivative by their shape/);
  });
});

test("numbers are the same in parts as whole, however they are drawn", async () => {
  const draw = (k: Tensor): Tensor[] => [
    uniform(k, [8, 3], { dtype: "f64", min: -1, max: 2 }),
    gamma(k, 0.7, [8, 3]),
    random.randint(k, [8, 3], { max: 6 }).cast("f32"),
    random.randint(k, [8, 3], { max: 2n ** 63n - 1n, dtype: "i64" }).cast("f64"),
    laplace(k, [8, 3], { dtype: "bf16" }),
    random.choice(k, 100, [8, 3], { weights: Array.from({ length: 100 }, (_unused, i) => i) }).cast("f32"),
  ];
  const drawn = (zero: Tensor): Tensor[] => draw(key).map((x) => x.cast("f64").add(zero));
  const wanted = await Promise.all(draw(key).map(numbers));
  const axes = mesh({ data: 2 });
  const two = localRuntime({ axes: axes.axes });
  const type = { dtype: "f64", shape: [8, 3] } as const;
  const zero = distribute(two, new Float64Array(24), type, shardedOn(axes, { data: 0 }));
  for (const made of [jit(drawn)(zeros([8, 3], { dtype: "f64" })), jit(drawn)(zero)])
    expect(await Promise.all(made.map(numbers))).toEqual(wanted);
  two.close();
});
