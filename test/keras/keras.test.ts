/** The Keras-like model: names against Keras itself, and fit, evaluate, predict against `train`. */
import { mkdtempSync, rmSync } from "node:fs";
import { rename } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Callbacks, callbacks, data, keras, losses, nn, optim, type Tensor, tensor, train } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { lossOf } from "../../src/adapters/keras/losses.ts";
import { metricsOf } from "../../src/adapters/keras/metrics.ts";
import { optimizerOf } from "../../src/adapters/keras/optimizers.ts";
import { isTensor } from "../../src/functions/index.ts";
import { isCounted } from "../../src/metrics/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { fixture } from "../fixtures/fixture.ts";
import { expectClose } from "../support/close.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-keras-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface KerasCase {
  readonly kind: string;
  readonly name: string;
  readonly output: number[][];
  readonly target: number[] | number[][];
  readonly rows: number[];
  readonly rate: number;
  readonly steps: number;
  readonly params: number[][];
}

const cases = fixture<KerasCase>("keras");
const f64 = { dtype: "f64" } as const;

describe("names mean what they mean in Keras", () => {
  test.each(cases.filter(({ kind }) => kind === "loss"))("loss $name", async ({ name, output, target, rows }) => {
    const single = lossOf(name).loss(tensor(output, f64), tensor(target, f64), { reduction: "none" });
    const perRow = single.shape.length === 1 ? single : single.mean(1);
    expectClose(await perRow.data(), rows, 1e-6);
  });

  test.each(cases.filter(({ kind }) => kind === "optimizer"))(
    "optimizer $name",
    async ({ name, rate, steps, params }) => {
      const optimizer = optimizerOf(name);
      expect(optimizer.learningRate).toBeCloseTo(rate, 12);
      let values = {
        w: tensor(
          [
            [1, -2],
            [0.5, 3],
          ],
          f64,
        ),
      };
      let state = optimizer.init(values);
      const slope = tensor(
        [
          [1, 0.1],
          [-2, 3],
        ],
        f64,
      );
      for (let step = 0; step < steps; step++) {
        const grads = { w: values.w.mul(slope).add(Math.sin(step)) };
        ({ params: values, state } = optimizer.update(grads, state, values, { step }));
      }
      // Where the small number that keeps from dividing by 0 is added differs by formula.
      expectClose(await values.w.data(), params.flat(), 1e-5);
    },
  );

  const of = async (name: string, outputs: "probabilities" | "logits", y: Tensor, t: Tensor): Promise<number> => {
    const metric = metricsOf([name], outputs)[name] as NonNullable<ReturnType<typeof metricsOf>[string]>;
    if (!isCounted(metric)) return metric(y, t).cast("f64").mean().item();
    const counts = metric.counts(y, t).cast("f64");
    return metric.value(
      Array.from(
        await counts
          .reshape([-1, counts.shape.at(-1) as number])
          .sum(0)
          .data(),
      ),
    );
  };
  const p = tensor([[0.9], [0.4], [0.6], [0.2]]);
  const logits = p.log().sub(p.neg().add(1).log());
  const yes = tensor([1, 1, 0, 0]);
  test.each([
    ["accuracy", 0.5],
    ["precision", 0.5],
    ["recall", 0.5],
    ["auc", 0.75],
    ["binary_accuracy", 0.5],
  ])("%s of yes and no is %d, of probabilities and of logits", async (name, value) => {
    expect(await of(name, "probabilities", p, yes)).toBeCloseTo(value, 6);
    expect(await of(name, "logits", logits, yes)).toBeCloseTo(value, 6);
  });
  test("accuracy of classes, by number and one-hot", async () => {
    const y = tensor([
      [0.1, 0.9],
      [0.8, 0.2],
      [0.3, 0.7],
    ]);
    expect(await of("accuracy", "probabilities", y, tensor([1, 1, 1], { dtype: "i32" }))).toBeCloseTo(2 / 3, 12);
    expect(await of("acc", "probabilities", y, tensor([[1], [1], [1]]))).toBeCloseTo(2 / 3, 12);
    expect(
      await of(
        "accuracy",
        "probabilities",
        y,
        tensor([
          [0, 1],
          [0, 1],
          [0, 1],
        ]),
      ),
    ).toBeCloseTo(2 / 3, 12);
  });
});

/** Three classes of points, by their angle. */
const count = 50;
const points = Array.from({ length: count }, (_unused, index) => [Math.sin(index * index), Math.cos(3 * index)]);
const labels = points.map(([a = 0, b = 0]) => (a > 0 ? 0 : b > 0 ? 1 : 2));
const x = tensor(points);
const y = tensor(labels, { dtype: "i32" });
/** All classes but one. */
const classes = labels.slice(1);
const layer = (): nn.Layer => nn.sequential(nn.linear(8), nn.relu(), nn.dropout(0.2), nn.linear(3));
const compiled = (given: Partial<keras.CompileOptions> = {}, options: keras.ModelOptions = {}): keras.Model => {
  const model = keras.model(layer(), { executor: "reference", ...options });
  model.compile({ optimizer: "adam", loss: "softmaxCrossEntropy", metrics: ["accuracy"], ...given });
  return model;
};
const quiet = { verbose: 0, batchSize: 16 } as const;
const bits = (tree: unknown): Promise<unknown[]> =>
  Promise.all(flattenTree(tree, isTensor).leaves.map((leaf) => (leaf as Tensor).data()));

describe("fit", () => {
  test("is train: the same bits, with the last rows held back", async () => {
    const model = compiled();
    const { epoch, history } = await model.fit(x, y, { ...quiet, epochs: 2, validationSplit: 0.2 });
    const all = data.fromArrays({
      x: { shape: [count, 2], data: points.flat() },
      y: { shape: [count], dtype: "i32", data: labels },
    });
    const plain = await train({
      model: layer(),
      data: all.take(40).shuffle().batch(16),
      evaluate: all.skip(40),
      loss: losses.softmaxCrossEntropy,
      optimizer: optim.adam({ learningRate: 1e-3, epsilon: 1e-7 }),
      epochs: 2,
      executor: "reference",
      report: "silent",
    });
    expect(await bits(model.params)).toEqual(await bits(plain.params));
    expect(epoch).toEqual([1, 2]);
    expect(history).toEqual({
      loss: plain.history.map(({ loss }) => loss),
      accuracy: plain.history.map(({ metrics }) => metrics["accuracy"]),
      val_loss: plain.history.map(({ validation }) => validation?.loss),
      val_accuracy: plain.history.map(({ validation }) => validation?.metrics["accuracy"]),
    });
    expect(await model.evaluate(all.skip(40), { batchSize: 3 })).toEqual({
      loss: expect.closeTo(history["val_loss"]?.[1] as number, 5),
      accuracy: history["val_accuracy"]?.[1],
    });
  });

  test("a second one goes on: as one that was never cut", async () => {
    const [model, other] = [compiled(), compiled()];
    await model.fit(x, y, { ...quiet, epochs: 1 });
    await model.fit(x, y, { ...quiet, epochs: 1 });
    await other.fit(x, y, { ...quiet, epochs: 2 });
    expect(await bits(model.params)).toEqual(await bits(other.params));
    // Compiled again it keeps its weights, and Adam begins anew.
    model.compile({ optimizer: "adam", loss: "softmaxCrossEntropy" });
    expect(await bits(model.params)).toEqual(await bits(other.params));
    await model.fit(x, y, { ...quiet, epochs: 1 });
    await other.fit(x, y, { ...quiet, epochs: 1 });
    expect(await bits(model.params)).not.toEqual(await bits(other.params));
  });

  test("weights of rows and classes multiply the losses; a weight of 0 leaves a row out", async () => {
    const twos = labels.map((label) => (label === 2 ? 0 : 2));
    const given = { ...quiet, shuffle: false, epochs: 1, batchSize: count };
    const [left, right] = [compiled({ optimizer: "sgd" }), compiled({ optimizer: "sgd" })];
    const one = await left.fit(x, y, { ...given, sampleWeight: twos });
    const other = await right.fit(x, y, { ...given, classWeight: { 0: 2, 1: 2, 2: 0 } });
    expect(one.history["loss"]).toEqual(other.history["loss"]);
    const plain = await left.evaluate(x, y);
    const weighted = await left.evaluate(x, y, { sampleWeight: labels.map(() => 2) });
    expect(weighted["loss"]).toBeCloseTo(2 * (plain["loss"] as number), 5);
    expect(weighted["accuracy"]).toBe(plain["accuracy"]);
  });

  test("while it goes on: evaluate, predict and save see whole steps; a second fit is refused; a failure leaves the model", async () => {
    const model = compiled();
    await model.fit(x, y, { ...quiet, epochs: 1 });
    const before = await bits(model.params);
    const found: unknown[] = [];
    const path = join(folder, "under-way.safetensors");
    const watch: Callbacks = {
      onEpoch: async ({ epoch }) => {
        if (epoch !== 1) return;
        found.push(await model.evaluate(x, y), await (await model.predict(x)).data());
        await model.saveWeights(path);
        await expect(model.fit(x, y)).rejects.toMatchObject({ code: "busy" });
        await expect(model.loadWeights(path)).rejects.toMatchObject({ code: "busy" });
      },
    };
    await expect(
      model.fit(x, y, {
        ...quiet,
        epochs: 3,
        callbacks: [watch, { onEpoch: ({ epoch }) => (epoch === 2 ? Promise.reject(new Error("enough")) : undefined) }],
      }),
    ).rejects.toThrow("enough");
    expect(await bits(model.params)).toEqual(before);
    await model.fit(x, y, { ...quiet, epochs: 1 });
    expect(found).toEqual([await model.evaluate(x, y), await (await model.predict(x)).data()]);
    const read = compiled();
    await read.loadWeights(path);
    expect(await (await read.predict(x)).data()).toEqual(found[1]);
  });

  test("callbacks end it and change its rate; initialEpoch counts", async () => {
    const model = compiled();
    const stop = callbacks.earlyStopping({ monitor: "loss", mode: "max", patience: 2 });
    const rate = callbacks.reduceLROnPlateau({ monitor: "loss", mode: "max", patience: 1, factor: 0.5 });
    const { epoch, epochs } = await model.fit(x, y, { ...quiet, initialEpoch: 3, epochs: 20, callbacks: [stop, rate] });
    expect(epoch).toEqual([4, 5, 6]);
    expect(epochs.map(({ learningRate }) => learningRate)).toEqual([0.001, 0.001, 0.0005]);
  });
});

describe("a model", () => {
  test("shows its layers, nested ones too", async () => {
    const lines: string[] = [];
    const inner = nn.sequential(nn.linear(8), nn.relu());
    keras
      .model(nn.sequential(nn.flatten(), inner, nn.linear(3)), { inputShape: [2, 2] })
      .summary({ print: (line) => void lines.push(line) });
    expect(lines).toEqual([
      "  layer  kind     output  parameters",
      "  0      flatten  [-, 4]           0",
      "  1.0    linear   [-, 8]          40",
      "  1.1    relu     [-, 8]           0",
      "  2      linear   [-, 3]          27",
      "  67 parameters",
    ]);
  });

  test("predicts before it is compiled, in batches, and from a file", async () => {
    const model = keras.model(layer(), { executor: "reference", seed: 3 });
    const whole = await model.predict(x, { batchSize: count });
    expectClose(await (await model.predict(points, { batchSize: 7 })).data(), await whole.data(), 1e-6);
    const path = join(folder, "weights.safetensors");
    await model.saveWeights(path);
    const other = keras.model(layer(), { executor: "reference", inputShape: [2] });
    await other.loadWeights(path);
    expect(await (await other.predict(x)).data()).toEqual(await whole.data());
    const smaller = keras.model(nn.linear(3), { inputShape: [2] });
    await expect(smaller.loadWeights(path)).rejects.toThrow(/missing: "weight", f32[\s\S]*unexpected: "0\.bias"/);
    // Read at once, and given their places when the shape of the input is known.
    const later = keras.model(layer(), { executor: "reference" });
    await later.loadWeights(path);
    const wrong = keras.model(nn.linear(3), { executor: "reference" });
    await wrong.loadWeights(path);
    await rename(path, join(folder, "gone"));
    expect(await (await later.predict(x)).data()).toEqual(await whole.data());
    await expect(wrong.predict(x)).rejects.toThrow(
      /weights\.safetensors: .*does not fit the model[\s\S]*missing: "weight"/,
    );
    await expect(smaller.loadWeights(join(folder, "none"))).rejects.toMatchObject({ code: "file" });
  });

  const model = compiled();
  test.each<[string, () => unknown, RegExp]>([
    [
      "an optimizer",
      () => model.compile({ optimizer: "adma", loss: "mse" }),
      /no optimizer 'adma'[\s\S]*did you mean 'adam'/,
    ],
    [
      "a loss",
      () => model.compile({ optimizer: "sgd", loss: "sparse_categorical_crosentropy" }),
      /did you mean 'sparseCategoricalCrossEntropy'/,
    ],
    [
      "a metric",
      () => model.compile({ optimizer: "sgd", loss: "mse", metrics: ["acuracy"] }),
      /did you mean 'accuracy'/,
    ],
    [
      "an option",
      () => model.compile({ optimiser: "sgd" } as never),
      /unknown option 'optimiser'[\s\S]*did you mean 'optimizer'/,
    ],
    [
      "a metric twice",
      () => model.compile({ optimizer: "sgd", loss: "mse", metrics: ["mse", "mse"] }),
      /two metrics are called 'mse'/,
    ],
    ["no compile", () => keras.model(layer()).fit(x, y), /fit: the model is not compiled/],
    ["no target", () => model.fit(x as never), /takes x and y, or a dataset/],
    [
      "two sizes",
      () => model.fit(data.fromArrays({ x: { shape: [2, 2], data: [1, 2, 3, 4] } }).batch(1), { batchSize: 2 }),
      /has batches of 1 already/,
    ],
    ["rows that differ", () => model.fit(x, [1, 2]), /"x" has 50, "y" has 2/],
    [
      "one-hot for classes",
      () =>
        model
          .fit(
            x,
            labels.map((label) => [0, 1, 2].map((one) => Number(one === label))),
            { ...quiet },
          )
          .then(() =>
            compiled({ loss: "sparseCategoricalCrossEntropy" }).fit(
              x,
              labels.map(() => [0, 0, 1]),
              quiet,
            ),
          ),
      /for one-hot targets take categoricalCrossEntropy/,
    ],
    [
      "a class with a fraction",
      () => compiled({ loss: "sparseCategoricalCrossEntropy" }).fit(x, [...classes, 0.5]),
      /^fit: row 49 of y is 0.5, which is no class/,
    ],
    [
      "a class with a fraction to evaluate",
      () => compiled({ loss: "softmaxCrossEntropy" }).evaluate(x, [1.5, ...classes]),
      /^evaluate: row 0 of y is 1.5, which is no class/,
    ],
    [
      "a part of what is shuffled anew",
      () =>
        model.fit(data.fromArrays({ x: { shape: [4, 1], data: new Float32Array(4) } }).shuffle(), {
          validationSplit: 0.5,
        }),
      /fit: validationSplit of a dataset that is shuffled anew[\s\S]*before shuffle\(\)/,
    ],
    ["an empty part", () => model.fit(x, y, { validationSplit: 0.999 }), /leaves one part empty/],
    [
      "a precision",
      () => keras.model(layer(), { precision: "f8" as never }),
      /^model: precision must be bf16 or f16, got f8/,
    ],
    [
      "a target of another shape",
      () => compiled({ loss: "categoricalCrossEntropy", metrics: [] }).fit(x, x, quiet),
      /^fit: categoricalCrossEntropy: output f32\[\d+,3\] and target f32\[\d+,2\] must have one shape/,
    ],
    [
      "a target of another shape to evaluate",
      () => compiled({ loss: "mse", metrics: [] }).evaluate(x, x),
      /^evaluate: mse: output f32\[\d+,3\] and target f32\[\d+,2\] must have one shape/,
    ],
    [
      "a target of another shape for a metric",
      () => compiled({ metrics: ["accuracy"] }).fit(x, x, quiet),
      /^fit: metric accuracy: a class per row is wanted for f32\[\d+,3\], but the target is f32\[\d+,2\]/,
    ],
    ["no epochs", () => model.fit(x, y, { ...quiet, epochs: -1 }), /^fit: epochs must be at least 0/],
    ["no callbacks", () => model.fit(x, y, { ...quiet, callbacks: 3 as never }), /^fit: a callback is 3/],
    [
      "one example without a first dim",
      async () => {
        const one = keras.model(nn.linear(3), { executor: "reference" });
        await one.predict(x);
        return one.predict([1, 2]);
      },
      /^predict: the model makes f32\[3\] of f32\[2\], not a row for each[\s\S]*for a single example it is 1/,
    ],
    [
      "several inputs",
      () => model.fit({ image: x, meta: x } as never, y),
      /^fit: x must be a tensor, .*got \{ image, meta \}[\s\S]*hint: several inputs and outputs are train's: train\(/,
    ],
    ["several inputs in a list", () => model.predict([x, x] as never), /^predict: x must[\s\S]*are train's/],
    [
      "a loss for each output",
      () => model.compile({ optimizer: "sgd", loss: { a: "mse", b: "mse" } as never }),
      /^compile: loss must be a name or a function, got \{ a, b \}[\s\S]*are train's/,
    ],
    [
      "several outputs of one loss",
      () => {
        const heads = nn.module({ a: nn.linear(3), b: nn.linear(3) }, (l, x) => ({ a: l.a(x), b: l.b(x) }));
        const one = keras.model(heads as never, { executor: "reference" });
        one.compile({ optimizer: "sgd", loss: "mse" });
        return one.fit(x, y, quiet);
      },
      /mse: takes one output, but the model gives \{ a, b \}[\s\S]*are train's/,
    ],
    ["no shape", () => keras.model(layer()).summary(), /the shape of the input is not known/],
  ])("misspelt or missing: %s", async (_what, make, says) => {
    await expect((async () => make())()).rejects.toThrow(says);
  });
});

test.each(["mse", "mae", "huber", "hinge", "binaryCrossEntropy", "binaryCrossEntropyWithLogits"])(
  "a last batch of one row, whose output has a last dim of 1: %s",
  async (loss) => {
    const model = keras.model(nn.sequential(nn.linear(1), nn.sigmoid()), { seed: 1 });
    model.compile({ optimizer: "sgd", loss });
    const x = tensor([
      [0, 1],
      [1, 0],
      [1, 1],
      [0, 0],
    ]);
    const { history } = await model.fit(x, tensor([0, 1, 1, 0]), { ...quiet, epochs: 1, batchSize: 3 });
    expect(Number.isFinite(history["loss"]?.[0])).toBe(true);
  },
);
