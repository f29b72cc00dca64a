/** Steps that are rejected: on all devices, before anything is written. */
import { data, layouts, losses, mesh, nn, optim, replicate, type StepRecord, type TrainOptions, train } from "heddle";
import { describe, expect, test } from "vitest";
import { isTensor, type Tensor } from "../../src/functions/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { missing } from "../native/evaluate.ts";
import { partOf } from "../support/sample.ts";
import { bars, options } from "./synthetic.ts";

const rows = 8;

/**
 * Batches of eight rows each, in order; in the second one the first row, which only the first of two devices has, has a
 * value that no finite gradient comes of.
 */
function spiked(spike: number, batches = 2): data.Dataset {
  const x = Float32Array.from({ length: batches * rows * 4 }, (_unused, index) => Math.sin(index));
  const y = Float32Array.from({ length: batches * rows * 2 }, (_unused, index) => 100 * Math.cos(index));
  if (batches > 1) x[rows * 4] = spike;
  return data
    .fromArrays({ x: { shape: [batches * rows, 4], data: x }, y: { shape: [batches * rows, 2], data: y } })
    .batch(rows);
}

const task = (more: Partial<TrainOptions>): TrainOptions =>
  options({
    model: nn.sequential(nn.linear(8), nn.tanh(), nn.linear(2)),
    loss: losses.mse,
    optimizer: optim.adam({ learningRate: 0.01 }),
    metrics: {},
    epochs: 2,
    ...more,
  });

async function trained(more: Partial<TrainOptions>) {
  const steps: StepRecord[] = [];
  const result = await train(task({ ...more, callbacks: { onStep: (record) => void steps.push(record) } }));
  const read = async (tree: unknown): Promise<number[][]> =>
    Promise.all(
      flattenTree(tree, isTensor).leaves.map(async (leaf: Tensor) => Array.from(await replicate(leaf).data())),
    );
  return { steps, result, params: await read(result.params), optimizer: await read(result.optimizerState) };
}

const meshes: readonly [string, Partial<TrainOptions>][] = [
  ["one device", {}],
  ["data parallel", { mesh: mesh({ data: 2 }) }],
  ["fully sharded", { mesh: mesh({ data: 2 }), layout: layouts.fullySharded() }],
  [
    "tensor parallel",
    {
      mesh: mesh({ model: 2 }),
      layout: layouts.named({ "0.weight": { model: 0 }, "0.bias": { model: 0 }, "2.weight": { model: 1 } }),
    },
  ],
];

const executors = ["reference", ...(missing === undefined ? (["native"] as const) : [])] as const;
describe.each(executors.map((executor, at) => [executor, at] as const))("%s executor", (executor, at) => {
  // Each mesh by one of the executors.
  test.each(partOf(meshes, 2, at))(
    "%s: a step that overflows on one device changes nothing on any",
    async (_what, where) => {
      // The step before, alone: what the rejected one must leave, its count of steps included.
      const alone = await trained({ executor, ...where, data: spiked(0, 1), nan: "skip", epochs: 1 });
      const both = await trained({ executor, ...where, data: spiked(Infinity), nan: "skip", epochs: 1 });
      expect(both.steps.map(({ rejected }) => rejected)).toEqual([false, true]);
      expect(both.params).toEqual(alone.params);
      expect(both.optimizer).toEqual(alone.optimizer);
      expect(both.result.history[0]).toMatchObject({ rejected: 1, loss: both.steps[0]?.loss });
      // And the ones after it go on.
      const more = await trained({ executor, ...where, data: spiked(Infinity), nan: "skip", epochs: 3 });
      expect(more.steps.map(({ rejected }) => rejected)).toEqual([false, true, false, true, false, true]);
      expect(more.params.flat().every(Number.isFinite)).toBe(true);
      expect(more.steps[4]?.loss).toBeLessThan(more.steps[0]?.loss as number);
    },
  );

  test.each(partOf(meshes, 2, at + 1))(
    "%s: a loss scale that is too high comes down by itself, and up again",
    async (_what, where) => {
      const lossScale = { initial: 2 ** 127, interval: 4 };
      const { steps, result } = await trained({ executor, ...where, data: spiked(0), epochs: 12, lossScale });
      const rejected = steps.map((step) => step.rejected);
      expect(rejected[0]).toBe(true);
      const first = rejected.indexOf(false);
      expect(first).toBeGreaterThan(0);
      // Four good steps, then twice the scale, which overflows or not by the gradients of that moment.
      expect(rejected.slice(first, first + 4)).toEqual([false, false, false, false]);
      expect(steps.every(({ loss }) => Number.isFinite(loss))).toBe(true);
      const taken = rejected.filter((one) => !one).length;
      const guard = (result.optimizerState as { guard: { applied: Tensor } }).guard;
      expect(await guard.applied.item()).toBe(taken);
      expect(result.history.reduce((sum, record) => sum + record.rejected, 0)).toBe(steps.length - taken);
    },
  );
});

test("a power of two as loss scale changes no bit", async () => {
  const plain = await trained({
    data: bars(32).batch(16),
    model: nn.sequential(nn.flatten(), nn.linear(3)),
    loss: losses.softmaxCrossEntropy,
  });
  const scaled = await trained({
    data: bars(32).batch(16),
    model: nn.sequential(nn.flatten(), nn.linear(3)),
    loss: losses.softmaxCrossEntropy,
    lossScale: { initial: 1024 },
  });
  expect(scaled.params).toEqual(plain.params);
});

test.each<[string, Partial<TrainOptions>, RegExp]>([
  ["a growth below one", { lossScale: { growth: 0.5 } }, /lossScale.growth must be at least 1/],
  ["a misspelt option", { lossScale: { initail: 4 } as object }, /unknown option 'initail'/],
  ["a number", { lossScale: 1024 as unknown as boolean }, /lossScale must be true or options, got 1024/],
  ["a policy that is none", { nan: "ignore" as "skip" }, /nan must be error or continue or skip/],
])("%s is refused", async (_what, more, message) => {
  await expect(train(task({ data: spiked(0), ...more }))).rejects.toThrow(message);
});
