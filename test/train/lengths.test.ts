/** Training on batches by length: the losses of batches padded to the longest, every row once an epoch, resumed, on several devices. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  data,
  losses,
  mesh,
  nn,
  optim,
  type RecordTrainOptions,
  type StepRecord,
  type Tensor,
  train,
  where,
  zerosLike,
} from "heddle";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/index.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-lengths-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const count = 30;
const longest = 12;
const lengthOf = (row: number): number => 1 + ((row * 7) % longest);
/** Ids from 1, since 0 is padding. */
const words = Array.from({ length: count }, (_row, row) =>
  Array.from({ length: lengthOf(row) }, (_word, at) => 1 + ((row * 5 + at * 3) % 9)),
);
const target = { shape: [count], data: Int32Array.from(words, ([first = 0]) => first % 3) };
const padded = data.padded(words);
const bounds = [3, 7, longest];

/** Rows in batches by length. With `cut: false` the batches have the same rows, but the model gets them padded to the longest. */
const byLength = ({ cut = true, size = 4 } = {}): data.Dataset => {
  const { lengths: _lengths, ...whole } = padded;
  const columns = cut ? { x: padded, y: target } : { x: whole, y: target, guide: padded };
  return data.fromArrays(columns).shuffle().batchByLength(size, { bounds });
};

/** The mean of the vectors of the words that are there. */
const model = nn.module({ words: nn.embedding(10, 5), out: nn.linear(3) }, (l, { x }: { x: Tensor }) => {
  const isWord = x.ne(0).expandDims(2);
  const vectors = l.words(x);
  const kept = where(isWord, vectors, zerosLike(vectors));
  return { y: l.out(kept.sum(1).div(isWord.cast("f64").sum(1))) };
});

const options = (more: Partial<RecordTrainOptions> = {}): RecordTrainOptions => ({
  model,
  data: byLength(),
  input: ["x"],
  target: ["y"],
  loss: { y: losses.softmaxCrossEntropy },
  metrics: {
    // A value for each word: a longer batch has more of them.
    words: (_y: unknown, { y }: { y: Tensor }) => y.mul(0).add(1),
  },
  optimizer: optim.adam({ learningRate: 0.05 }),
  epochs: 3,
  dtype: "f64",
  seed: 4,
  executor: "reference",
  report: "silent",
  ...more,
});

/** The loss of each step. */
async function stepLosses(more: Partial<RecordTrainOptions> = {}): Promise<number[]> {
  const found: number[] = [];
  await train(options({ ...more, callbacks: { onStep: ({ loss }: StepRecord) => void found.push(loss) } }));
  return found;
}

const expectSame = (found: readonly number[], wanted: readonly number[]): void => {
  expect(found).toHaveLength(wanted.length);
  for (const [step, loss] of found.entries()) expect(loss).toBeCloseTo(wanted[step] as number, 9);
};

const wanted = await stepLosses({ data: byLength({ cut: false }) });

test("the data has several lengths, and short batches of each", () => {
  const dataset = byLength();
  expect(dataset.batchForms).toEqual([
    { rows: 4, length: 12 },
    { rows: 4, length: 7 },
    { rows: 4, length: 3 },
    { rows: 1, length: 12 },
    { rows: 1, length: 7 },
  ]);
  expect(wanted).toHaveLength(3 * dataset.batchesPerEpoch);
});

test.each<[string, Partial<RecordTrainOptions>]>([
  ["on one device", {}],
  ["on two devices", { mesh: mesh({ data: 2 }) }],
  ["in parts", { accumulate: 2 }],
  ...("error" in loadNative()
    ? []
    : ([
        ["on native", { executor: "native" }],
        ["on two native devices", { executor: "native", mesh: mesh({ data: 2 }) }],
        ["on native, read from the column for each batch", { executor: "native", dataMemory: 0 }],
      ] as [string, Partial<RecordTrainOptions>][])),
])("losses of each step are those of batches padded to the longest: %s", async (_name, more) => {
  expectSame(await stepLosses(more), wanted);
});

test("a wider column is cut to the last bound, also where native gathers by pieces", async () => {
  const wide = data.padded(words, { length: 20 });
  const rows = data.fromArrays({ x: wide, y: target }).shuffle().batchByLength(4, { bounds });
  expectSame(await stepLosses({ data: rows }), wanted);
  if (!("error" in loadNative())) expectSame(await stepLosses({ data: rows, executor: "native" }), wanted);
});

test("a run resumed within an epoch gives the losses of one that was not interrupted", async () => {
  const checkpoint = { directory, every: 1 } as const;
  const controller = new AbortController();
  const callbacks = {
    onStep: ({ step }: StepRecord) => (step === 5 ? controller.abort(new Error("killed")) : undefined),
  };
  await expect(train(options({ checkpoint, callbacks, signal: controller.signal }))).rejects.toThrow("killed");
  const rest = await stepLosses({ checkpoint, resume: true });
  expect(rest.length).toBeLessThan(wanted.length);
  expectSame(rest, wanted.slice(-rest.length));
});

test.each<[string, data.Dataset, RegExp]>([
  [
    "other bounds",
    data
      .fromArrays({ x: padded, y: target })
      .shuffle()
      .batchByLength(4, { bounds: [5, 12] }),
    /bounds/,
  ],
  [
    "other lengths",
    data
      .fromArrays({ x: { ...padded, lengths: Int32Array.from(words, ({ length }) => Math.max(length, 2)) }, y: target })
      .shuffle()
      .batchByLength(4, { bounds }),
    /lengths/,
  ],
])("a resume with %s is refused", async (_name, other, says) => {
  const checkpoint = { directory, every: "epoch" } as const;
  await train(options({ checkpoint, epochs: 1 }));
  await expect(train(options({ checkpoint, resume: true, data: other }))).rejects.toThrow(says);
});

test("metrics of each word count the words of their own batch", async () => {
  const perWord = nn.module({ words: nn.embedding(10, 10) }, (l, { x }: { x: Tensor }) => ({ x: l.words(x) }));
  const ones = (y: { x: Tensor }): Tensor => y.x.sum(-1).mul(0).add(1);
  const one = options({
    model: perWord,
    target: ["x"],
    loss: { x: losses.softmaxCrossEntropy },
    metrics: { ones: ones as never },
  });
  const evaluate = data.fromArrays({ x: padded, y: target }).batchByLength(4, { bounds });
  const { history } = await train({ ...one, evaluate });
  for (const { metrics, validation } of history) {
    expect(metrics["ones"]).toBe(1);
    expect(validation?.metrics["ones"]).toBe(1);
  }
});

describe("evaluation and prediction", () => {
  test("an evaluation by length is that of whole rows", async () => {
    const rows = data.fromArrays({ x: padded, y: target });
    const result = await train(options({ epochs: 1, evaluate: rows.batchByLength(5, { bounds }) }));
    const whole = await result.evaluate(rows.batch(count));
    expect(result.history[0]?.validation?.loss).toBeCloseTo(whole.loss, 9);
    const outputs = (await result.predict(rows)) as unknown as { y: Tensor };
    expect(outputs.y.shape).toEqual([count, 3]);
    await expect(result.predict(byLength())).rejects.toThrow("batched by length, in another order");
  });

  test("a model that takes one length only is refused before the first step", async () => {
    const fixed = nn.module({ flat: nn.flatten(), out: nn.linear(3) }, (l, { x }: { x: Tensor }) => ({
      y: l.out(l.flat(x.cast("f64"))),
    }));
    await expect(train(options({ model: fixed }))).rejects.toThrow(/sequences up to 7/);
  });
});
