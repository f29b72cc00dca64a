import { compression, data, layouts, optim, replicate, type Tensor, type TrainOptions, train } from "heddle";
import { describe, expect, test } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { type Mesh, mesh, trafficOf } from "../../src/plan/index.ts";
import { forMesh } from "../../src/train/for-mesh.ts";
import { modelTypes } from "../../src/train/functions.ts";
import { planStep } from "../../src/train/programs.ts";
import { resolveOptions } from "../../src/train/resolve-options.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { expectClose } from "../support/close.ts";
import { partOf } from "../support/sample.ts";
import { paramsOf, task } from "./task.ts";

const pair = layouts.named({ "1.weight": { model: 0 }, "1.bias": { model: 0 }, "3.weight": { model: 1 } });

const { topK, randomK, powerSgd, int8, sign } = compression;
const everything = { least: 0 } as const;
const staged = { pipeline: { stages: { 1: 0, 3: 1, 6: 1 }, microBatches: 2 } };

describe("what drops nothing gives the answer of data parallelism", () => {
  const plain = optim.sgd({ learningRate: 0.1 });
  const heavy = optim.sgd({ learningRate: 0.1, momentum: 0.9 });
  const cases: readonly [
    string,
    Record<string, number>,
    TrainOptions["compression"] & object,
    Partial<TrainOptions>?,
  ][] = [
    ["all of topK, one device", { data: 1 }, { by: topK({ ratio: 1 }), ...everything }],
    ["all of topK, two devices", { data: 2 }, { by: topK({ ratio: 1 }), ...everything }],
    ["all of topK, four devices", { data: 4 }, { by: topK({ ratio: 1 }), ...everything }],
    ["all of randomK", { data: 2 }, { by: randomK({ ratio: 1 }), ...everything }],
    ["the full rank, two devices", { data: 2 }, { by: powerSgd({ rank: 64, gain: 0 }), ...everything }],
    ["times a model axis", { data: 2, model: 2 }, { by: topK({ ratio: 1 }), ...everything }, { layout: pair }],
    [
      "the full rank times a model axis",
      { data: 2, model: 2 },
      { by: powerSgd({ rank: 64, gain: 0 }), ...everything },
      { layout: pair },
    ],
    ["fully sharded", { data: 2 }, { by: topK({ ratio: 1 }), ...everything }, { layout: layouts.fullySharded() }],
    [
      "optimizer state sharded",
      { data: 4 },
      { by: topK({ ratio: 1 }), ...everything },
      { layout: layouts.shardedState() },
    ],
    ["in parts", { data: 2 }, { by: topK({ ratio: 1 }), ...everything }, { accumulate: 2 }],
    ["between two hosts of two devices", { hosts: 2, data: 2 }, { by: topK({ ratio: 1 }), ...everything }],
    ["the full rank between hosts", { hosts: 2, data: 2 }, { by: powerSgd({ rank: 64, gain: 0 }), ...everything }],
    [
      "between hosts, sharded within",
      { hosts: 2, data: 2 },
      { by: topK({ ratio: 1 }), ...everything },
      { layout: layouts.fullySharded() },
    ],
    ["in a pipeline of one device for a stage", { stage: 2 }, { by: topK({ ratio: 1 }), ...everything }, staged],
    ["in pipelines", { stage: 2, data: 2 }, { by: topK({ ratio: 1 }), ...everything }, staged],
    ["all of randomK in pipelines", { stage: 2, data: 2 }, { by: randomK({ ratio: 1 }), ...everything }, staged],
    [
      "the full rank in pipelines",
      { stage: 2, data: 2 },
      { by: powerSgd({ rank: 64, gain: 0 }), ...everything },
      { ...staged, pipeline: { ...staged.pipeline, schedule: "zb-h1" } },
    ],
    [
      "in fully sharded pipelines",
      { stage: 2, data: 2 },
      { by: topK({ ratio: 1 }), ...everything },
      { ...staged, layout: layouts.fullySharded() },
    ],
    ["in pipelines on two hosts", { hosts: 2, stage: 2, data: 2 }, { by: topK({ ratio: 1 }), ...everything }, staged],
    ["a mesh without the axis", { model: 2 }, { by: topK({ ratio: 1 }), ...everything }, { layout: pair }],
  ];
  const plainly = new Map<string, Promise<number[]>>();
  test.each(partOf(cases, 3))("%s", async (_title, axes, how, more = {}) => {
    // Layouts do not change the answer.
    const key = `${more.accumulate}`;
    const expected = plainly.get(key) ?? paramsOf(more.accumulate === undefined ? {} : { accumulate: more.accumulate });
    plainly.set(key, expected);
    expectClose(await paramsOf({ ...more, mesh: mesh(axes), compression: how }), await expected, 1e-9);
  });

  test("momentum that devices keep is that of the optimizer", async () => {
    const how = { by: topK({ ratio: 1 }), momentum: 0.9, masking: false, least: 64 };
    const own = await paramsOf({ mesh: mesh({ data: 2 }), optimizer: plain, compression: how });
    expectClose(own, await paramsOf({ optimizer: heavy }), 1e-9);
  });
});

describe("what is lost is the same where gradients of the same rows are compressed", () => {
  const some = { least: 64, momentum: 0.9, clip: 1, warmup: 1 };
  const cases: [string, TrainOptions["compression"] & object][] = [
    ["topK", { by: topK({ ratio: 0.1 }), ...some }],
    ["randomK", { by: randomK({ ratio: 0.2 }), ...some }],
    ["powerSgd", { by: powerSgd({ rank: 2 }), ...some }],
    ["sign", { by: sign(), least: 64 }],
    ["countSketch", { by: compression.countSketch({ ratio: 0.1 }), least: 64 }],
  ];
  const known = new Map<string, Promise<number[]>>();
  // Each compressor on one of the meshes.
  const rows = cases.flatMap(([name, how], at) =>
    partOf(
      [
        [name, how, { hosts: 2, data: 2 }, {}] as const,
        [name, how, { hosts: 2, stage: 2 }, staged] as const,
        [name, how, { stage: 2, data: 2 }, staged] as const,
      ],
      3,
      at,
    ),
  );
  test.each(partOf(rows, 2))("%s %# on two devices, and on %j", async (name, how, axes, more) => {
    const epochs = 3;
    const two = known.get(name) ?? paramsOf({ epochs, mesh: mesh({ data: 2 }), compression: how });
    known.set(name, two);
    expectClose(await paramsOf({ epochs, ...more, mesh: mesh(axes), compression: how }), await two, 1e-9);
  });
});

test("in pipelines stages update after each micro-batch by compressed gradients", async () => {
  const own = { ...staged, pipeline: { ...staged.pipeline, schedule: "pipedream" }, mesh: mesh({ stage: 2, data: 2 }) };
  const all = { by: topK({ ratio: 1 }), ...everything };
  expectClose(await paramsOf({ ...own, compression: all }), await paramsOf(own), 1e-9);
});

/** Bytes that a device sends in a step, besides those of sums of losses and of other gradients. */
function sentBytes(how: TrainOptions["compression"], on: Mesh, epoch?: number): number {
  const given = resolveOptions(task({ ...(how === undefined ? {} : { compression: how }), dtype: "f32" }));
  const { settings, types } = forMesh(given, modelTypes(given), on);
  return trafficOf(planStep(settings, types, on, epoch === undefined ? {} : { stage: epoch }).plan).reduce(
    (sum, { sent }) => sum + sent,
    0,
  );
}

test("what travels is the message, as the plan says", () => {
  const two = mesh({ data: 2 });
  const chosen = { least: 1024, only: "1.weight" };
  // 1.weight is [16, 64]; an all-reduce and an all-gather between two devices send as much as the device has.
  const all = sentBytes(undefined, two);
  const elements = 1024;
  const message = (by: compression.Compressor): number => sentBytes({ by, ...chosen }, two) - (all - 4 * elements);
  expect(message(compression.bf16())).toBe(2 * elements);
  expect(message(int8({ block: 256 }))).toBe(elements + 4 * 4);
  expect(message(sign())).toBe(elements / 8 + 4);
  expect(message(compression.oneBit())).toBe(elements / 8 + 16 * 2 * 4);
  expect(message(topK({ ratio: 0.01 }))).toBe(11 * 8);
  expect(message(randomK({ ratio: 0.01 }))).toBe(11 * 4);
  expect(message(powerSgd({ rank: 2 }))).toBe(2 * (16 + 64) * 4);
  expect(message(compression.countSketch({ rows: 3, columns: 0.1 }))).toBe(3 * 103 * 4 + 11 * 4);
  expect(message(compression.quantiles({ buckets: 128 }))).toBe(elements + 128 * 4);
  // Eight groups of two elements: keys, two rows of one cell, two means.
  expect(message(compression.sketchMl({ ratio: 0.01 }))).toBe(16 * 4 + 16 + 16 * 4);
});

test("between hosts the message travels, and within a host the gradient as it is", () => {
  const chosen = { least: 1024, only: "1.weight" };
  const both = mesh({ hosts: 2, data: 2 });
  const sent = (how: TrainOptions["compression"], axis: string): number => {
    const given = resolveOptions(task({ ...(how === undefined ? {} : { compression: how }), dtype: "f32" }));
    const { settings, types } = forMesh(given, modelTypes(given), both);
    return trafficOf(planStep(settings, types, both).plan)
      .filter((one) => one.axis === axis)
      .reduce((sum, one) => sum + one.sent, 0);
  };
  const how = { by: topK({ ratio: 0.01 }), ...chosen };
  expect(sent(how, "hosts")).toBe(sent(undefined, "hosts") - 4 * 1024 + 11 * 8);
  expect(sent(how, "data")).toBe(sent(undefined, "data"));
});

test("a warm-up sends more at first", async () => {
  const how = (by: compression.Compressor) => ({ by, warmup: 2, least: 64 });
  const bytes = (by: compression.Compressor) => [0, 1, 2].map((epoch) => sentBytes(how(by), mesh({ data: 2 }), epoch));
  const [first, second, last] = bytes(topK({ ratio: 0.01 })) as [number, number, number];
  expect(first).toBeGreaterThan(second);
  expect(second).toBeGreaterThan(last);
  const [whole, again, short] = bytes(powerSgd({ rank: 1 })) as [number, number, number];
  expect(whole).toBe(sentBytes(undefined, mesh({ data: 2 })));
  expect(again).toBe(whole);
  expect(short).toBeLessThan(whole);
  // Uncompressed epochs are those of data parallelism.
  const on = mesh({ data: 2 });
  expectClose(
    await paramsOf({ mesh: on, compression: how(powerSgd({ rank: 1 })) }),
    await paramsOf({ mesh: on }),
    1e-9,
  );
});

test("a rejected step leaves what compression keeps alone", async () => {
  // One row of the first device is no number, which the median of a sketch may not show.
  const x = Float32Array.from({ length: 16 * 64 }, (_unused, index) => Math.sin(index * 1.7));
  x[3 * 64] = Number.NaN;
  const y = Int32Array.from({ length: 16 }, (_unused, row) => row % 3);
  const rows = data.fromArrays({ x: { shape: [16, 64], data: x }, y: { shape: [16], data: y } });
  const how = { by: compression.countSketch(), momentum: 0.9, least: 64 };
  const result = await train(task({ data: rows.batch(16), mesh: mesh({ data: 2 }), nan: "skip", compression: how }));
  expect(result.history[0]?.rejected).toBe(1);
  const { leaves, paths } = flattenTree(result.optimizerState, isTensor);
  const kept = paths.flatMap((path, index) =>
    path.includes("residual") || path.includes("momentum") ? [leaves[index] as Tensor] : [],
  );
  expect(kept.length).toBeGreaterThan(2);
  for (const value of kept) expect([...(await replicate(value).data())].every((one) => one === 0)).toBe(true);
});

test("mistakes are named", async () => {
  const wrong = (how: unknown, more: Partial<TrainOptions> = {}) => train(task({ ...more, compression: how as never }));
  await expect(wrong("topk")).rejects.toThrow("there is no compressor 'topk'");
  await expect(wrong({ by: sign })).rejects.toThrow("by must be a compressor or the name of one");
  await expect(wrong({ by: sign(), momentun: 0.9 })).rejects.toThrow("momentun");
  await expect(wrong(7)).rejects.toThrow("train: compression: is a compressor or { by }, got 7");
  await expect(wrong({ by: sign(), only: "no.such" })).rejects.toThrow('"no.such" matches none of the names');
  await expect(
    wrong({ by: topK(), momentum: 0.9 }, { optimizer: optim.sgd({ learningRate: 1, momentum: 0.9 }) }),
  ).rejects.toThrow("compression and the optimizer both have momentum");
  await expect(wrong({ by: sign(), feedback: "yes" })).rejects.toThrow("feedback must be true or false");
  expect(() => topK({ ratio: 0 })).toThrow("compression.topK: ratio");
  expect(() => compression.countSketch({ rows: 4 })).toThrow("rows must be odd");
  expect(() => int8({ rounding: "up" as never })).toThrow("rounding must be nearest or stochastic");
  expect(() => compression.registerCompressor({ name: "topK", doc: "", make: () => topK() })).toThrow(
    "'topK' is taken",
  );
});

const plain = {
  name: "own",
  travels: "gather",
  feedback: true,
  compress: (x: Tensor) => ({ message: { v: x } }),
  decompress: ({ v }: { v: Tensor }) => v,
};

test.each<[object, RegExp]>([
  [{ travels: "mail" }, /compressor 'own': travels must be "sum" or "gather", got "mail"/],
  [{ compress: (v: Tensor) => ({ v }) }, /compress must return \{ message, shared\? \} with tensors by name/],
  [{ compress: () => undefined }, /compress must return .*got undefined/],
  [{ compress: (x: Tensor) => ({ message: { v: x.sum() } }) }, /message\.v must have 2 rows.*, got f64\[\]/],
  [{ decompress: ({ v }: { v: Tensor }) => v.sum(0) }, /decompress must give f64\[\d,.*\], got f64\[/],
  [{ decompress: ({ v }: { v: Tensor }) => v.cast("f32") }, /decompress must give f64\[.*, got f32\[/],
  [{ total: () => 3 }, /total must give f64\[.*, got 3/],
])("what a compressor gives is checked: %#", async (more, message) => {
  const how = { by: { ...plain, ...more } as never, ...everything };
  await expect(train(task({ mesh: mesh({ data: 2 }), compression: how }))).rejects.toThrow(message);
});
