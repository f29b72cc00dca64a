/** `train` with embeddings on servers: as with the table on the worker, with tables of which few rows exist. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { data, losses, nn, optim, type Tensor, type TrainOptions, train } from "heddle";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { partOf } from "../support/sample.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-tables-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const [rows, words] = [22, 5];
const id = (index: number, count: number): number => (index * 7919 + (index % 13) * 104729) % count;
const texts = (count: number) =>
  data.fromArrays({
    x: {
      shape: [rows, words],
      data: Int32Array.from({ length: rows * words }, (_unused, index) => id(index % 60, count)),
    },
    y: { shape: [rows], data: Int32Array.from({ length: rows }, (_unused, index) => index % 3) },
  });

type On = { readonly on?: "servers"; readonly std?: number };
const models = {
  embedding: (count: number, on: On) =>
    nn.sequential(nn.embedding(count, 4, on), nn.flatten(), nn.linear(8), nn.tanh(), nn.linear(3)),
  "a bag, alone": (count: number, on: On) => nn.embeddingBag(count, 3, { mode: "sum", paddingIdx: 0, ...on }),
} as const;

const options = (count: number, more: Partial<TrainOptions> = {}): TrainOptions => ({
  model: models.embedding(count, { on: "servers" }),
  data: texts(count).shuffle().batch(8),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adagrad({ learningRate: 0.1 }),
  epochs: 3,
  dtype: "f64",
  report: "silent",
  evaluate: texts(count).batch(rows),
  ...more,
});

const optimizers = {
  sgd: [optim.sgd({ learningRate: 0.1 }), undefined],
  momentum: [optim.sgd({ learningRate: 0.1, momentum: 0.9 }), "lazily"],
  adagrad: [optim.adagrad({ learningRate: 0.1 }), undefined],
  adam: [optim.adam({ learningRate: 0.1 }), "lazily"],
  ftrl: [optim.ftrl({ learningRate: 0.1, l1: 0.01 }), undefined],
} as const;
const cases = Object.keys(models).flatMap((model) =>
  Object.keys(optimizers).map((optimizer) => [model, optimizer] as [keyof typeof models, keyof typeof optimizers]),
);

async function numbers(tensor: Tensor): Promise<number[]> {
  return [...(await tensor.data())].map(Number);
}

// An odd number of optimizers: a half has each with one of the models.
test.each(partOf(cases, 2))("%s, %s: one worker as with the table in it", async (model, name) => {
  const count = 90;
  const [optimizer, lazily] = optimizers[name];
  // FTRL makes rows without gradients 0, which servers leave alone.
  const std = name === "ftrl" ? 0 : 1;
  const make = models[model];
  const table = model === "embedding" ? "0.weight" : "weight";
  const plainOptimizer = lazily === undefined ? optimizer : optim.lazy(optimizer, table);
  const plain = await train(options(count, { model: make(count, { std }), optimizer: plainOptimizer }));
  const served = await train(
    options(count, { model: make(count, { on: "servers", std }), optimizer, server: { policy: "bsp" } }),
  );
  for (const [epoch, { loss, validation }] of plain.history.entries()) {
    expect(served.history[epoch]?.loss).toBeCloseTo(loss, 9);
    expect(served.history[epoch]?.validation?.loss).toBeCloseTo(validation?.loss as number, 9);
  }
  const [one, other] = [await plain.predict(texts(count)), await served.predict(texts(count))];
  const expected = await numbers(one);
  for (const [index, value] of (await numbers(other)).entries())
    expect(value).toBeCloseTo(expected[index] as number, 9);
});

test("without servers the table is a parameter like any other", async () => {
  const plain = await train(options(90, { model: models.embedding(90, {}) }));
  const same = await train(options(90));
  expect(same.history.map(({ loss }) => loss)).toEqual(plain.history.map(({ loss }) => loss));
});

test("a table of 10^8 rows: a training goes on from its checkpoint as if it had not stopped", async () => {
  const count = 100_000_000;
  const checkpoint = { directory };
  const whole = await train(options(count, { server: {} }));
  await train(options(count, { server: {}, epochs: 1, checkpoint }));
  const resumed = await train(options(count, { server: {}, checkpoint, resume: true }));
  expect(resumed.history).toHaveLength(3);
  expect(resumed.history.at(-1)?.loss).toBeCloseTo(whole.history.at(-1)?.loss as number, 9);
  expect(resumed.history.at(-1)?.validation?.loss).toBeCloseTo(whole.history.at(-1)?.validation?.loss as number, 9);
  expect(whole.history[2]?.loss).toBeLessThan(whole.history[0]?.loss as number);
  await expect(whole.save(join(directory, "model.safetensors"))).rejects.toThrow(/tables were on servers/);
});

test.each([
  [
    "without servers",
    { server: {} },
    {},
    /its tables were on servers, .*\(in state\/\(tables\)\), and this run has no/,
  ],
  ["without servers", { server: {} }, {}, /hint: go on with servers, .*--servers/],
  ["on servers, from one without", {}, { server: {} }, /its tables are parameters, and this run has them on servers/],
] as const)("a checkpoint is not taken up %s, and the error says why", async (_name, before, after, message) => {
  const checkpoint = { directory };
  await train(options(90, { ...before, epochs: 1, checkpoint }));
  await expect(train(options(90, { ...after, checkpoint, resume: true }))).rejects.toThrow(message);
});

test.each(["bsp", "async"])("%s: the log replays to the same bits", async (policy) => {
  vi.stubEnv("HEDDLE_RUN_DIR", directory);
  const served = await train(options(1_000_000, { server: { policy } }));
  vi.unstubAllEnvs();
  const again = await train(options(1_000_000, { server: { replay: join(directory, "updates.jsonl") } }));
  const tables = (state: unknown): Tensor => (state as { readonly "(tables)": Tensor })["(tables)"];
  expect(await numbers(tables(again.state))).toEqual(await numbers(tables(served.state)));
});

test("an id outside of the table is an error that names the table", async () => {
  const model = models.embedding(50, { on: "servers" });
  await expect(train(options(90, { server: {}, model }))).rejects.toThrow(/outside of the table '0.weight' of 50 rows/);
});

test.each([
  [{ on: "server" as never }, /on must be "servers"/],
  [{ std: -1 }, /std must be a number from 0 on/],
  [{ on: "servers" as const, admit: 0 }, /admit/],
  [{ on: "servers" as const, evict: 1.5 }, /evict/],
  [{ on: "servers" as const, memory: -1 }, /memory/],
])("%o is refused", (more, message) => {
  expect(() => nn.embedding(10, 2, more)).toThrow(message);
});

const served = () => nn.embedding(90, 4, { on: "servers" });
test.each([
  [
    "remat",
    nn.sequential(nn.remat(served()), nn.flatten(), nn.linear(3)),
    /cannot stand in remat or a loop: '0.weight'/,
  ],
  ["all in remat", nn.remat(models.embedding(90, { on: "servers" })), /cannot stand in remat or a loop: '0.weight'/],
  ["frozen", nn.sequential(nn.frozen(served()), nn.flatten(), nn.linear(3)), /must be trained, and '0.weight' is not/],
])("a table on servers in a layer that cannot have it is refused: %s", async (_name, model, message) => {
  await expect(train(options(90, { model, server: {} }))).rejects.toThrow(message);
});

test("a table on servers that is not among the trained parameters is refused", async () => {
  await expect(train(options(90, { server: {}, trainable: "2.**" }))).rejects.toThrow(/must be trained/);
});

test("an optimizer that does not update rows alone is refused", async () => {
  const optimizer = optim.adafactor({ learningRate: 0.1 });
  await expect(train(options(90, { optimizer, server: {} }))).rejects.toThrow(/a table on servers cannot have it/);
});
