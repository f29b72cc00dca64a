/**
 * Whatever is made of several operations, in f16 and bf16 against f64: on zeros, on values of some hundred, whose squares are beyond
 * f16, and on 10^5 elements, whose count is. Everything exported is run; what needs more than a tensor has a row of arguments.
 */
import * as heddle from "heddle";
import {
  and,
  arange,
  grad,
  isFinite,
  isNaN,
  isTensor,
  jit,
  losses,
  nn,
  not,
  optim,
  or,
  random,
  select,
  type Tensor,
  type Tensors,
  tensor,
  zerosLike,
} from "heddle";
import { describe, expect, test } from "vitest";
import { inFloat32 } from "../../src/functions/wide.ts";
import { isFloat } from "../../src/ir/dtype.ts";
import { partOf } from "../support/sample.ts";

type Run = (x: Tensor, other: Tensor) => Tensor | Tensors;
interface Case {
  readonly name: string;
  readonly run: Run;
}

/** Largest relative error: one unit in the last place, for a rounding of the dtype and what f32 adds. */
const tolerance = { f16: 2 ** -10, bf16: 2 ** -7 } as const;
type Half = keyof typeof tolerance;

const pattern = (count: number, low: number, high: number, seed: number): number[] =>
  Array.from(
    { length: count },
    (_unused, index) => low + (high - low) * (((index * 7919 + seed * 104729) % 9973) / 9973),
  );

const kinds = {
  zeros: { shape: [2, 4, 8], values: () => new Array<number>(64).fill(0) },
  hundreds: {
    shape: [2, 4, 8],
    values: (seed: number) => pattern(64, 200, 500, seed).map((value, index) => (index % 3 === 0 ? -value : value)),
  },
  long: { shape: [2, 4, 12_500], values: (seed: number) => pattern(100_000, 0.1, 0.9, seed) },
} as const;

const key = random.key(3);
const labels = tensor([1, 0, 3, 2, 7, 5, 4, 6], { dtype: "i32" }).reshape([2, 4]);
const sides = tensor([1, -1, 1, 1, -1, -1, 1, -1]).reshape([2, 4]);
const row = (x: Tensor): Tensor => x.slice([0, 0, 0], [1, 1, x.shape[2] as number]).reshape([-1]);

/** Every function that is exported: those with arguments of their own, and others by `usual`. */
function casesOf(
  from: { readonly [name: string]: unknown },
  own: { readonly [name: string]: Run },
  usual: (fn: (...args: never[]) => unknown) => Run,
  but: readonly string[] = [],
): Case[] {
  return Object.entries(from).flatMap(([name, fn]) => {
    if (typeof fn !== "function" || but.includes(name)) return [];
    return [{ name, run: own[name] ?? usual(fn as (...args: never[]) => unknown) }];
  });
}

const lossCases = casesOf(
  losses,
  {
    softmaxCrossEntropy: (x) => losses.softmaxCrossEntropy(x, labels, { labelSmoothing: 0.1 }),
    nll: (x) => losses.nll(x, labels),
    ctc: (x) => losses.ctc(x, tensor([[1], [2]], { dtype: "i32" })),
    gaussianNll: (x, t) => losses.gaussianNll(x, t, t.abs()),
    cosineEmbedding: (x, t) => losses.cosineEmbedding(x, t, sides),
    tripletMargin: (x, t) => losses.tripletMargin(x, t, t.neg()),
  },
  (fn) => (x, t) => (fn as unknown as losses.Loss)(x, t),
);

const functionalCases = casesOf(
  nn.functional,
  {
    threshold: (x) => nn.functional.threshold(x, { threshold: 0.5, value: 0.25 }),
    gumbelSoftmax: (x) => nn.functional.gumbelSoftmax(x, { key }),
    localResponseNorm: (x) => nn.functional.localResponseNorm(x, 3),
    rrelu: (x) => nn.functional.rrelu(x, { key }),
    prelu: (x, t) => nn.functional.prelu(x, row(t).slice([0], [4])),
    scaledDotProductAttention: (x, t) =>
      nn.functional.scaledDotProductAttention(x.reshape([1, -1, 4]).slice([0, 0, 0], [1, 16, 4]), ...twice(t)),
    embeddingBag: (x) => nn.functional.embeddingBag(labels, x.reshape([8, -1]), { mode: "mean" }),
  },
  (fn) => (x) => (fn as unknown as (x: Tensor) => Tensor)(x),
  // In f64 it draws other numbers.
  ["gumbelSoftmax"],
);

function twice(t: Tensor): [Tensor, Tensor] {
  const keys = t.reshape([1, -1, 4]).slice([0, 0, 0], [1, 16, 4]);
  return [keys, keys];
}

/** Those that need arguments, or whose epsilon depends on the dtype. */
const normLayers: { readonly [name: string]: nn.Layer } = {
  groupNorm: nn.groupNorm(2),
  localResponseNorm: nn.localResponseNorm(3),
  rmsNorm: nn.rmsNorm({ epsilon: 1e-6 }),
};

/** The layers that normalise, while training and after; a new one is one by its name. */
const normCases = Object.entries(nn).flatMap(([name, make]): Case[] => {
  if (!/Norm$/.test(name)) return [];
  const layer = normLayers[name] ?? (make as () => nn.Layer)();
  return [true, false].map((train) => ({
    name: `${name}, ${train ? "training" : "evaluating"}`,
    run: (x) => {
      const { params, state } = layer.init(key, x);
      const { y, state: after } = layer.apply({ params, state }, x, { train });
      return { y, ...after };
    },
  }));
});

/** What takes one tensor of floats and gives tensors; the rest needs other arguments, of which the composites are here. */
const tensorCases = casesOf(
  heddle,
  {
    normalize: (x) => heddle.normalize(x, -1),
    moments: (x) => heddle.moments(x, [1, 2]),
    xlogy: (x, t) => heddle.xlogy(x, t.abs()),
    softmaxCrossEntropy: (x) => heddle.softmaxCrossEntropy(x, labels),
  },
  (fn) => (x) => (fn as unknown as (x: Tensor) => Tensor)(x),
  // The edges of a histogram are numbers of the dtype, and it counts between those.
  ["train", "distributedStep", "iterate", "withLineage", "allClose", "histogram"],
).filter(({ run }) => {
  try {
    heddle.evalShape((x: Tensor) => ({ ...(leavesOf(run(x, x)) as [Tensor, ...Tensor[]]) }), {
      shape: [2, 4, 8],
      dtype: "f64",
    });
    return true;
  } catch {
    return false;
  }
});

const clipCases: Case[] = [
  { name: "globalNorm", run: (x, other) => optim.globalNorm({ x, other }) },
  { name: "clipByGlobalNorm", run: (x, other) => optim.clipByGlobalNorm({ x, other }, 5) as unknown as Tensors },
  { name: "clipByValue", run: (x) => optim.clipByValue({ x }, 0.5) },
];

function leavesOf(x: Tensor | Tensors): Tensor[] {
  if (isTensor(x)) return [x];
  if (typeof x !== "object" || x === null) throw new TypeError("no tensor");
  return Object.values(x).flatMap((one) => leavesOf(one as Tensor | Tensors));
}

/** Values, and the gradient of the first of them along a direction. */
function valuesOf(run: Run, x: Tensor, other: Tensor): Tensor[] {
  const values = leavesOf(run(x, other));
  const along = (one: Tensor): Tensor => {
    const [first] = leavesOf(run(one, other)) as [Tensor];
    const steps = arange(first.size)
      .rem(17)
      .cast("f64")
      .sub(7.5)
      .mul(1 / 8);
    return first.mul(steps.reshape(first.shape).cast(first.dtype)).sum();
  };
  return isFloat((values[0] as Tensor).dtype) ? [...values, grad(along)(x)] : values;
}

/** How many numbers are off, and the largest difference. */
type Compared = { readonly wrong: Tensor; readonly difference: Tensor };

/** How many numbers are further than the tolerance from the exact ones in their dtype, and the largest difference. */
function compared(found: Tensor, exact: Tensor, dtype: Half, units = 1): Compared {
  const [mine, own] = [found.cast("f64"), isFloat(exact.dtype) ? exact.cast(dtype).cast("f64") : exact.cast("f64")];
  const scale = select(isFinite(own), own.abs(), 0).max();
  const difference = mine.sub(own).abs();
  const near = difference.le(
    own
      .abs()
      .add(scale.mul(0.01))
      .mul(units * tolerance[dtype])
      .add(2 ** -23),
  );
  const alike = or(mine.eq(own), and(isNaN(mine), isNaN(own)));
  return { wrong: not(or(near, alike)).cast("i32").sum(), difference: difference.max() };
}

const groups = {
  losses: lossCases,
  "functions of nn.functional": functionalCases,
  "norm layers": normCases,
  "functions of tensors": tensorCases,
  clipping: clipCases,
} as const;

/** The names of what is off, by how much, on each kind of inputs: one program for all cases, run on all kinds of one shape. */
async function faultsOf(cases: readonly Case[], dtype: Half): Promise<string[]> {
  const differences = jit(
    (x: Tensor, other: Tensor): Tensors =>
      Object.fromEntries(
        cases.map(({ name, run }) => {
          const exact = valuesOf(run, x.cast("f64"), other.cast("f64"));
          // The slope of a function such as tanh is made of its result, which is rounded: four units for what is not the value.
          const results = valuesOf(run, x, other).map(
            (one, index) => [index, compared(one, exact[index] as Tensor, dtype, index === 0 ? 1 : 4)] as const,
          );
          return [name, Object.fromEntries(results)];
        }),
      ),
  );
  const faults: string[] = [];
  for (const [kind, { shape, values }] of Object.entries(kinds)) {
    const inputs = [1, 2].map((seed) => tensor(values(seed), { dtype }).reshape([...shape])) as [Tensor, Tensor];
    const found = differences(...inputs) as { [name: string]: { [index: string]: Compared } };
    for (const [name, results] of Object.entries(found))
      for (const [index, { wrong, difference }] of Object.entries(results))
        if ((await wrong.item()) !== 0)
          faults.push(`${name}, result ${index}, ${kind}: ${await difference.item()} off`);
  }
  return faults;
}

describe.each(Object.entries(groups))("%s", (_group, cases) => {
  test.each(["f16", "bf16"] as const)("%s", async (dtype) => {
    expect(cases.length).toBeGreaterThan(2);
    expect(await faultsOf(partOf(cases, 5, dtype === "f16" ? 0 : 2), dtype)).toEqual([]);
  });
});

/** Exports of `optim` that make no optimizer of a learning rate; all others are run. */
const noOptimizers = [
  "clipByGlobalNorm",
  "clipByValue",
  "globalNorm",
  "groups",
  "lazy",
  "minimize",
  "learningRateAt",
  "biasCorrection",
  "perParameter",
  "weightsOnly",
];
const optimizers = casesOf(optim, {}, (make) => make as never, noOptimizers) as unknown as {
  readonly name: string;
  readonly run: (options: { learningRate: number }) => optim.Optimizer;
}[];

/** Two steps from zeros: what they come to, and the state. */
function stepped(optimizer: optim.Optimizer, gradient: Tensor, start: Tensor): { w: Tensor; state: Tensors } {
  let [params, state]: [{ w: Tensor }, Tensors] = [{ w: start }, optimizer.init({ w: start })];
  for (let step = 0; step < 2; step++)
    ({ params, state } = optimizer.update({ w: gradient.mul(step + 1) }, state, params, { step }));
  return { w: params.w, state };
}

const gradients = {
  zeros: () => 0,
  hundreds: (index: number) => (index % 3 === 0 ? -1 : 1) * (200 + 3 * index),
  // Squares of them are 0 in f16.
  small: (index: number) => (index - 32) * 2 ** -16,
} as const;

test.each(["f16", "bf16"] as const)("optimizers, %s", async (dtype) => {
  const differences = jit(
    (gradient: Tensor): Tensors =>
      Object.fromEntries(
        optimizers.map(({ name, run }) => {
          const optimizer = run({ learningRate: 0.0625 });
          const [found, exact] = [gradient, gradient.cast("f64")].map((g) => stepped(optimizer, g, zerosLike(g))) as [
            ReturnType<typeof stepped>,
            ReturnType<typeof stepped>,
          ];
          expect([name, found.w.dtype]).toEqual([name, dtype]);
          for (const slot of leavesOf(found.state)) expect([name, slot.dtype]).toEqual([name, "f32"]);
          return [name, compared(found.w, exact.w, dtype)];
        }),
      ),
  );
  const faults: string[] = [];
  for (const [kind, at] of Object.entries(gradients)) {
    const values = Array.from({ length: 64 }, (_unused, index) => at(index));
    const found = differences(tensor(values, { dtype }).reshape([8, 8])) as { [name: string]: Compared };
    for (const [name, { wrong, difference }] of Object.entries(found))
      if ((await wrong.item()) !== 0) faults.push(`${name}, ${kind}: ${await difference.item()} off`);
  }
  expect(optimizers.length).toBeGreaterThan(10);
  expect(faults).toEqual([]);
});

test("f32 and f64 pass as they are: nothing is added for them", () => {
  const [x, labels] = [tensor([1]), tensor([1], { dtype: "i32" })];
  const body = (one: Tensor, other: Tensor, none: undefined): Tensor => {
    expect([one === x, other === labels, none]).toEqual([true, true, undefined]);
    return one;
  };
  expect(inFloat32([x, labels, undefined], body)).toBe(x);
});
