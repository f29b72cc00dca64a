/** `train` in one process under every policy and filter that it takes: plain training where they change nothing, else an oracle of their own. */
import { data, losses, nn, optim, type Tensor, type TrainOptions, train } from "heddle";
import { describe, expect, test } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";

const [rows, width, learningRate] = [8, 3, 0.1];
const x = Float64Array.from({ length: rows * width }, (_unused, index) => Math.sin(1.7 * index));
const y = Float64Array.from({ length: rows }, (_unused, row) => Math.cos(row));
const points = (values: Float64Array = x) =>
  data.fromArrays({ x: { shape: [rows, width], data: values }, y: { shape: [rows, 1], data: y } });

const options = (more: Partial<TrainOptions> = {}): TrainOptions => ({
  model: nn.linear(1),
  data: points().batch(rows),
  loss: losses.mse,
  optimizer: optim.sgd({ learningRate }),
  epochs: 8,
  dtype: "f64",
  report: "silent",
  ...more,
});

/** Weight and bias, as a list. */
async function trained(more: Partial<TrainOptions> = {}): Promise<number[]> {
  const { params } = await train(options(more));
  const { leaves, paths } = flattenTree<Tensor>(params, isTensor);
  expect(paths).toEqual(["weight", "bias"]);
  return (await Promise.all(leaves.map((leaf) => leaf.data()))).flatMap((list) => [...list].map(Number));
}

const once = <Result>(make: () => Promise<Result>): (() => Promise<Result>) => {
  let made: Promise<Result> | undefined;
  return () => (made ??= make());
};
/** Training without servers, and what it begins with: most rows are compared with one of them. */
const plain = once(() => trained());
const initial = once(() => trained({ optimizer: optim.sgd({ learningRate: 0 }), epochs: 1 }));

/** The gradient of the mean squared error at weights and bias. */
function gradient(params: readonly number[]): number[] {
  const into = new Array<number>(width + 1).fill(0);
  for (let row = 0; row < rows; row++) {
    const own = [...x.subarray(row * width, (row + 1) * width), 1];
    const error = own.reduce((sum, value, at) => sum + value * (params[at] as number), -(y[row] as number));
    for (const [at, value] of own.entries()) into[at] = (into[at] as number) + (2 * error * value) / rows;
  }
  return into;
}

const stepped = (params: readonly number[], rate = learningRate): number[] => {
  const slope = gradient(params);
  return params.map((value, at) => value - rate * (slope[at] as number));
};

function expectClose(one: readonly number[], other: readonly number[], within = 1e-9): void {
  expect(one.length).toBe(other.length);
  for (const [at, value] of one.entries()) expect(Math.abs(value - (other[at] as number))).toBeLessThan(within);
}

test("the oracle is plain training", async () => {
  let params = await initial();
  for (let step = 0; step < 8; step++) params = stepped(params);
  expectClose(await trained(), params);
});

test.each([
  "bsp",
  "async",
  "ssp:2",
  "essp:2",
  "adaptive-ssp:1:4",
  "dssp:1:4",
  "dynsgd:2",
  "mixed:1:2",
  "dynamic-backup",
  "backup:0",
  "vap:1000",
  "downpour:1:1",
  "downpour:2:2",
  "downpour:4:2",
  // The remainder is pushed at the end.
  "downpour:3:3",
])("%s: one worker trains as without servers", async (policy) => {
  expectClose(await trained({ server: { policy } }), await plain());
});

test.each([
  [1, 0.5],
  [3, 0.25],
  [8, 1],
])("elastic-averaging:%d:%d: both sides move by a share of their distance", async (period, share) => {
  let own = await initial();
  let center = own;
  const exchange = (): void => {
    const moved = own.map((value, at) => share * (value - (center[at] as number)));
    own = own.map((value, at) => value - (moved[at] as number));
    center = center.map((value, at) => value + (moved[at] as number));
  };
  for (let step = 1; step <= 8; step++) {
    own = stepped(own);
    if (step % period === 0) exchange();
  }
  if (8 % period !== 0) exchange();
  expectClose(await trained({ server: { policy: `elastic-averaging:${period}:${share}` } }), center);
});

test("elastic averaging: the optimizer's state is that of the worker", async () => {
  const optimizer = optim.adam({ learningRate });
  const served = await train(options({ optimizer, server: { policy: "elastic-averaging:16" } }));
  const plain = await train(options({ optimizer }));
  const [one, other] = [served, plain].map(({ optimizerState }) => flattenTree<Tensor>(optimizerState, isTensor));
  expect(one?.paths).toEqual(other?.paths);
  for (const [index, leaf] of (one?.leaves ?? []).entries())
    expectClose([...(await leaf.data())].map(Number), [...((await other?.leaves[index]?.data()) ?? [])].map(Number));
});

describe("filters", () => {
  test.each([
    [["lossless"], 1e-9],
    [["significant:0"], 1e-9],
    [["random-skip:1"], 1e-9],
    [["kkt:0"], 1e-9],
    [["significant:0", "random-skip:1", "lossless:9"], 1e-9],
    [["fixed-point:16"], 1e-3],
    [["fixed-point:16", "lossless"], 1e-3],
    [["bf16"], 1e-2],
    [["f16", "lossless"], 1e-2],
    [["int8"], 0.1],
  ] as const)("%j: as plain training, up to what it rounds", async (filters, within) => {
    expectClose(await trained({ server: { filters } }), await plain(), within);
  });

  test("significant: what is held back arrives at the end", async () => {
    const first = await initial();
    expectClose(await trained({ server: { filters: ["significant:1000"] } }), stepped(first, 8 * learningRate));
  });

  test.each(["bsp", "async"])(
    "significant: %s, the last clock brings what was held back, and there is none more",
    async (policy) => {
      const optimizer = optim.sgd({ learningRate, momentum: 0.9 });
      const plain = await trained({ optimizer });
      expectClose(await trained({ optimizer, server: { policy, filters: ["significant:0"] } }), plain);
    },
  );

  test("significant: a training that a callback ends pushes what is held back in one clock more", async () => {
    const first = await initial();
    const callbacks: TrainOptions["callbacks"] = { onStep: ({ step }, control) => void (step === 3 && control.stop()) };
    const left = await trained({ callbacks, server: { filters: ["significant:1000"] } });
    // A stop takes effect within the steps that are in flight.
    const taken = [3, 4, 5].map((steps) => stepped(first, steps * learningRate));
    expect(taken.some((values) => values.every((value, at) => Math.abs(value - (left[at] as number)) < 1e-9))).toBe(
      true,
    );
  });

  test("random-skip: what is sent is divided by its probability", async () => {
    const first = await initial();
    const slope = gradient(first);
    const once = await trained({ epochs: 1, server: { filters: ["random-skip:0.5:3"] } });
    // The weight has a row for each input, the bias is a row of its own: each is left out or counts twice.
    for (const [at, value] of once.entries()) {
      const moved = ((first[at] as number) - value) / (learningRate * (slope[at] as number));
      expect(Math.min(Math.abs(moved), Math.abs(moved - 2))).toBeLessThan(1e-9);
    }
  });

  test("kkt: weights that a penalty keeps at zero stay there, and the last pass looks at all", async () => {
    const optimizer = optim.ftrl({ learningRate, l1: 0.4 });
    const more = { optimizer, epochs: 40 };
    expectClose(await trained({ ...more, server: { filters: ["kkt:0.4"] } }), await trained(more), 1e-3);
  });

  test.each([
    [["lossless"]],
    [["significant:1000", "lossless"]],
    [["random-skip:0.1"]],
    [["fixed-point:8"]],
    [["bf16"]],
    [["int8", "lossless"]],
    [["top-k"]],
  ] as const)("%j: a NaN stays a NaN", async (filters) => {
    const values = x.slice();
    values[0] = Number.NaN;
    const more = { data: points(values).batch(rows), nan: "continue" as const, epochs: 1 };
    const served = await trained({ ...more, server: { filters } });
    expect(served[0]).toBeNaN();
    expect(served[width]).toBeNaN();
  });

  test("go with local steps", async () => {
    const server: TrainOptions["server"] = { policy: "downpour:2:2", filters: ["significant:0", "lossless"] };
    expectClose(await trained({ server }), await plain());
  });
});

test.each([
  [{ policy: "bounded-delay:2" }, /has a worker begin clocks before its last one has ended/],
  [{ filters: ["key-caching"] }, /'key-caching' does not go with pushes/],
  [{ filters: ["changed:0.1"] }, /'changed' does not go with pushes/],
  [{ filters: ["losless"] }, /did you mean 'lossless'/],
  [{ filters: "lossless" as never }, /must be a list of specs/],
  [{ filters: ["lossless", "significant:1"] }, /needs numbers, and a filter before it has packed them/],
  [{ filters: ["kkt"] }, /lacks LAMBDA/],
  [{ policy: "elastic-averaging:2:1.5" }, /the share must be above 0 and at most 1/],
  [{ policy: "downpour:0:1" }, /FETCH/],
] as readonly (readonly [NonNullable<TrainOptions["server"]>, RegExp])[])("%j is refused", async (server, message) => {
  await expect(train(options({ server }))).rejects.toThrow(message);
});

test("a policy of local steps is refused for tables on servers", async () => {
  const ids = data.fromArrays({
    x: { shape: [rows, 1], data: Int32Array.from({ length: rows }, (_unused, row) => row) },
    y: { shape: [rows, 1], data: Float64Array.from({ length: rows }, () => 1) },
  });
  const model = nn.sequential(nn.embedding(100, 2, { on: "servers" }), nn.flatten(), nn.linear(1));
  await expect(train(options({ model, data: ids.batch(rows), server: { policy: "downpour:2:2" } }))).rejects.toThrow(
    /does not go with tables/,
  );
});
