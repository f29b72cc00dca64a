/** Losses and their gradients against PyTorch (test/fixtures/losses.py). */
import { grad, jit, logSoftmax, losses, type Tensor, tensor } from "heddle";
import { expect, test } from "vitest";
import { fixture } from "../fixtures/fixture.ts";

interface Described {
  readonly dtype: "f64" | "i32";
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

interface Case {
  readonly loss: string;
  readonly title: string;
  readonly inputs: readonly Described[];
  readonly options: { readonly [name: string]: unknown; readonly reduction: string };
  readonly value: readonly number[];
  readonly grads: readonly (readonly number[] | null)[];
}

type AnyLoss = (...args: (Tensor | object)[]) => Tensor;

const isDescribed = (value: unknown): value is Described =>
  typeof value === "object" && value !== null && "data" in value;

const toTensor = ({ dtype, shape, data }: Described, float: "f32" | "f64"): Tensor =>
  tensor(Float64Array.from(data), { shape, dtype: dtype === "f64" ? float : dtype });

/** Where Heddle gives another number on purpose: the loss's documentation says so. */
function isKnown({ loss, title, options }: Case, what: string, found: number, expected: number): boolean {
  // PyTorch gives NaN for the slope of t·log(t) at 0, which is masked in the value.
  if (loss === "poissonNll" && options["full"] === true && what.endsWith("1")) return Number.isNaN(expected);
  if (loss === "klDivergence" && what.endsWith("1")) return Number.isNaN(expected);
  // PyTorch takes 0 for the sign of NaN.
  if ((loss === "l1" || loss === "smoothL1") && title.startsWith("ends")) return Number.isNaN(found) && expected === 0;
  // PyTorch's gradient by the target knows nothing of the bound of -100.
  if (title === "certain and wrong" && what.endsWith("1") && Math.abs(expected) > Math.abs(found)) return true;
  // PyTorch's 1e-12 is one of f32, 4e-9 below.
  const isOfEpsilon = loss === "cosineEmbedding" || title === "certain and wrong";
  return isOfEpsilon && Math.abs(found - expected) <= 5e-9 * Math.abs(expected);
}

function expectEqual(
  one: Case,
  what: string,
  found: ArrayLike<number>,
  expected: readonly number[],
  tolerance: number,
): void {
  expect(found.length, what).toBe(expected.length);
  expected.forEach((right, index) => {
    const left = found[index] as number;
    const close = Number.isFinite(right) && Math.abs(left - right) <= tolerance * Math.max(1, Math.abs(right));
    if (!close && !Object.is(left, right) && left !== right && !isKnown(one, what, left, right))
      expect.fail(`${what} at ${index}: ${left} is not ${right}`);
  });
}

const cases = fixture<Case>("losses");
const name = ({ loss, title, options }: Case): string => `${loss}, ${title}, ${options.reduction}`;

/** The loss of a case, of its inputs; of CTC by logits. */
function lossOf({ loss, options }: Case, float: "f32" | "f64"): AnyLoss {
  const given = Object.fromEntries(
    Object.entries(options).map(([key, value]) => [key, isDescribed(value) ? toTensor(value, float) : value]),
  );
  const fn = losses[loss as "mse"] as unknown as AnyLoss;
  return (first, ...rest) => fn(loss === "ctc" ? logSoftmax(first as Tensor) : first, ...rest, given);
}

async function check(one: Case, float: "f32" | "f64", tolerance: number): Promise<void> {
  const inputs = one.inputs.map((input) => toTensor(input, float));
  const loss = lossOf(one, float);
  const value = jit((...args: Tensor[]) => loss(...args))(...inputs);
  expectEqual(one, "the loss", await value.data(), one.value, tolerance);
  const floats = one.inputs.flatMap(({ dtype }, index) => (dtype === "f64" ? [index] : []));
  for (const [place, index] of floats.entries()) {
    const expected = one.grads[place];
    if (expected === null || expected === undefined) continue;
    const slope = grad((x: Tensor) => loss(...inputs.map((input, at) => (at === index ? x : input))).sum());
    const found = jit((x: Tensor) => slope(x))(inputs[index] as Tensor);
    expectEqual(one, `the gradient by input ${index}`, await found.data(), expected, tolerance);
  }
}

test.each(cases.map((one): [string, Case] => [name(one), one]))("%s", async (_name, one) => {
  await check(one, "f64", 1e-9);
});

// Values beyond f32 are other values there.
const single = cases.filter(({ title, options }) => !/ends|large|certain/.test(title) && options.reduction === "mean");
test.each(single.map((one): [string, Case] => [name(one), one]))("%s, in f32", async (_name, one) => {
  await check(one, "f32", 2e-5);
});
