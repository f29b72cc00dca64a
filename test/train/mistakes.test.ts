/** Mistakes in the options of layers, losses, optimizers and trainings: each error says what to write instead. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  concat,
  connect,
  customGradient,
  data,
  distribute,
  grad,
  io,
  keras,
  layouts,
  losses,
  mesh,
  metrics,
  nn,
  optim,
  random,
  sort,
  type Tensor,
  type TrainOptions,
  tensor,
  train,
  vmap,
} from "heddle";
import { parseLayout } from "heddle/plan";
import { afterAll, describe, expect, test } from "vitest";
import { bars, options } from "./synthetic.ts";

const run = (more: object): Promise<unknown> => train(options(more as Partial<TrainOptions>));
const model = (init: object): (() => unknown) => {
  return () => nn.linear(2, { init }).init(random.key(0), { shape: [1, 3], dtype: "f32" });
};
const f32 = tensor([[0, 1]]);
const labels = tensor([1], { dtype: "i32" });

const mistakes: readonly (readonly [what: string, make: () => unknown, says: RegExp])[] = [
  ["options that are a number", () => nn.leakyRelu(0.2 as never), /leakyRelu: takes its options as a record, got 0\.2/],
  ["a precision", () => run({ precision: "f8" }), /^train: precision must be bf16 or f16, got f8/],
  [
    "a last batch of one row before batch norm",
    () =>
      run({
        data: bars(17).batch(16),
        model: nn.sequential(nn.flatten(), nn.linear(4), nn.batchNorm(), nn.linear(3)),
        callbacks: [{ onBegin: () => expect.fail("the training has begun") }],
      }),
    /needs more than one value per channel.*\(the last batch of an epoch has 1 of 16 rows\)[\s\S]*dropRemainder/,
  ],
  [
    "one of two rows, in two parts",
    () =>
      run({
        data: bars(18).batch(16),
        accumulate: 2,
        model: nn.sequential(nn.flatten(), nn.linear(4), nn.batchNorm(), nn.linear(3)),
        callbacks: [{ onBegin: () => expect.fail("the training has begun") }],
      }),
    /\(the last batch of an epoch has 2 of 16 rows, taken in 2 parts\)/,
  ],
  [
    "Keras's and PyTorch's rate",
    () => optim.adam({ lr: 1 } as never),
    /unknown option 'lr'[\s\S]*it is called 'learningRate' here/,
  ],
  [
    "parameters as PyTorch's take them",
    () => (optim.sgd as CallableFunction)([f32], { lr: 1 }),
    /sgd: takes its options as a record/,
  ],
  [
    "a batch size",
    () => run({ batch_size: 8 }),
    /unknown option 'batch_size'[\s\S]*datasets are batched: .*batch\(32\)/,
  ],
  ["a criterion", () => run({ criterion: losses.mse }), /unknown option 'criterion'[\s\S]*it is called 'loss' here/],
  [
    "validation data",
    () => run({ validation_data: bars(8) }),
    /unknown option 'validation_data'[\s\S]*it is called 'evaluate' here/,
  ],
  [
    "two widths",
    () => nn.linear(784, 10 as never),
    /linear: takes its options as a record, got 10[\s\S]*nn\.linear\(out\): how many features go in is known/,
  ],
  ["channels", () => (nn.conv2d as CallableFunction)(1, 32, 3), /got 1[\s\S]*nn\.conv2d\(\{ out: 32, kernel: 3 \}\)/],
  [
    "an activation",
    () => nn.linear(3, { activation: "relu" } as never),
    /unknown option 'activation'[\s\S]*a layer of its own, such as nn\.relu/,
  ],
  [
    "a kernel",
    () => nn.conv2d({ out: 3, kernel_size: 3 } as never),
    /unknown option 'kernel_size'[\s\S]*it is called 'kernel' here/,
  ],
  [
    "another case",
    () => nn.linear(3, { Bias: false } as never),
    /unknown option 'Bias'[\s\S]*it is called 'bias' here/,
  ],
  [
    "labels as floats",
    () => losses.softmaxCrossEntropy(f32, tensor([1])),
    /labels must be integers, got f32\[1\][\s\S]*dtype "i32"/,
  ],
  [
    "one-hot labels as integers",
    () => losses.softmaxCrossEntropy(f32, tensor([[0, 1]], { dtype: "i32" })),
    /needs logits .*got f32\[1,2\], i32\[1,2\][\s\S]*labels\.argMax\(-1\)/,
  ],
  [
    "labels with a dim of 1",
    () => losses.softmaxCrossEntropy(f32, tensor([[1]], { dtype: "i32" })),
    /got f32\[1,2\], i32\[1,1\][\s\S]*labels have no last dim of 1/,
  ],
  [
    "a column that is a tensor",
    () => data.fromArrays({ x: f32 as never }),
    /column "x" is Tensor.*[\s\S]*shape: \[1, 2\], dtype: "f32", data: await x\.data\(\)/,
  ],
  [
    "a column of rows",
    () =>
      data.fromArrays({
        x: [
          [1, 2],
          [3, 4],
          [5, 6],
        ] as never,
      }),
    /column "x" is .*[\s\S]*shape: \[3, 2\], data: rows\.flat\(\)/,
  ],
  [
    "a column that is a list",
    () => data.fromArrays({ x: new Float32Array(3) as never }),
    /a Float32Array, not[\s\S]*shape: \[values\.length\], data: values/,
  ],
  [
    "data as arrays",
    () => run({ data: [[[1, 2]], [0]] }),
    /data is not a dataset .*, but \[[\s\S]*data\.fromArrays\(\{ x: /,
  ],
  [
    "layers in a list",
    () => run({ model: [nn.linear(3)] }),
    /model is not a layer[\s\S]*nn\.sequential\(first, second\)/,
  ],
  [
    "an optimizer by name",
    () => run({ optimizer: "adam" }),
    /optimizer is not an optimizer .*, but "adam"[\s\S]*optim\.adam\(\{ learningRate/,
  ],
  ["a loss by name", () => run({ loss: "mse" }), /loss is not a function .*, but "mse"/],
  [
    "gradients that are integers",
    () => optim.clipByGlobalNorm({ a: f32, b: { c: labels } }, 1),
    /^clipByGlobalNorm: gradients are floats, but 'b\.c' is i32\[1\]/,
  ],
  ["no options", () => optim.adam(undefined as never), /adam: takes its options as a record, got undefined/],
  [
    "an initialiser that is not called",
    model({ weight: nn.init.zeros }),
    /init\.weight must make f32\[2,3\], but made the function.*[\s\S]*call it/,
  ],
  [
    "another one",
    model({ bias: nn.init.xavierUniform }),
    /init\.xavierUniform: takes its options as a record[\s\S]*call it: init\.xavierUniform/,
  ],
  [
    "an initialiser of another shape",
    model({ weight: () => f32 }),
    /init\.weight must make f32\[2,3\], but made .*\[1,2\]/,
  ],
  [
    "a weight that is a list",
    () => losses.softmaxCrossEntropy(f32, labels, { weight: [1, 2] as never }),
    /weight must be a tensor, got \[1,2\]/,
  ],
  [
    "a factor that is a number",
    () => losses.binaryCrossEntropyWithLogits(f32, f32, { posWeight: 2 as never }),
    /posWeight must be a tensor, got 2/,
  ],
  ["one beta", () => optim.adamW({ learningRate: 1, betas: [0.9] as never }), /adamW: betas must be two numbers/],
  [
    "two plateaus",
    () =>
      optim.schedules.sequence(
        [optim.schedules.plateau({ learningRate: 1 }), optim.schedules.plateau({ learningRate: 1 })],
        [3],
      ),
    /only one schedule can be a plateau/,
  ],
  ["a metric by its name", () => run({ metrics: ["accuracy"] as never }), /metrics is not a record of names/],
  ["a metric that is not in a record", () => run({ metrics: metrics.accuracy }), /metrics is not a record of names/],
  [
    "a metric that is not called",
    () => run({ metrics: { f1: metrics.f1 } }),
    /f1: takes its options as a record[\s\S]*call it: f1/,
  ],
  [
    "a rule that is not called",
    () => run({ layout: layouts.fullySharded }),
    /a rule of layout must give \{ shard \}[\s\S]*layouts\.fullySharded\(\)/,
  ],
  ["an average that never changes", () => run({ ema: 1 }), /ema must be below 1/],
  [
    "a checkpoint that is not there",
    () => run({ resume: "/nowhere/at/all" }),
    /resume: there is nothing at \/nowhere\/at\/all/,
  ],
  [
    "a layout over the stages of a pipeline",
    () =>
      run({
        model: nn.sequential(nn.flatten(), nn.linear(16), nn.relu(), nn.linear(3)),
        data: bars(16).batch(16),
        pipeline: { stages: { 1: 0, 3: 1 }, microBatches: 2 },
        mesh: mesh({ stage: 2, data: 2 }),
        layout: layouts.fullySharded("stage"),
      }),
    /layout splits "1\.weight" over 'stage', which a pipeline uses otherwise/,
  ],
  [
    "equal sizes for other devices",
    async () =>
      distribute(
        await connect(mesh({ a: 3 })),
        new Float32Array(10),
        { dtype: "f32", shape: [10] },
        parseLayout("S(0:5+5)"),
      ),
    /cannot be S\(0:5\+5\) on mesh a=3/,
  ],
  [
    "data that do not fill the shape",
    async () =>
      distribute(
        await connect(mesh({ a: 3 })),
        new Float32Array(5),
        { dtype: "f32", shape: [10] },
        parseLayout("S(0)"),
      ),
    /5 numbers do not fill f32\[10\]/,
  ],
  [
    "a hook as Keras spells it",
    () => run({ callbacks: { onEpochEnd: () => undefined } }),
    /nothing calls the callback's onEpochEnd[\s\S]*onBegin, onStep, onEpoch, onEnd/,
  ],
  ["vmap's dims as JAX spells them", () => vmap((x: Tensor) => x, { inAxes: 1 } as never), /vmap: .*inAxes/],
  [
    "a gradient that gives no cotangents",
    () =>
      grad((x: Tensor) =>
        customGradient(
          (y: Tensor) => y.mul(2),
          () => [] as never,
        )(x).sum(),
      )(f32),
    /customGradient: the gradient gave 0 cotangents for 1 arguments/,
  ],
  [
    "options in the place of a dim",
    () => sort(f32, { descending: true } as never),
    /sort: dim must be a number, got \{ descending \}[\s\S]*options come after/,
  ],
  [
    "two dtypes in a row",
    () => concat([f32, tensor([[1, 2]], { dtype: "i32" })]),
    /concat: dtypes differ: f32\[1,2\], i32\[1,2\]/,
  ],
  [
    "a product of two dtypes",
    () => labels.matmul(tensor([1])),
    /matmul: needs two numbers of one dtype, got i32\[1\], f32\[1\]/,
  ],
  [
    "training as Keras spells it",
    () => nn.dropout(0.5).apply({ params: {}, state: {} }, f32, { training: true } as never),
    /dropout: apply: .*training/,
  ],
  [
    "two tensors of one name",
    () => io.saveTensors(join(tmpdir(), "heddle-never-written"), { "a.b": f32, a: { b: f32 } }),
    /saveTensors: two tensors have the name 'a\.b'/,
  ],
];

/** Twenty rows of which one, number 13, has a label of no class. */
const rows = (bad: number): data.Dataset =>
  data.fromArrays({
    x: { shape: [20, 2], data: Float32Array.from({ length: 40 }, (_one, index) => index / 40) },
    y: {
      shape: [20],
      dtype: "i32",
      data: Int32Array.from({ length: 20 }, (_one, row) => (row === 13 ? bad : row % 3)),
    },
  });
const onRows = (more: object) => run({ data: rows(7).shuffle().batch(4), epochs: 1, ...more });
const known = "softmaxCrossEntropy: label 7 at row [0-3] is outside \\[0, 3\\) \\(row 13 of the data\\), in";

/** The same rows with two ids each, of which one of number 13 is in no table. */
const withIds = (bad: number | bigint): data.Dataset => {
  const values = Array.from({ length: 40 }, (_one, at) => (at === 27 ? bad : at % 5));
  const x =
    typeof bad === "bigint"
      ? { dtype: "i64", data: BigInt64Array.from(values.map(BigInt)) }
      : { dtype: "i32", data: Int32Array.from(values as number[]) };
  const y = { shape: [20], dtype: "i32", data: Int32Array.from({ length: 20 }, (_one, row) => row % 3) };
  return data.fromArrays({ x: { shape: [20, 2], ...x }, y } as never);
};
const onIds = (bad: number | bigint, more: object) =>
  run({
    model: nn.sequential(nn.embedding(5, 2), nn.flatten(), nn.linear(3)),
    data: withIds(bad).batch(10),
    epochs: 1,
    executor: "reference",
    ...more,
  });
/** Row 13 is the fourth of the second batch. */
const knownId = (id: number | bigint): string =>
  `^layer 0 \\(embedding\\): index ${id} in row 3 of the batch is outside \\[0, 5\\) \\(row 13 of the data\\), in`;

const wrongRows: readonly (readonly [what: string, make: () => unknown, says: RegExp])[] = [
  ["in a step", () => onRows({}), new RegExp(`^${known} step [1-5] \\(epoch 1 of 1, batch [1-5]\\)`)],
  ["in a part of a batch", () => onRows({ accumulate: 2 }), new RegExp(`^${known} step`)],
  [
    "where devices have parts of a batch",
    () => onRows({ mesh: mesh({ data: 2 }), executor: "reference" }),
    new RegExp(`^${known} step`),
  ],
  ["an id", () => onIds(20, { executor: "native" }), new RegExp(`${knownId(20)} step 2`)],
  [
    "an id, while the next step is under way",
    () => onIds(20, { data: withIds(20).batch(2), executor: "native" }),
    /^layer 0 \(embedding\): index 20 in row 1 of the batch .* \(row 13 of the data\), in step 7 /,
  ],
  ["an id in a part of a batch", () => onIds(-1, { accumulate: 5 }), new RegExp(`${knownId(-1)} step 2`)],
  ["an id on one of two devices", () => onIds(20, { mesh: mesh({ data: 2 }) }), new RegExp(`${knownId(20)} step 2`)],
  [
    "an id on one of two unequal devices",
    () => onIds(20, { mesh: mesh({ data: 2 }, { shares: { data: [1, 4] } }) }),
    new RegExp(`${knownId(20)} step 2`),
  ],
  [
    "an id on one of two devices, in a part",
    () => onIds(20, { mesh: mesh({ data: 2 }), accumulate: 5 }),
    new RegExp(`${knownId(20)} step 2`),
  ],
  ["an id beyond i32", () => onIds(2n ** 32n + 1n, {}), new RegExp(`${knownId(2n ** 32n + 1n)} step 2`)],
  [
    "an id that the model makes",
    () => onIds(4, { model: nn.sequential((x) => x.add(1), nn.embedding(5, 2), nn.flatten(), nn.linear(3)) }),
    /^layer 1 \(embedding\): index 5 at position \d is outside \[0, 5\), in step 1/,
  ],
  [
    "an id in an evaluation",
    () => onIds(0, { evaluate: withIds(7) }),
    new RegExp(`${knownId(7)} batch 2 of the evaluation`),
  ],
  [
    "in an evaluation",
    () => onRows({ data: rows(1).batch(4), evaluate: rows(7) }),
    new RegExp(`^${known} batch 4 of the evaluation`),
  ],
  [
    "in fit",
    () => {
      const made = keras.model(nn.linear(3));
      made.compile({ optimizer: "sgd", loss: losses.softmaxCrossEntropy });
      return made.fit(rows(7), { batchSize: 4, verbose: 0 });
    },
    new RegExp(`^${known} step 4`),
  ],
];

const kept = mkdtempSync(join(tmpdir(), "heddle-mistakes-"));
afterAll(() => rmSync(kept, { recursive: true }));
const first = (name: string, more: object) =>
  onRows({ data: rows(1).batch(4), checkpoint: { directory: join(kept, name) }, ...more });
const again = (name: string, more: object) => onRows({ data: rows(1).batch(4), resume: join(kept, name), ...more });
const average = "a moving average of the parameters, which this run";

const others: readonly (readonly [what: string, make: () => unknown, says: RegExp])[] = [
  [
    "without an average that was kept",
    async () => {
      await first("average", { ema: 0.9 });
      await again("average", {});
    },
    new RegExp(`: it keeps ${average} does not keep \\(the option ema\\)`),
  ],
  [
    "with one that was not kept, of an optimizer without a state",
    async () => {
      const optimizer = optim.sgd({ learningRate: 0.1 });
      await first("plain", { optimizer });
      await again("plain", { optimizer, ema: 0.9 });
    },
    new RegExp(`: it lacks ${average} keeps`),
  ],
  [
    "with rejected steps, which were not",
    async () => {
      await first("guard", {});
      await again("guard", { nan: "skip" });
    },
    /: it lacks the state of the guard that rejects steps, which this run keeps \(the options nan: "skip" and lossScale\)/,
  ],
  [
    "from a result that has an average",
    async () => {
      const from = await onRows({ data: rows(1).batch(4), ema: 0.9 });
      await onRows({ data: rows(1).batch(4), from });
    },
    new RegExp(`train: from: optimizerState keeps ${average} does not keep`),
  ],
  [
    "from values of another width",
    async () => {
      const from = await onRows({ data: rows(1).batch(4) });
      await run({ data: bars(16).batch(4), epochs: 1, from });
    },
    /train: from: params '1\.weight' is f32\[3,2\], but this model and data need f32\[3,64\]/,
  ],
  [
    "a model in Keras' manner, with rows of another width",
    async () => {
      const made = keras.model(nn.sequential(nn.flatten(), nn.linear(3)));
      made.compile({ optimizer: "sgd", loss: "softmaxCrossEntropy" });
      await made.fit(rows(1), { batchSize: 4, verbose: 0 });
      await made.fit(bars(16), { batchSize: 4, verbose: 0 });
    },
    /^fit: the model has learnt from rows of f32\[2\], got rows of f32\[1,8,8\]: its '1\.weight' is f32\[3,2\], these would need f32\[3,64\]/,
  ],
];

describe("a label of no class or an id of no row is told with its row", () => {
  test.each(wrongRows)("%s", async (_what, make, says) => {
    await expect((async () => make())()).rejects.toThrow(says);
  });
});

describe("going on from other values", () => {
  test.each(others)("%s", async (_what, make, says) => {
    await expect((async () => make())()).rejects.toThrow(says);
  });
});

describe("mistakes", () => {
  test.each(mistakes)("%s", async (_what, make, says) => {
    await expect((async () => make())()).rejects.toThrow(says);
  });

  test("an option that is given as undefined has its default", () => {
    const params = { w: tensor([1, 2]) };
    const stepped = (optimizer: optim.Optimizer) =>
      optimizer.update({ w: tensor([0, 0]) }, optimizer.init(params), params, { step: 0 }).params.w.dataSync();
    expect(stepped(optim.adamW({ learningRate: 0.1, weightDecay: undefined as never }))).toEqual(
      stepped(optim.adamW({ learningRate: 0.1 })),
    );
    expect(stepped(optim.adamW({ learningRate: 0.1 }))).not.toEqual(stepped(optim.adam({ learningRate: 0.1 })));
  });

  test("a plateau behind a warm-up is told of epochs, and equal sizes that fit are the same layout", () => {
    const { schedules } = optim;
    const plateau = schedules.plateau({ learningRate: 1, patience: 0, factor: 0.5 });
    const rate = schedules.warmUp(plateau, { steps: 2 });
    if (!schedules.isPlateau(rate)) throw new Error("it is not told of epochs");
    for (const loss of [1, 2]) rate.observe(loss);
    expect([rate(0), rate(1), rate(2)]).toEqual([0, 0.5, 0.5]);
    rate.restart();
    expect(rate(2)).toBe(1);
  });
});
