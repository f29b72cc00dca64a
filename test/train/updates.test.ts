/** What happens between gradients and parameters: clipping, accumulation, moving averages, a rate that follows the loss. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { data, grad, layouts, losses, mesh, nn, optim, type Tensor, type TrainOptions, tensor, train } from "heddle";
import { lowerProgram } from "heddle/lower";
import { describe, expect, test } from "vitest";
import { isTensor, replicate, type Tensors } from "../../src/functions/index.ts";
import { trafficOf } from "../../src/plan/index.ts";
import { modelTypes } from "../../src/train/functions.ts";
import { nextAverage } from "../../src/train/kept.ts";
import { planStep } from "../../src/train/programs.ts";
import { resolveOptions } from "../../src/train/resolve-options.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { fixture } from "../fixtures/fixture.ts";
import { missing } from "../native/evaluate.ts";
import { expectClose } from "../support/close.ts";
import { partOf } from "../support/sample.ts";
import { bars, options } from "./synthetic.ts";

const executor = missing === undefined ? ("native" as const) : ("reference" as const);
const model = (): nn.Layer => nn.sequential(nn.flatten(), nn.linear(8), nn.tanh(), nn.linear(3));
const task = (more: Partial<TrainOptions>): TrainOptions =>
  options({ model: model(), dtype: "f64", executor, data: bars(48).shuffle().batch(16), epochs: 3, ...more });

const numbers = async (tree: unknown): Promise<number[]> =>
  (
    await Promise.all(
      flattenTree(tree, isTensor).leaves.map(async (leaf: Tensor) => [...(await replicate(leaf).data())]),
    )
  ).flat();

const meshes: readonly [string, Partial<TrainOptions>][] = [
  ["two devices", { mesh: mesh({ data: 2 }) }],
  ["in parts on two", { mesh: mesh({ data: 2 }), layout: layouts.fullySharded() }],
  [
    "tensor parallel",
    { mesh: mesh({ model: 2 }), layout: layouts.named({ "1.weight": { model: 0 }, "1.bias": { model: 0 } }) },
  ],
  ["one device, reference", { executor: "reference" }],
];

const features: readonly [string, Partial<TrainOptions>][] = [
  ["clip by norm", { clip: { norm: 0.3 } }],
  ["clip by value", { clip: { value: 0.02 } }],
  ["accumulate", { accumulate: 4 }],
  ["moving average", { ema: 0.8 }],
  ["all of them, guarded", { clip: { norm: 0.5, value: 0.1 }, accumulate: 2, ema: 0.9, lossScale: true }],
  [
    "a mean by the weights of the rows",
    {
      loss: (y, t) =>
        losses.softmaxCrossEntropy(y, t, {
          weight: tensor([0.5, 2, 1], { dtype: "f64" }),
          ignoreIndex: 1,
          labelSmoothing: 0.1,
        }),
    },
  ],
  ["norms of parameters", { optimizer: optim.lamb({ learningRate: 0.05, weightDecay: 0.1 }) }],
  ["second derivatives", { optimizer: optim.lbfgs({ learningRate: 0.5, historySize: 2 }), data: bars(48).batch(48) }],
  ["rows and columns", { optimizer: optim.adafactor({ learningRate: 0.05 }) }],
];

// Each feature on one of the meshes in turns.
describe.each(features.map((row, at) => [...row, at] as const))("%s", (_feature, more, at) => {
  test("is the same on every mesh, and has an effect", async () => {
    const run = async (where: Partial<TrainOptions>) => {
      const result = await train(task({ ...more, evaluate: bars(20, { seed: 4 }), ...where }));
      return [
        ...(await numbers(result.params)),
        ...(await numbers(result.averaged)),
        result.history[2]?.validation?.loss as number,
      ];
    };
    const one = await run({});
    for (const [name, where] of partOf(meshes, 4, at)) {
      const found = await run(where);
      expect(found.length, name).toBe(one.length);
      expectClose(found, one, 1e-9);
    }
  });
});

/** Three steps on one batch by hand, by the functions of `optim`. */
test("clipping in a training is clipping by hand", async () => {
  const rows = bars(16);
  const options = { data: rows.batch(16), epochs: 3, optimizer: optim.adam({ learningRate: 0.05 }) };
  const [x, y] = await Promise.all(["x", "y"].map((name) => (rows.columns.get(name) as data.Column).load()));
  const images = tensor(Float64Array.from(x as Uint8Array), { shape: [16, 1, 8, 8] }).mul(1 / 255);
  const labels = tensor(Int32Array.from(y as Uint8Array));
  const start = (await train(task({ ...options, epochs: 0 }))).params as Tensors;
  const layer = model();
  const slope = grad((params: Tensors) =>
    losses.softmaxCrossEntropy(layer.apply({ params, state: {} }, images).y, labels),
  );
  const unclipped = await numbers((await train(task(options))).params);
  for (const clip of [{ norm: 0.4 }, { value: 0.03 }, { norm: 0.4, value: 0.1 }]) {
    const { optimizer } = options;
    let params = start;
    let state = optimizer.init(params);
    for (let step = 0; step < 3; step++) {
      let grads = slope(params);
      if (clip.value !== undefined) grads = optim.clipByValue(grads, clip.value);
      if (clip.norm !== undefined) grads = optim.clipByGlobalNorm(grads, clip.norm).grads;
      ({ params, state } = optimizer.update(grads, state, params, { step }));
    }
    const trained = await train(task({ ...options, clip }));
    expectClose(await numbers(trained.params), await numbers(params), 1e-11);
    expect(await numbers(trained.params)).not.toEqual(unclipped);
  }
});

test("a batch in parts gives the step of the whole batch, metrics and short last batches too", async () => {
  const run = async (accumulate: number, where: Partial<TrainOptions> = {}) => {
    const result = await train(task({ data: bars(60).shuffle().batch(16), accumulate, ...where }));
    return { params: await numbers(result.params), history: result.history };
  };
  const whole = await run(1);
  for (const [parts, where] of [
    [4, {}],
    [3, {}],
    [16, {}],
    [4, { mesh: mesh({ data: 2 }) }],
  ] as const) {
    const found = await run(parts, where);
    expectClose(found.params, whole.params, 1e-9);
    for (const [epoch, { loss, metrics }] of found.history.entries()) {
      expect(loss).toBeCloseTo(whole.history[epoch]?.loss as number, 9);
      expect(metrics).toEqual(whole.history[epoch]?.metrics);
    }
  }
});

test("the moving average is PyTorch's, and of the parameters after each step", async () => {
  for (const { ema, averages } of fixture<{ ema: number; averages: number[] }>("schedules").filter((c) => "ema" in c)) {
    let average: Tensors = { w: tensor([0], { dtype: "f64" }) };
    for (const [step, expected] of averages.entries()) {
      const w = tensor([Math.sin(step)], { dtype: "f64" });
      average = nextAverage(ema, average, { w }, tensor(step, { dtype: "i32" }));
      expect(await (average["w"] as Tensor).item()).toBeCloseTo(expected, 12);
    }
  }
  const steps = await Promise.all(
    [1, 2, 3].map(async (epochs) => numbers((await train(task({ data: bars(16).batch(16), epochs }))).params)),
  );
  const expected = (steps[0] as number[]).map((first, index) =>
    [1, 2].reduce((sum, step) => 0.7 * sum + 0.3 * (steps[step]?.[index] as number), first),
  );
  const result = await train(task({ data: bars(16).batch(16), ema: 0.7 }));
  expectClose(await numbers(result.averaged), expected, 1e-12);
  expectClose(await numbers(result.params), steps[2] as number[], 1e-12);
  // What is evaluated and predicts is the average.
  const input = tensor(new Float64Array(64).fill(0.5), { shape: [1, 1, 8, 8] });
  const own = model().apply({ params: result.averaged as Tensors, state: {} }, input).y;
  expectClose(await numbers(await result.predict(input)), await numbers(own), 1e-12);
});

test("a rate that follows the loss falls after the epoch that says so, in a resumed run too", async () => {
  const directory = mkdtempSync(join(tmpdir(), "heddle-plateau-"));
  try {
    const run = async (more: Partial<TrainOptions>) => {
      const rates: number[] = [];
      const learningRate = optim.schedules.plateau({
        learningRate: 0.4,
        monitor: "accuracy",
        mode: "max",
        patience: 0,
        factor: 0.5,
      });
      const callbacks = { onStep: ({ learningRate }: { learningRate: number }) => void rates.push(learningRate) };
      const optimizer = optim.sgd({ learningRate });
      const result = await train(task({ optimizer, callbacks, evaluate: bars(30, { seed: 9 }), epochs: 8, ...more }));
      const accuracies = result.history.map(({ validation }) => validation?.metrics["accuracy"] as number);
      return { rates, accuracies, params: await numbers(result.params) };
    };
    const whole = await run({});
    let best = -Infinity;
    let rate = 0.4;
    const expected = whole.accuracies.map((accuracy) => {
      const used = rate;
      if (accuracy > best * 1.0001 || best === -Infinity) best = accuracy;
      else rate *= 0.5;
      return used;
    });
    expect(whole.rates).toEqual(expected.flatMap((used) => [used, used, used]));
    expect(new Set(whole.rates).size).toBeGreaterThan(2);
    await run({ checkpoint: { directory }, epochs: 5 });
    const resumed = await run({ checkpoint: { directory }, resume: true });
    expect(resumed.rates).toEqual(whole.rates.slice(15));
    expect(resumed.params).toEqual(whole.params);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test("errors", async () => {
  await expect(train(task({ clip: { nrm: 1 } as never }))).rejects.toThrow(/train: clip: unknown option 'nrm'/);
  await expect(train(task({ clip: { norm: 0 } }))).rejects.toThrow(/clip.norm must be finite and above 0/);
  await expect(train(task({ accumulate: 0.5 }))).rejects.toThrow(/accumulate must be at least 1/);
  await expect(train(task({ ema: 2 }))).rejects.toThrow(/ema must be at least 0 and at most 1/);
  const learningRate = optim.schedules.plateau({ learningRate: 0.1, monitor: "f1" });
  await expect(train(task({ optimizer: optim.sgd({ learningRate }) }))).rejects.toThrow(
    /the learning rate follows 'f1', which is not a metric/,
  );
});

test("parts of a batch share one all-reduce, and the memory of one part", () => {
  const planned = (accumulate: number) => {
    const settings = resolveOptions(
      task({
        model: nn.sequential(nn.flatten(), nn.linear(64), nn.tanh(), nn.linear(3)),
        data: bars(512).batch(512),
        accumulate,
      }),
    );
    const { plan, program } = planStep(settings, modelTypes(settings), mesh({ data: 2 }));
    return { traffic: trafficOf(plan), bytes: lowerProgram(program, { slots: 1 }).arenaBytes };
  };
  const [whole, parts] = [planned(1), planned(8)];
  expect(parts.traffic).toEqual(whole.traffic);
  expect(parts.bytes).toBeLessThan(whole.bytes / 2);
});

test("a loss that loops over time is split over devices, too", async () => {
  const [rows, time, features, length] = [12, 6, 5, 2];
  const x = Float64Array.from({ length: rows * time * features }, (_unused, index) => Math.sin(index * index));
  const y = Int32Array.from({ length: rows * length }, (_unused, index) => (index % 7 === 3 ? -1 : 1 + (index % 3)));
  const sequences = data.fromArrays({
    x: { shape: [rows, time, features], data: x },
    y: { shape: [rows, length], data: y },
  });
  const run = async (more: Partial<TrainOptions>) => {
    const result = await train(
      task({
        model: nn.sequential(nn.linear(4), nn.logSoftmax()),
        data: sequences.batch(8),
        loss: losses.ctc,
        optimizer: optim.sgd({ learningRate: 0.5 }),
        metrics: {},
        ...more,
      }),
    );
    return [
      ...(await numbers(result.params)),
      result.history.at(-1)?.loss as number,
      result.history[0]?.loss as number,
    ];
  };
  const one = await run({});
  expect(one.at(-2)).toBeLessThan(one.at(-1) as number);
  expectClose(await run({ mesh: mesh({ data: 2 }) }), one, 1e-9);
  expectClose(await run({ executor: "reference" }), one, 1e-9);
});
