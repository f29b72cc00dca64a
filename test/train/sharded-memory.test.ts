/** Fully sharded training: what a device holds falls with the number of devices, and what it gathers. */
import { data, layouts, losses, mesh, nn, optim, type TrainOptions } from "heddle";
import { describe, expect, test } from "vitest";
import { costOfTasks, machineFor, tasksOf } from "../../src/cost/index.ts";
import { modelTypes } from "../../src/train/functions.ts";
import { predictedMemory } from "../../src/train/memory.ts";
import { planStep } from "../../src/train/programs.ts";
import { resolveOptions } from "../../src/train/resolve-options.ts";
import { partOf } from "../support/sample.ts";

const width = 256;
const layers = 12;
/** Bytes of the parameters of a layer. */
const layer = 4 * (width * width + width);

/** A training of equal layers with `rows` rows on each device. */
function training(
  axes: Record<string, number>,
  rows: number,
  layout?: TrainOptions["layout"],
  width = 256,
  precision?: TrainOptions["precision"],
) {
  const all = rows * Object.values(axes).reduce((product, size) => product * size, 1);
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
    ...(precision === undefined ? {} : { precision }),
  };
  const settings = resolveOptions(options);
  return { settings, types: modelTypes(settings), axes: mesh(axes) };
}

type Training = ReturnType<typeof training>;

const known = new Map<string, number>();

/** Bytes of parameters, optimizer state and arena on one device. */
function bytesOn(devices: number, rows: number, layout?: TrainOptions["layout"]): number {
  // To plan takes most of the time here, and rows of a table ask for the same.
  const key = `${devices} ${rows} ${layout !== undefined}`;
  const found = known.get(key);
  if (found !== undefined) return found;
  const { parameters, optimizer, step } = memoryOf(training({ data: devices }, rows, layout));
  known.set(key, parameters + optimizer + step);
  return parameters + optimizer + step;
}

function memoryOf({ settings, types, axes }: Training) {
  const { parameters = 0, optimizer = 0, step = 0 } = predictedMemory(settings, types, axes, 1)[0] ?? {};
  return { parameters, optimizer, step };
}

const sizes: [number, number][] = [
  [2, 16],
  [4, 16],
  [16, 16],
  [4, 256],
  [16, 256],
];
test.each(partOf(sizes, 2))(
  "%i devices of %i rows: a part of the state, three layers, and the activations",
  (devices, rows) => {
    // Parameters, two moments and gradients; the weight in use, the next one, and the gradient that is sent.
    const state = (4 * layers * layer) / devices;
    const activations = 4 * rows * width * layers;
    const sharded = layouts.fullySharded();
    const found = bytesOn(devices, rows, sharded);
    expect(found).toBeLessThan(1.1 * (state + 3 * layer + activations));
    if (devices > 2) expect(found).toBeLessThan(bytesOn(devices / 2, rows, sharded));
    expect(found).toBeLessThan(bytesOn(devices, rows) / 1.5);
  },
);

test.each(partOf([2, 4, 16], 3, 1))(
  "%i devices with sharded state: a part of the state, and the parameters",
  (devices) => {
    const [whole, sharded] = [
      memoryOf(training({ data: devices }, 64)),
      memoryOf(training({ data: devices }, 64, layouts.shardedState())),
    ];
    expect(sharded.parameters).toBe(whole.parameters);
    expect(sharded.optimizer).toBeLessThan((1.01 * whole.optimizer) / devices);
    // Nobody has the sum of a whole gradient.
    expect(sharded.step).toBeLessThan(1.05 * whole.step);
  },
);

test("within hosts: what a device holds follows from the devices of its host alone", () => {
  for (const layout of [layouts.fullySharded(), layouts.shardedState()])
    expect(memoryOf(training({ hosts: 2, data: 4 }, 16, layout))).toEqual(memoryOf(training({ data: 4 }, 16, layout)));
});

test.each(partOf([2, 4, 8], 3))(
  "%i devices and 251 outputs: parts of unequal sizes, four layers, and the activations",
  (devices) => {
    const each = 4 * (251 * 251 + 251);
    const { parameters, optimizer, step } = memoryOf(training({ data: devices }, 16, layouts.fullySharded(), 251));
    // Biases stay whole, in parameters and two moments.
    expect(parameters + optimizer).toBeLessThan((1.05 * 3 * layers * each) / devices + 3 * layers * 4 * 251);
    // A layer that is sent is packed for each receiver.
    expect(step).toBeLessThan(1.1 * ((layers * each) / devices + 4 * each + 4 * 16 * 251 * layers));
  },
);

describe("a decoder", () => {
  const [steps, vocabulary, features] = [16, 256, 64];
  const pair = layouts.named({
    "*.linear1.weight": { model: 0 },
    "*.linear1.bias": { model: 0 },
    "*.linear2.weight": { model: 1 },
  });
  const decoder = (axes: Record<string, number>, layout?: TrainOptions["layout"]): Training => {
    const rows = 4 * (axes["hosts"] ?? 1) * (axes["data"] ?? 1);
    const tokens = { shape: [rows, steps], data: new Int32Array(rows * steps) };
    const settings = resolveOptions({
      model: nn.sequential(
        nn.embedding(vocabulary, features),
        ...[1, 2, 3, 4].map(() => nn.decoderBlock({ heads: 4, dropout: 0 })),
        nn.linear(vocabulary),
      ),
      data: data.fromArrays({ x: tokens, y: tokens }).batch(rows),
      loss: losses.softmaxCrossEntropy,
      optimizer: optim.adamW({ learningRate: 1e-3 }),
      epochs: 1,
      report: "silent",
      ...(layout === undefined ? {} : { layout }),
    });
    return { settings, types: modelTypes(settings), axes: mesh(axes) };
  };
  const alone = memoryOf(decoder({ data: 1 }));
  /** Bytes of the parameters of a block: four products with biases, and two norms. */
  const block = 4 * (12 * features ** 2 + 13 * features);

  const meshes: [Record<string, number>, TrainOptions["layout"] & object, number][] = [
    [{ data: 2 }, layouts.fullySharded(), 2],
    [{ data: 4 }, layouts.fullySharded(), 4],
    [{ hosts: 2, data: 4 }, layouts.fullySharded(), 4],
    [{ data: 2, model: 2 }, [pair, layouts.fullySharded()], 2],
  ];
  test.each(partOf(meshes, 2, 1))(
    "on %j: a part of the state, three blocks, and what one device needs",
    (axes, layout, parts) => {
      const { parameters, optimizer, step } = memoryOf(decoder(axes, layout));
      expect(parameters + optimizer).toBeLessThan((1.02 * (alone.parameters + alone.optimizer)) / parts);
      expect(step).toBeLessThan(1.1 * (alone.step + 3 * block));
    },
  );
});

test("weights are gathered for the way there and the way back, the last layer's once for both", () => {
  const { settings, types, axes } = training({ data: 4 }, 256, layouts.fullySharded());
  const { collectives } = costOfTasks(tasksOf(planStep(settings, types, axes).plan.local), machineFor(4));
  const gathers = collectives.filter(({ name }) => name === "allGather");
  const weights = gathers.filter(({ sent }) => sent > 4 * width);
  // Nobody asks for the gradient by the first layer's input.
  expect(weights.length).toBe(2 * layers - 2);
});

describe("in 16 bits", () => {
  const sharded = layouts.fullySharded();

  test.each(["bf16", "f16"] as const)("%s: weights are gathered in it, half of the bytes", (precision) => {
    const gathers = (...given: Parameters<typeof training>) => {
      const { settings, types, axes } = training(...given);
      const { collectives } = costOfTasks(tasksOf(planStep(settings, types, axes).plan.local), machineFor(4));
      return collectives.filter(({ name }) => name === "allGather").reduce((sum, { sent }) => sum + sent, 0);
    };
    const [low, whole] = [
      gathers({ data: 4 }, 256, sharded, width, precision),
      gathers({ data: 4 }, 256, sharded, width),
    ];
    expect(low).toBe(whole / 2);
  });

  test.each(partOf([2, 4, 16], 3, 2))(
    "%i devices: no gathered weight lives from the way there to the way back",
    (devices) => {
      const { parameters, optimizer, step } = memoryOf(training({ data: devices }, 16, sharded, width, "bf16"));
      const state = (4 * layers * layer) / devices;
      // Activations in 16 bits, and of masks; a few of f32 and 16 bits are there at once.
      expect(parameters + optimizer + step).toBeLessThan(1.1 * (state + 3 * layer + 4 * 16 * width * layers));
    },
  );
});
