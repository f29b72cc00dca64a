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

test("errors", () => {
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
