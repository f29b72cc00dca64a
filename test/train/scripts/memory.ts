/**
 * Trains a perceptron on the layouts that the first argument names, in a process of its own, and prints what its memory was
 * predicted to be beside what the native core has counted, as one line of JSON.
 */
import { data, layouts, losses, mesh, nn, optim, type TrainOptions, train } from "heddle";
import { loadNative } from "../../../src/executors/native/binding.ts";
import { defaultThreads } from "../../../src/executors/native/threads.ts";
import { deviceCount } from "../../../src/plan/index.ts";
import { deviceBytes } from "../../../src/report/index.ts";
import { modelTypes } from "../../../src/train/functions.ts";
import { predictedMemory } from "../../../src/train/memory.ts";
import { pipelineMesh } from "../../../src/train/pipeline.ts";
import { resolveOptions } from "../../../src/train/resolve-options.ts";

const pipeline = { stages: { 0: 0, 2: 0, 4: 1 }, microBatches: 4 };
export const cases: { readonly [name: string]: Partial<TrainOptions> } = {
  "one device": {},
  "data parallel": { mesh: mesh({ data: 2 }) },
  "tensor parallel": {
    mesh: mesh({ model: 2 }),
    layout: layouts.named({ "0.weight": { model: 0 }, "0.bias": { model: 0 }, "2.weight": { model: 1 } }),
  },
  "fully sharded": { mesh: mesh({ data: 2 }), layout: layouts.fullySharded() },
  pipeline: { pipeline },
  "pipelines times data": { mesh: mesh({ stage: 2, data: 2 }), pipeline },
  "fully sharded pipelines": { mesh: mesh({ stage: 2, data: 2 }), layout: layouts.fullySharded(), pipeline },
  "fully sharded pipelines that gather for each action": {
    mesh: mesh({ stage: 2, data: 2 }),
    layout: layouts.fullySharded(),
    pipeline: { ...pipeline, gatherEach: true },
  },
  "pipelines with sharded state": { mesh: mesh({ stage: 2, data: 2 }), layout: layouts.shardedState(), pipeline },
};

const numbers = (count: number): Float32Array =>
  Float32Array.from({ length: count }, (_unused, index) => Math.sin(index));
const dataset = (rows: number): data.Dataset =>
  data.fromArrays({
    x: { shape: [rows, 40], data: numbers(rows * 40) },
    y: { shape: [rows], data: Int32Array.from({ length: rows }, (_unused, row) => row % 8) },
  });

const options: TrainOptions = {
  model: nn.sequential(nn.linear(256), nn.relu(), nn.linear(256), nn.relu(), nn.linear(8)),
  data: dataset(1000).batch(128),
  evaluate: dataset(300).batch(128),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 1e-3 }),
  epochs: 2,
  executor: "native",
  report: "silent",
  ...cases[process.argv[2] as string],
};

const binding = loadNative();
if ("error" in binding) throw new Error(binding.error);
const settings = resolveOptions(options);
const axes = options.mesh ?? (options.pipeline === undefined ? mesh({ data: 1 }) : pipelineMesh(options.pipeline, 1));
const memories = predictedMemory(settings, modelTypes(settings), axes, defaultThreads(1));
await train(options);
// The devices of this process: all, or the one of its rank. Ranks of a pipeline hold different stages.
const each = deviceCount(axes) / memories.length;
const all = memories.flatMap((memory) => Array.from({ length: each }, () => memory));
const rank = process.env["RANK"];
const devices = rank === undefined ? all : all.slice(Number(rank), Number(rank) + 1);
const predicted = devices.reduce((total, memory) => total + deviceBytes(memory), memories[0]?.dataset ?? 0);
console.log(JSON.stringify({ memories, predicted, measured: binding.memory().peakBytes }));
