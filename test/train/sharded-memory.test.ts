/** Fully sharded training: what a device holds falls with the number of devices, and what it gathers. */
import { data, layouts, losses, mesh, nn, optim, type TrainOptions } from "heddle";
import { expect, test } from "vitest";
import { costOfTasks, machineFor, tasksOf } from "../../src/cost/index.ts";
import { modelTypes } from "../../src/train/functions.ts";
import { predictedMemory } from "../../src/train/memory.ts";
import { resolveOptions } from "../../src/train/options.ts";
import { planStep } from "../../src/train/programs.ts";

const width = 256;
const layers = 12;
/** Bytes of the parameters of a layer. */
const layer = 4 * (width * width + width);

/** A training of equal layers with `rows` rows on each device. */
function training(devices: number, rows: number, layout?: TrainOptions["layout"]) {
  const all = rows * devices;
  const options: TrainOptions = {
    model: nn.sequential(...Array.from({ length: layers }, () => [nn.linear(width), nn.relu()]).flat()),
    data: data
      .fromArrays({
        x: { shape: [all, width], data: new Float32Array(all * width) },
        y: { shape: [all], data: new Int32Array(all) },
      })
      .batch(all),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.adam({ learningRate: 1e-3 }),
    epochs: 1,
    report: "silent",
    ...(layout === undefined ? {} : { layout }),
  };
  const settings = resolveOptions(options);
  return { settings, types: modelTypes(settings), axes: mesh({ data: devices }) };
}

/** Bytes of parameters, optimizer state and arena on one device. */
function bytesOn(devices: number, rows: number, layout?: TrainOptions["layout"]): number {
  const { parameters, optimizer, step } = memoryOn(devices, rows, layout);
  return parameters + optimizer + step;
}

function memoryOn(devices: number, rows: number, layout?: TrainOptions["layout"]) {
  const { settings, types, axes } = training(devices, rows, layout);
  const { parameters = 0, optimizer = 0, step = 0 } = predictedMemory(settings, types, axes, 1)[0] ?? {};
  return { parameters, optimizer, step };
}

test.each([
  [2, 16],
  [4, 16],
  [16, 16],
  [4, 256],
  [16, 256],
])("%i devices of %i rows: a part of the state, three layers, and the activations", (devices, rows) => {
  // Parameters, two moments and gradients; the weight in use, the next one, and the gradient that is sent.
  const state = (4 * layers * layer) / devices;
  const activations = 4 * rows * width * layers;
  const sharded = layouts.fullySharded();
  const found = bytesOn(devices, rows, sharded);
  expect(found).toBeLessThan(1.1 * (state + 3 * layer + activations));
  if (devices > 2) expect(found).toBeLessThan(bytesOn(devices / 2, rows, sharded));
  expect(found).toBeLessThan(bytesOn(devices, rows) / 1.5);
});

test.each([2, 4, 16])("%i devices with sharded state: a part of the state, and the parameters", (devices) => {
  const [whole, sharded] = [memoryOn(devices, 64), memoryOn(devices, 64, layouts.shardedState())];
  expect(sharded.parameters).toBe(whole.parameters);
  expect(sharded.optimizer).toBeLessThan((1.01 * whole.optimizer) / devices);
  // Nobody has the sum of a whole gradient.
  expect(sharded.step).toBeLessThan(1.05 * whole.step);
});

test("weights are gathered for the way there and the way back, the last layer's once for both", () => {
  const { settings, types, axes } = training(4, 256, layouts.fullySharded());
  const { collectives } = costOfTasks(tasksOf(planStep(settings, types, axes).plan.local), machineFor(4));
  const gathers = collectives.filter(({ name }) => name === "allGather");
  const weights = gathers.filter(({ sent }) => sent > 4 * width);
  // Nobody asks for the gradient by the first layer's input.
  expect(weights.length).toBe(2 * layers - 2);
});
