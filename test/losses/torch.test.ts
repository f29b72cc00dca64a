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

/** The loss of a case, and its gradients by the inputs of which PyTorch gives some. */
function numbersOf(one: Case, float: "f32" | "f64", inputs: readonly Tensor[]): Tensor[] {
  const loss = lossOf(one, float);
  return [
    loss(...inputs),
    ...derived(one).map(({ index }) =>
      grad((x: Tensor) => loss(...inputs.map((input, at) => (at === index ? x : input))).sum())(
        inputs[index] as Tensor,
      ),
    ),
  ];
}

/** PyTorch's gradients, each with the place of its input. */
const derived = ({ inputs, grads }: Case): { index: number; expected: readonly number[] }[] =>
  inputs
    .flatMap(({ dtype }, index) => (dtype === "f64" ? [index] : []))
    .flatMap((index, place) => {
      const expected = grads[place];
      return expected === null || expected === undefined ? [] : [{ index, expected }];
    });

/** Cases side by side in one program, as to compile each alone takes longer than all else here. */
const together = 40;

function comparing(some: readonly Case[], float: "f32" | "f64", tolerance: number): (at: number) => Promise<void> {
  const programs = new Map<number, Tensor[][]>();
  const compiled = (at: number): Tensor[] => {
    const first = at - (at % together);
    const members = some.slice(first, first + together);
    const results =
      programs.get(first) ??
      jit((all: Tensor[][]) => members.map((one, place) => numbersOf(one, float, all[place] as Tensor[])))(
        members.map((one) => one.inputs.map((input) => toTensor(input, float))),
      );
    programs.set(first, results);
    return results[at - first] as Tensor[];
  };
  return async (at) => {
    const one = some[at] as Case;
    const [value, ...slopes] = compiled(at) as [Tensor, ...Tensor[]];
    expectEqual(one, "the loss", await value.data(), one.value, tolerance);
    for (const [place, { index, expected }] of derived(one).entries())
      expectEqual(one, `the gradient by input ${index}`, await (slopes[place] as Tensor).data(), expected, tolerance);
  };
}

const titled = (some: readonly Case[]): [string, number][] => some.map((one, at) => [name(one), at]);

const inDouble = comparing(cases, "f64", 1e-9);
test.each(titled(cases))("%s", (_name, at) => inDouble(at));

// Values beyond f32 are other values there.
const single = cases.filter(({ title, options }) => !/ends|large|certain/.test(title) && options.reduction === "mean");
const inSingle = comparing(single, "f32", 2e-5);
test.each(titled(single))("%s, in f32", (_name, at) => inSingle(at));
