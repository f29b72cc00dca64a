/** L-BFGS with a line search, beside PyTorch's (test/fixtures/minimize.py). */
import { losses, optim, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { cubicMinimum, strongWolfe } from "../../src/optim/wolfe.ts";
import { fixture } from "../fixtures/fixture.ts";
import { expectClose } from "../support/close.ts";

interface Case {
  readonly of: "rosenbrock" | "logistic";
  readonly start: number[];
  readonly params: number[];
  readonly loss: number;
  readonly evaluations: number;
  readonly rows?: number[][];
  readonly labels?: number[];
}

const rosenbrock = ({ x }: { x: Tensor }): Tensor => {
  const count = x.shape[0] as number;
  const [left, right] = [x.slice([0], [count - 1]), x.slice([1], [count])];
  const [valley, along] = [right.sub(left.mul(left)), left.sub(1)];
  return valley.mul(valley).mul(100).add(along.mul(along)).sum();
};

const logistic =
  ({ rows, labels }: Case) =>
  ({ x }: { x: Tensor }): Tensor => {
    const w = x.slice([0], [3]);
    const scores = tensor(rows as number[][], { dtype: "f64" })
      .matmul(w)
      .add(x.slice([3], [4]));
    const loss = losses.binaryCrossEntropyWithLogits(scores, tensor(labels as number[], { dtype: "f64" }));
    return loss.add(w.mul(w).sum().mul(0.01));
  };

test.each(fixture<Case>("minimize"))(
  "$of from $start ends where PyTorch's does, in about as many evaluations",
  async (one) => {
    const loss = one.of === "logistic" ? logistic(one) : rosenbrock;
    const found = await optim.minimize(loss, { x: tensor(one.start, { dtype: "f64" }) }, { toleranceChange: 1e-12 });
    expectClose(await found.params.x.data(), one.params, 1e-5);
    expect(Math.abs(found.loss - one.loss)).toBeLessThan(1e-10);
    expect(found.evaluations).toBeLessThan(1.5 * one.evaluations + 5);
    expect(["gradient", "change"]).toContain(found.reason);
  },
);

describe("the line search", () => {
  /** Along a function, with what was tried. */
  const along = async (f: (t: number) => number, slope: (t: number) => number, first: number) => {
    const point = (t: number) => ({ t, loss: f(t), slope: slope(t) });
    const tried: number[] = [];
    const found = await strongWolfe(async (t) => point(tried.push(t) && t), point(0), first, 1e-12);
    return { found, tried };
  };

  // Moré and Thuente's first function, and others.
  test.each<[string, (t: number) => number, (t: number) => number]>([
    ["-t / (t² + 2)", (t) => -t / (t * t + 2), (t) => (t * t - 2) / (t * t + 2) ** 2],
    ["(t - 3)²", (t) => (t - 3) ** 2, (t) => 2 * (t - 3)],
    ["e^t - 100 t", (t) => Math.exp(t) - 100 * t, (t) => Math.exp(t) - 100],
    [
      "-log(5 - t) - t², infinite from 5 on",
      (t) => (t < 5 ? -10 * Math.log1p(t) - Math.log(5 - t) : Number.NaN),
      (t) => -10 / (1 + t) + 1 / (5 - t),
    ],
  ])("of %s ends with both conditions, from any first step", async (_name, f, slope) => {
    for (const first of [1e-3, 0.1, 1, 10, 1000]) {
      const { found, tried } = await along(f, slope, first);
      expect(f(found.t)).toBeLessThanOrEqual(f(0) + 1e-4 * found.t * slope(0));
      expect(Math.abs(slope(found.t))).toBeLessThanOrEqual(0.9 * Math.abs(slope(0)));
      expect(tried.length).toBeLessThan(26);
    }
  });

  test("gives the start where nothing is lower, and the lowest place of a cubic", async () => {
    const { found } = await along(
      (t) => t,
      () => -1,
      1,
    );
    expect(found.t).toBe(0);
    // t³ - 3t falls to t = 1.
    const point = (t: number) => ({ t, loss: t ** 3 - 3 * t, slope: 3 * t * t - 3 });
    for (const [a, b] of [
      [0, 3],
      [3, 0],
      [0.5, 0.7],
    ] as const)
      expect(cubicMinimum(point(a), point(b))).toBeCloseTo(1, 12);
  });
});

test("ends at once at a minimum, and stops where it is told to", async () => {
  const at = async (start: number[], options: optim.MinimizeOptions) =>
    optim.minimize(rosenbrock, { x: tensor(start) }, options);
  expect(await at([1, 1], {})).toMatchObject({ loss: 0, iterations: 0, evaluations: 1, reason: "gradient" });
  expect(await at([-1.2, 1], { maxIterations: 3 })).toMatchObject({ iterations: 3, reason: "iterations" });
  expect((await at([-1.2, 1], { maxEvaluations: 4 })).reason).toBe("evaluations");
  // In f32 the loss stops changing first.
  const { params, reason } = await at([-1.2, 1], {});
  expectClose(await params.x.data(), [1, 1], 1e-2);
  expect(["gradient", "change", "search"]).toContain(reason);
  expect(await at([], {}).catch((error: unknown) => String(error))).toMatch(/HeddleError/);
});

test.each<[string, (x: Tensor) => Tensor, optim.Minimum<never>["reason"]]>([
  ["a plane", (x) => x.sum().neg(), "unbounded"],
  ["a cubic", (x) => x.mul(x).mul(x).sum(), "unbounded"],
  ["a logarithm, which flattens", (x) => x.neg().log().neg().sum(), "gradient"],
  ["a valley that flattens", (x) => x.exp().sum(), "gradient"],
  ["a minimum that is far off", (x) => x.sub(1e6).pow(2).mean(), "gradient"],
])("of %s it tells whether it falls without end", async (_what, loss, reason) => {
  const start = tensor([-1, -2], { dtype: "f64" });
  expect((await optim.minimize(({ x }) => loss(x), { x: start })).reason).toBe(reason);
});

test("refuses what it cannot start from", async () => {
  const minimize = (loss: (x: never) => Tensor, params: object, options = {}) =>
    optim.minimize(loss as never, params as never, options);
  await expect(minimize(rosenbrock as never, {})).rejects.toThrow(/minimize: there is no parameter/);
  await expect(minimize(rosenbrock as never, { x: tensor([1, 2]), y: tensor(1, { dtype: "f64" }) })).rejects.toThrow(
    /have one dtype/,
  );
  await expect(minimize(rosenbrock as never, { x: tensor([1, 2]) }, { maxIter: 3 })).rejects.toThrow(
    /unknown option 'maxIter'/,
  );
  await expect(minimize((({ x }: { x: Tensor }) => x.mul(x)) as never, { x: tensor([1, 2]) })).rejects.toThrow(
    /^minimize: the loss must be a float scalar, got f32\[2\]\n[\s\S]*sum\(\) or mean\(\)/,
  );
  await expect(minimize((() => 3) as never, { x: tensor([1, 2]) })).rejects.toThrow(
    /^minimize: the loss must be a float scalar, got 3/,
  );
  await expect(minimize(rosenbrock as never, { x: tensor([Infinity, 2]) })).rejects.toThrow(
    /minimize: the first loss is/,
  );
});
