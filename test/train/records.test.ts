/** Several columns and several outputs: records in and out, a loss for each, in validation, parts, on devices, with weights. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  concat,
  data,
  io,
  losses,
  mesh,
  metrics,
  nn,
  optim,
  type RecordTrainOptions,
  replicate,
  type Tensor,
  tensor,
  train,
} from "heddle";
import { describe, expect, test } from "vitest";

const count = 24;
const wave = (length: number, rate: number) => Float64Array.from({ length }, (_one, index) => Math.sin(index * rate));
const table = data.fromArrays({
  image: { shape: [count, 3, 2], data: wave(count * 6, 0.7) },
  meta: { shape: [count, 2], data: wave(count * 2, 1.3) },
  label: { shape: [count], data: Int32Array.from({ length: count }, (_one, index) => (index * 7) % 3) },
  size: { shape: [count, 1], data: wave(count, 0.4) },
  importance: { shape: [count], data: Float64Array.from({ length: count }, (_one, index) => index % 3) },
});

const model = nn.module(
  { image: nn.sequential(nn.flatten(), nn.linear(4)), meta: nn.linear(3), label: nn.linear(3), size: nn.linear(1) },
  (l, { image, meta }: { image: Tensor; meta: Tensor }) => {
    const both = concat([l.image(image), l.meta(meta)], 1).tanh();
    return { label: l.label(both), size: l.size(both) };
  },
);

type Records = Record<"label" | "size", Tensor>;
const options = (more: Partial<RecordTrainOptions> = {}): RecordTrainOptions => ({
  model,
  data: table.shuffle().batch(8),
  input: ["image", "meta"],
  target: ["label", "size"],
  loss: { label: losses.softmaxCrossEntropy, size: { loss: losses.mse, weight: 0.3 } },
  metrics: { right: (y: Records, t: Records) => metrics.accuracy(y.label, t.label) },
  optimizer: optim.adam({ learningRate: 0.05 }),
  evaluate: table.take(10),
  epochs: 2,
  dtype: "f64",
  executor: "reference",
  report: "silent",
  ...more,
});

const numbers = ({ history }: Awaited<ReturnType<typeof train>>): number[] =>
  history.flatMap(({ loss, metrics, validation }) => [
    loss,
    ...Object.values(metrics),
    ...Object.values(validation?.metrics ?? {}),
  ]);

const plain = await train(options());

test("each loss is told, in training and in validation, and their weighted sum is the loss", () => {
  for (const { loss, metrics, validation } of plain.history)
    for (const one of [{ loss, metrics }, validation as { loss: number; metrics: typeof metrics }]) {
      expect(Object.keys(one.metrics)).toEqual(["label_loss", "size_loss", "right"]);
      const { label_loss: label = 0, size_loss: size = 0 } = one.metrics as { [name: string]: number };
      expect(one.loss).toBeCloseTo(label + 0.3 * size, 12);
    }
  expect(plain.history[1]?.loss).toBeLessThan(plain.history[0]?.loss as number);
});

test.each<[string, Partial<RecordTrainOptions>]>([
  ["on two devices", { mesh: mesh({ data: 2 }) }],
  ["in two parts", { accumulate: 2 }],
  [
    "by a function of records",
    {
      loss: (y: Records, t: Records) =>
        losses.softmaxCrossEntropy(y.label, t.label).add(losses.mse(y.size, t.size).mul(0.3)),
    },
  ],
  ["in two stages", { pipeline: { stages: { image: 0, meta: 0, label: 1, size: 1 }, microBatches: 2 } }],
  [
    "in three, with an output in the middle",
    { pipeline: { stages: { image: 0, meta: 1, label: 1, size: 2 }, microBatches: 4 } },
  ],
  ["with weights of 1", { weight: "one", data: withOnes().shuffle().batch(8) }],
])("%s it is the same training", async (_what, more) => {
  const other = await train(options(more));
  const own = "loss" in more ? other.history.map(({ loss }) => loss) : numbers(other);
  const wanted = "loss" in more ? plain.history.map(({ loss }) => loss) : numbers(plain);
  expect(own).toHaveLength(wanted.length);
  for (const [index, value] of own.entries()) expect(value).toBeCloseTo(wanted[index] as number, 9);
});

function withOnes(): data.Dataset {
  const columns = [...table.columns.values()].filter(({ name }) => name !== "importance");
  const ones = data.fromArrays({ one: { shape: [count], data: new Float64Array(count).fill(1) } });
  return data.fromColumns("with ones", [...columns, ...ones.columns.values()]);
}

test("rows count by their weights in each loss", async () => {
  const { history } = await train(options({ weight: "importance", evaluate: table, epochs: 1 }));
  const first = await train(options({ epochs: 0 }));
  expect(history[0]?.validation?.loss).not.toBeCloseTo((await first.evaluate(table)).loss, 3);
});

test("predictions of a dataset and of a record are records", async () => {
  const whole = await plain.predict<Records>(table);
  expect([whole.label.shape, whole.size.shape]).toEqual([
    [count, 3],
    [count, 1],
  ]);
  const columns = { image: [2, 3, 2], meta: [2, 2] } as const;
  const batch = Object.fromEntries(
    await Promise.all(
      Object.entries(columns).map(async ([name, shape]) => {
        const values = (await table.columns.get(name)?.load()) as Float64Array;
        const size = shape.reduce((product, length) => product * length, 1);
        return [name, tensor(values.slice(0, size), { shape, dtype: "f64" })] as const;
      }),
    ),
  );
  const two = await plain.predict<Records>(batch);
  expect([...(await two.size.data())]).toEqual([...(await whole.size.data())].slice(0, 2));
});

test.each<[string, Partial<RecordTrainOptions>]>([
  ["alone", {}],
  ["in two stages", { pipeline: { stages: { image: 0, meta: 0, label: 1, size: 1 }, microBatches: 2 } }],
])("%s a run goes on from its checkpoint with the same bits, and files hold the model", async (_what, more) => {
  const directory = mkdtempSync(join(tmpdir(), "heddle-records-"));
  try {
    const checkpoint = { directory, every: 2 };
    const whole = await train(options(more));
    await train(options({ ...more, epochs: 1, checkpoint }));
    const resumed = await train(options({ ...more, checkpoint, resume: true }));
    expect(numbers(resumed)).toEqual(numbers(whole));
    const input = { image: [1, 3, 2], meta: [1, 2] };
    const { params } = await io.loadVariables(resumed.checkpoint as string, model, { input, dtype: "f64" });
    const values = async (weight: Tensor) => [...(await replicate(weight).data())];
    expect(await values(params.size.weight)).toEqual(await values((whole.params as typeof params).size.weight));
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("one input with several outputs, one target for all of them; layers in 16 bits", async () => {
  const heads = nn.module({ body: nn.linear(4), main: nn.linear(3), early: nn.linear(3) }, (l, x) => {
    const inner = l.body(x).relu();
    return { main: l.main(inner), early: l.early(x) };
  });
  const { history } = await train({
    ...options(),
    model: heads,
    input: "meta",
    target: "label",
    loss: { main: losses.softmaxCrossEntropy, early: { loss: losses.softmaxCrossEntropy, weight: 0.1 } },
    metrics: {},
    dtype: "f32",
    precision: "bf16",
  });
  expect(Object.keys(history[0]?.validation?.metrics ?? {})).toEqual(["main_loss", "early_loss"]);
});

describe("what is refused", () => {
  test.each<[string, object, RegExp]>([
    [
      "a column that is not there",
      { input: ["image", "mta"] },
      /has no column "mta"[\s\S]*its columns are image, meta/,
    ],
    [
      "one column for a model of several",
      { input: "meta" },
      /^module: the function gives layer 'image' undefined, not a tensor[\s\S]*train\(\{ input: \["image", "meta"\]/,
    ],
    ["another column", { input: ["meta"] }, /gives layer 'image' undefined/],
    [
      "several columns for a layer of one",
      { model: nn.sequential(nn.linear(1)) },
      /^sequential: init takes one input, got \{ image, meta \}[\s\S]*hint: nn\.module/,
    ],
    ["a column twice", { input: ["image", "image"] }, /^train: input names 'image' twice/],
    ["no column", { input: [] }, /input must name a column, or several in a list, got \[\]/],
    [
      "a loss of no output",
      { loss: { labl: losses.mse } },
      /loss\.labl has no output of this name[\s\S]*did you mean 'label'/,
    ],
    [
      "a loss of no target",
      { target: ["size"], metrics: {} },
      /loss\.label has no target of this name[\s\S]*the targets are size/,
    ],
    [
      "a target without a loss",
      { loss: { label: losses.softmaxCrossEntropy } },
      /target 'size' has no loss[\s\S]*add loss\.size/,
    ],
    ["a loss that is none", { loss: { label: 3 } }, /loss\.label is not a function, but 3/],
    [
      "a weight that is none",
      { loss: { label: { loss: losses.mse, weight: "x" } } },
      /loss\.label\.weight must be a number, got "x"/,
    ],
    [
      "an unknown part",
      { loss: { label: { loss: losses.mse, wieght: 1 } } },
      /loss\.label: unknown option 'wieght'[\s\S]*did you mean 'weight'/,
    ],
    [
      "weights of rows with one function of records",
      { weight: "importance", loss: (y: Records) => y.size.mean() },
      /weights of rows need a loss for each output[\s\S]*loss: \{ label: …/,
    ],
  ])("%s", async (_what, more, says) => {
    await expect((async () => train(options(more)))()).rejects.toThrow(says);
  });
  test("another record to predict with", async () => {
    await expect(plain.predict(tensor([[1]]))).rejects.toThrow(/takes a dataset or a record of image, meta, got/);
  });
});
