/** Norms of extreme inputs, running statistics of a training on any number of devices, one walk over rows, attention's memory. */
import {
  evalShape,
  grad,
  mesh,
  nn,
  optim,
  random,
  replicate,
  scaledDotProductAttention,
  type Tensor,
  tensor,
  train,
} from "heddle";
import { describe, expect, test } from "vitest";
import { isTensor, moments, normalize, planFunction } from "../../src/functions/index.ts";
import { lowerProgram } from "../../src/lower/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { expectClose } from "../support/close.ts";
import { bars, options } from "../train/synthetic.ts";

/** Mean and variance in twice the digits of f32. */
function exact(values: readonly number[]): { mean: number; variance: number } {
  const mean = values.reduce((sum, value) => sum + value / values.length, 0);
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2 / values.length, 0);
  return { mean, variance };
}

describe("far from 0 and near to each other, in f32", () => {
  // 8 is the distance of neighbours at 1e8, and 64 at 1e9.
  test.each([
    ["1e8 and a little", 1e8, 8],
    ["-1e9 and a little", -1e9, 64],
    ["16 million and ones", 2 ** 24, 2],
    ["tiny", 1e-18, 1e-19],
  ])("%s", async (_name, base, unit) => {
    const values = Array.from({ length: 1000 }, (_unused, index) => Math.fround(base + unit * ((index * 7) % 11)));
    const { mean, variance } = exact(values);
    const x = tensor(values);
    const found = moments(x, 0);
    expectClose(await found.mean.data(), [mean], 1e-6);
    expectClose(await found.variance.data(), [variance], 1e-5, 0);
    const expected = values.map((value) => (value - mean) / Math.sqrt(variance));
    expectClose(await normalize(x, 0, { epsilon: 0 }).data(), expected, 1e-4);
  });

  test("equal values have variance 0 and are normalised to 0", async () => {
    const x = tensor(new Array<number>(333).fill(12345678));
    expect([...(await moments(x, 0).variance.data())]).toEqual([0]);
    expect(new Set(await normalize(x, 0).data())).toEqual(new Set([0]));
  });

  test("NaN and infinities stay in their row", async () => {
    const y = normalize(
      tensor([
        [1, Number.NaN],
        [1, Number.POSITIVE_INFINITY],
        [1, 3],
      ]),
      1,
      { epsilon: 0 },
    );
    expect([...(await y.data())].map(Number.isNaN)).toEqual([true, true, true, true, false, false]);
  });
});

/** Kernel calls of a function, compiled. */
function lowered(fn: (...given: never[]) => unknown, example: readonly unknown[]) {
  const { program } = planFunction(fn, example, mesh({}));
  return lowerProgram(program, { slots: 2 });
}

test.each<[string, nn.Layer, number]>([
  ["layerNorm", nn.layerNorm(), 1],
  ["rmsNorm", nn.rmsNorm(), 1],
])("%s is one walk over rows", (_name, layer, count) => {
  const x = { shape: [64, 32], dtype: "f32" as const };
  const variables = evalShape((key: Tensor) => layer.init(key, x).params, { shape: [2], dtype: "u32" });
  const { json } = lowered(
    (params: nn.Variables["params"], y: Tensor) => layer.apply({ params, state: {} }, y).y,
    [variables, x],
  );
  expect(json.steps.map(({ k }) => k)).toEqual(new Array(count).fill("fusedRows"));
});

test("attention's memory grows with the length of the sequence, not with its square", () => {
  const bytes = (length: number): number => {
    const type = { shape: [2, 4, length, 16], dtype: "f32" as const };
    const loss = (q: Tensor, k: Tensor, v: Tensor): Tensor =>
      scaledDotProductAttention(q, k, v, { causal: true }).sum();
    const step = (q: Tensor, k: Tensor, v: Tensor) =>
      grad((all: readonly [Tensor, Tensor, Tensor]) => loss(...all))([q, k, v]);
    return lowered(step, [type, type, type]).arenaBytes;
  };
  const sizes = [2048, 4096, 8192, 16384].map(bytes);
  const steps = sizes.slice(1).map((size, place) => size - (sizes[place] as number));
  // Twice the length is twice the memory, but for what a worker needs for its blocks; scores alone would be 8 GB at last.
  steps.slice(1).forEach((step, place) => {
    expect(step / (steps[place] as number)).toBeCloseTo(2, 1);
  });
  expect(sizes.at(-1)).toBeLessThan(20e6);
});

test("running statistics of a training on two devices are those of one", async () => {
  const run = async (axes: Record<string, number>): Promise<number[]> => {
    const { params, state } = await train(
      options({
        model: nn.sequential(nn.flatten(), nn.linear(5), nn.batchNorm(), nn.relu(), nn.linear(3)),
        data: bars(24).shuffle().batch(8),
        optimizer: optim.sgd({ learningRate: 0.1 }),
        dtype: "f64",
        epochs: 2,
        mesh: mesh(axes),
      }),
    );
    const { leaves } = flattenTree([params, state], isTensor);
    const values = await Promise.all(leaves.map((leaf) => replicate(leaf as Tensor).data()));
    return values.flatMap((list) => [...list]);
  };
  const [two, one] = [await run({ data: 2 }), await run({})];
  expectClose(two, one, 1e-9);
  // The last number of all counts batches.
  expect(one).toContain(6);
});

describe("batch norm by groups of rows", () => {
  test.each([
    [[12, 3], 4],
    [[6, 3, 2, 2], 3],
    [[6, 3, 5], 1],
    // Of 6 rows, 3 groups are the most up to 4.
    [[6, 3], 4],
  ] as const)(
    "%j in up to %i groups: each is normalised as a batch of its own, running statistics are their means",
    async (shape, most) => {
      const x = random.normal(random.key(1), [...shape], { dtype: "f64" });
      const type = { shape, dtype: "f64" } as const;
      const [plain, grouped] = [nn.batchNorm({ affine: false }), nn.batchNorm({ affine: false, groups: most })];
      const fresh = plain.init(random.key(0), type);
      const groups = Math.max(...[1, 2, 3, 4].filter((count) => count <= most && shape[0] % count === 0));
      const rows = shape[0] / groups;
      const parts = Array.from({ length: groups }, (_unused, group) => {
        const part = x.slice([group * rows, ...shape.slice(1).map(() => 0)], [(group + 1) * rows, ...shape.slice(1)]);
        return plain.apply(fresh, part, { train: true });
      });
      const whole = grouped.apply(fresh, x, { train: true });
      expectClose(
        await whole.y.data(),
        (await Promise.all(parts.map(async ({ y }) => [...(await y.data())]))).flat(),
        1e-12,
      );
      for (const name of ["running_mean", "running_var"]) {
        const each = await Promise.all(parts.map(async ({ state }) => [...(await (state[name] as Tensor).data())]));
        const means = (each[0] as number[]).map((_one, channel) =>
          each.reduce((sum, one) => sum + (one[channel] as number) / groups, 0),
        );
        expectClose(await (whole.state[name] as Tensor).data(), means, 1e-12);
      }
      expect(await (whole.state["num_batches_tracked"] as Tensor).item()).toBe(1);
    },
  );
});
