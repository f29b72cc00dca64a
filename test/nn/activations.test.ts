/** Activations and their gradients against PyTorch (test/fixtures/activations.py), as functions and as layers. */
import { grad, jit, nn, random, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { fixture } from "../fixtures/fixture.ts";
import { expectClose } from "../support/close.ts";

type Outcome = { readonly y: readonly number[]; readonly gradient: readonly number[] };
interface Elementwise {
  readonly activation: string;
  readonly options: { readonly [name: string]: unknown };
  readonly f64: Outcome;
  readonly f32: Outcome;
}
interface OverDim extends Outcome {
  readonly over: "softmin";
  readonly options: { readonly dim?: number };
  readonly table: number[][];
}
interface Prelu extends Outcome {
  readonly slopes: number[];
  readonly table: number[][];
  readonly bySlope: readonly number[];
}

const cases = fixture<object>("activations");
const having = <Case>(name: string): Case[] => cases.filter((one) => name in one) as Case[];
const [{ values }] = having<{ values: number[] }>("values") as [{ values: number[] }];

/** The function and its gradient, weighed by 1.5, in one program each. */
async function both(fn: (x: Tensor) => Tensor, x: Tensor): Promise<Outcome> {
  const slope = grad((input: Tensor) => fn(input).mul(1.5).sum());
  const [y, gradient] = [jit((input: Tensor) => fn(input))(x), jit((input: Tensor) => slope(input))(x)];
  return { y: [...(await y.data())], gradient: [...(await gradient.data())] };
}

const passNaN: readonly string[] = ["hardtanh", "relu6", "hardsigmoid", "softshrink", "hardshrink"];

/** Where Heddle gives another number on purpose, which docs/library.md says. */
function known({ activation }: Elementwise, what: string, x: number, found: number, expected: number): boolean {
  // A NaN is in no flat part: the gradient passes, as that of relu. PyTorch has 0 here and 1 there.
  if (Number.isNaN(x) && what === "gradient" && passNaN.includes(activation)) return found !== 0 && expected === 0;
  // PyTorch's sixth is one of f32.
  if (activation === "hardsigmoid" && what === "gradient") return Math.abs(found - expected) < 1e-8;
  // Nor may the cube of tanh's formula overflow where the slope is 1 or 0.
  if (activation === "gelu" && what === "gradient" && Math.abs(x) === 1e30)
    return Number.isNaN(expected) && found === (x > 0 ? 1.5 : 0);
  // PyTorch's f32 kernel, but not its f64 one, has infinity times 0 there.
  return activation === "gelu" && x === Infinity && found === Infinity;
}

function differences(
  one: Elementwise,
  what: "y" | "gradient",
  found: readonly number[],
  dtype: "f32" | "f64",
): string[] {
  // Of the value, or where less, of 1: differences of numbers near 1 lose no more than those of them.
  const tolerance = dtype === "f64" ? 1e-9 : 2e-6;
  return values.flatMap((x, index) => {
    const [left, right] = [found[index] as number, one[dtype][what][index] as number];
    const close =
      left === right ||
      (Number.isFinite(right) &&
        Math.abs(left - right) <= tolerance * Math.max(Math.abs(right), dtype === "f64" ? 1e-3 : 1));
    if (close || Object.is(left, right) || known(one, what, x, left, right)) return [];
    return [`${what} at ${x}: ${left} is not ${right}`];
  });
}

describe.each(having<Elementwise>("activation"))("$activation $options", (one) => {
  test.each(["f64", "f32"] as const)("%s", async (dtype) => {
    const x = tensor(values, { dtype });
    const fn = nn.functional[one.activation as "silu"] as (x: Tensor, options: object) => Tensor;
    const found = await both(
      (input) =>
        Object.keys(one.options).length === 0 ? (fn as (x: Tensor) => Tensor)(input) : fn(input, one.options),
      x,
    );
    expect([...differences(one, "y", found.y, dtype), ...differences(one, "gradient", found.gradient, dtype)]).toEqual(
      [],
    );
  });

  test("as a layer", async () => {
    const layer = (nn[one.activation as "silu"] as (options?: object) => nn.Layer)(one.options);
    expect(layer.kind).toBe(one.activation);
    const { params, output } = layer.init(random.key(0), { shape: [2, 3], dtype: "f32" });
    expect([params, output.shape]).toEqual([{}, [2, 3]]);
    const y = layer.apply({ params: {}, state: {} }, tensor(values, { dtype: "f64" })).y;
    expect(differences(one, "y", [...(await y.data())], "f64")).toEqual([]);
  });
});

test.each(having<OverDim>("over"))("$over $options", async ({ over, options, table, y, gradient }) => {
  const x = tensor(table, { dtype: "f64" });
  const found = await both((input) => nn.functional[over](input, options.dim), x);
  expectClose(found.y, y, 1e-12);
  expectClose(found.gradient, gradient, 1e-12, 1e-14);
  const layer = nn[over](options.dim);
  expectClose(await layer.apply({ params: {}, state: {} }, x).y.data(), y, 1e-12);
});

test.each(having<Prelu>("slopes"))("prelu $slopes", async ({ slopes, table, y, gradient, bySlope }) => {
  const [x, weight] = [tensor(table, { dtype: "f64" }), tensor(slopes, { dtype: "f64" })];
  const found = await both((input) => nn.functional.prelu(input, weight), x);
  expectClose(found.y, y, 1e-12);
  expectClose(found.gradient, gradient, 1e-12);
  const other = grad((slope: Tensor) => nn.functional.prelu(x, slope).mul(1.5).sum())(weight);
  expectClose(await other.data(), bySlope, 1e-12);
});

test("prelu is a layer with slopes", async () => {
  const layer = nn.prelu({ count: 3 });
  const { params } = layer.init(random.key(0), { shape: [2, 3, 4], dtype: "f64" });
  const weight = params["weight"] as Tensor;
  expect([weight.shape, weight.dtype, ...(await weight.data())]).toEqual([[3], "f64", 0.25, 0.25, 0.25]);
  const { y } = layer.apply({ params: { weight: tensor([0, 1, 2]) }, state: {} }, tensor([[-1, -1, -1]]));
  expect([...(await y.data())]).toEqual([-0, -1, -2]);
});

describe("rrelu in training", () => {
  const bounds = { lower: 0.1, upper: 0.4 };
  const layer = nn.rrelu(bounds);
  const apply = (x: Tensor, seed: number): Tensor =>
    layer.apply({ params: {}, state: {} }, x, { train: true, key: random.key(seed) }).y;
  const count = 4000;
  const ones = Float64Array.from({ length: count }, (_unused, place) => (place % 4 === 0 ? 1 : -1));

  test.each(["f64", "f32", "f16", "bf16"] as const)(
    "%s: slopes within the bounds, and the gradient is the slope",
    async (dtype) => {
      const x = tensor(ones, { dtype });
      const slopes = [...(await apply(x, 1).div(x).data())];
      const up = slopes.filter((_slope, place) => place % 4 === 0);
      const down = slopes.filter((_slope, place) => place % 4 !== 0);
      expect(up.every((slope) => slope === 1)).toBe(true);
      // The bounds themselves are rounded.
      const rounding = { f64: 0, f32: 2 ** -25, f16: 2 ** -12, bf16: 2 ** -9 }[dtype];
      expect(Math.min(...down)).toBeGreaterThanOrEqual(0.1 - rounding);
      expect(Math.max(...down)).toBeLessThanOrEqual(0.4 + rounding);
      // Uniform: a mean of 3,000 is within five of its deviations.
      const mean = down.reduce((sum, slope) => sum + slope, 0) / down.length;
      expect(Math.abs(mean - 0.25)).toBeLessThan((5 * 0.3) / Math.sqrt(12 * down.length));
      const gradient = await grad((input: Tensor) => apply(input, 1).sum())(x).data();
      expect([...gradient]).toEqual(slopes);
    },
  );

  test("the key alone decides, not the dtype, jit or a batch around it", async () => {
    const x = tensor(ones, { dtype: "f32" });
    const first = [...(await apply(x, 1).data())];
    expect([...(await jit((input: Tensor) => apply(input, 1))(x).data())]).toEqual(first);
    expect([...(await apply(x, 2).data())]).not.toEqual(first);
    expectClose(await apply(x.cast("f64"), 1).data(), first, 1e-6);
    expect(new Set(first).size).toBeGreaterThan(count / 2);
  });

  test("0 is on the side of the slopes, NaN passes, and 0 times an infinity is nowhere", async () => {
    const x = tensor([0, -0, NaN, Infinity, -Infinity], { dtype: "f64" });
    const y = [...(await apply(x, 1).data())];
    expect(y).toEqual([0, -0, NaN, Infinity, -Infinity]);
    const gradient = [...(await grad((input: Tensor) => apply(input, 1).sum())(x).data())];
    for (const place of [0, 1, 4]) expect(gradient[place]).toSatisfy((slope: number) => slope >= 0.1 && slope < 0.4);
    expect(gradient[3]).toBe(1);
  });

  test("without a key it is an error", () => {
    expect(() => layer.apply({ params: {}, state: {} }, tensor([1]), { train: true })).toThrow(
      /rrelu: draws while training/,
    );
  });
});

describe("gumbelSoftmax", () => {
  const rows = 20_000;
  const logits = [0, 1, -1, 2];
  const x = tensor(
    Float64Array.from({ length: rows * 4 }, (_unused, place) => logits[place % 4] as number),
    {
      shape: [rows, 4],
      dtype: "f64",
    },
  );
  const key = random.key(5);

  test("the largest is each class with its probability", async () => {
    const drawn = [...(await nn.functional.gumbelSoftmax(x, { key, hard: true }).data())].map(Number);
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0);
    for (const [place, logit] of logits.entries()) {
      const expected = Math.exp(logit) / total;
      const found = drawn.filter((_value, at) => at % 4 === place).reduce((sum, value) => sum + value, 0) / rows;
      // Within five deviations.
      expect(Math.abs(found - expected)).toBeLessThan(5 * Math.sqrt((expected * (1 - expected)) / rows));
    }
    expect(new Set(drawn)).toEqual(new Set([0, 1]));
  });

  test("the gradient of the hard answer is that of the soft one, also over another dim, and a small temperature sharpens", async () => {
    const small = x.slice([0, 0], [5, 4]);
    const weights = random.normal(random.key(6), [5, 4], { dtype: "f64" });
    for (const dim of [0, 1, -2]) {
      const slope = (hard: boolean): Tensor =>
        grad((input: Tensor) =>
          nn.functional.gumbelSoftmax(input, { key, hard, dim, temperature: 0.7 }).mul(weights).sum(),
        )(small);
      expectClose(await slope(true).data(), [...(await slope(false).data())], 1e-12);
      const one = nn.functional.gumbelSoftmax(small, { key, hard: true, dim });
      expect(await one.sum(dim).data()).toSatisfy((sums: Float64Array) => sums.every((sum) => sum === 1));
      const cold = nn.functional.gumbelSoftmax(small, { key, dim, temperature: 1e-4 });
      expectClose(await cold.data(), [...(await one.data())], 1e-6, 1e-6);
    }
  });

  test("is the softmax where the temperature is high, and of one dtype with its input", async () => {
    const small = x.slice([0, 0], [5, 4]).cast("bf16");
    const y = nn.functional.gumbelSoftmax(small, { key, temperature: 1e6 });
    expect(y.dtype).toBe("bf16");
    expect(await y.data()).toSatisfy((values: Float32Array) => values.every((value) => value === 0.25));
  });
});

test("errors", () => {
  expect(() => nn.functional.gumbelSoftmax(tensor([1, 2]), { key: random.key(0), temperature: 0 })).toThrow(
    /gumbelSoftmax: temperature must be finite and above 0/,
  );
  expect(() => nn.rrelu({ lower: 0.5 })).toThrow(/rrelu: upper must be at least 0.5/);
  expect(() => nn.rrelu({ key: random.key(0) } as never)).toThrow(/rrelu: unknown option 'key'/);
  expect(() => nn.functional.rrelu(tensor([1], { dtype: "i32" }))).toThrow(/rrelu: takes floats, got i32\[1\]/);
  expect(() => nn.softmax2d().init(random.key(0), { shape: [2, 3], dtype: "f32" })).toThrow(
    /softmax2d: takes \[batch, channels, height, width\], got f32\[2,3\]/,
  );
  const classes = { classes: 10, cutoffs: [2, 5] };
  expect(() => nn.adaptiveLogSoftmax({ ...classes, cutoffs: [5, 5] })).toThrow(
    /cutoffs, which ascend, must be at least 6/,
  );
  expect(() => nn.adaptiveLogSoftmax({ ...classes, cutoffs: [10] })).toThrow(/at most 9, got 10/);
  expect(() => nn.adaptiveLogSoftmax({ ...classes, cutoffs: [] })).toThrow(/at least one class/);
  expect(() => nn.adaptiveLogSoftmax(classes).init(random.key(0), { shape: [2, 8], dtype: "f32" })).toThrow(
    /adaptiveLogSoftmax: cluster 1 has no features left of 8: divValue is 4/,
  );
  expect(() => nn.elu({ alpa: 1 } as never)).toThrow(/elu: unknown option 'alpa'/);
  expect(() => nn.gelu({ approximate: "erf" as never })).toThrow(/gelu: approximate must be none or tanh/);
  expect(() => nn.hardtanh({ min: 1, max: 0 })).toThrow(/hardtanh: max must be at least 1/);
  expect(() => nn.threshold({} as never)).toThrow(/threshold: threshold must be a number/);
  expect(() => nn.glu().init(random.key(0), { shape: [2, 3], dtype: "f32" })).toThrow(
    /glu: dim -1 of f32\[2,3\] cannot be halved/,
  );
  expect(() => nn.prelu({ count: 4 }).init(random.key(0), { shape: [2, 3], dtype: "f32" })).toThrow(
    /4 slopes, which do not fit dim 1/,
  );
});
