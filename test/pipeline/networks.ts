/** Training steps as a user writes them, and the runs that pipelines are compared with. */

import { localRuntime } from "../../src/executors/runtime.ts";
import {
  type CompiledFunction,
  compileFunction,
  compilePipeline,
  isTensor,
  jit,
  random,
  type Tensor,
  type Tensors,
  tensor,
  valueAndGrad,
} from "../../src/functions/index.ts";
import { softmaxCrossEntropy } from "../../src/losses/index.ts";
import { conv2d, dropout, flatten, linear, maxPool2d, relu, sequential, tanh } from "../../src/nn/index.ts";
import type { Layer } from "../../src/nn/layer.ts";
import { adam, type Optimizer, sgd } from "../../src/optim/index.ts";
import { mesh as makeMesh } from "../../src/plan/index.ts";
import type { Runtime } from "../../src/runtime/devices.ts";
import { flattenTree } from "../../src/util/tree.ts";

export type Precision = "f32" | "f64";

export const rows = 16;
const classes = 4;

/** A network, the shape of one example, and the stage of each layer that has parameters. */
export interface Network {
  readonly layer: Layer;
  readonly example: readonly number[];
  readonly stages: { readonly [layer: string]: number };
}

export const perceptron = (...extra: Layer[]): Network => ({
  layer: sequential(linear(12), relu(), ...extra, linear(10), relu(), linear(classes)),
  example: [6],
  stages: extra.length === 0 ? { 0: 0, 2: 0, 4: 1 } : { 0: 0, 3: 1, 5: 1 },
});

/** Four linear layers, each a stage; two of the stages are on each of two ranks. */
export const deep = (): Network => ({
  layer: sequential(
    linear(12),
    relu(),
    linear(10),
    tanh(),
    dropout(0.3),
    linear(8, { bias: false }),
    relu(),
    linear(classes),
  ),
  example: [6],
  stages: { 0: 0, 2: 1, 5: 2, 7: 3 },
});

/** Two convolutions, cut between them. */
export const convolutional = (): Network => ({
  layer: sequential(
    conv2d({ out: 4, kernel: 3, padding: "same" }),
    relu(),
    maxPool2d(2),
    conv2d({ out: 6, kernel: 3, padding: "same" }),
    relu(),
    maxPool2d(2),
    flatten(),
    linear(classes),
  ),
  example: [1, 8, 8],
  stages: { 0: 0, 3: 1, 7: 1 },
});

export const withDropout = (): Network => perceptron(dropout(0.5));

export const optimizers = (): { readonly [name: string]: Optimizer } => ({
  momentum: sgd({ learningRate: 0.1, momentum: 0.9 }),
  adam: adam({ learningRate: 0.01 }),
});

export interface State {
  readonly params: Tensors;
  readonly slots: Tensors;
}

/** The user's step: nothing in it knows of stages. */
export function stepOf({ layer }: Network, optimizer: Optimizer) {
  return function trainStep(params: Tensors, slots: Tensors, key: Tensor, step: Tensor, x: Tensor, y: Tensor) {
    const loss = (variables: Tensors): Tensor => {
      const applied = layer.apply({ params: variables, state: {} }, x, { train: true, key: random.foldIn(key, step) });
      return softmaxCrossEntropy(applied.y, y);
    };
    const { value, grad } = valueAndGrad(loss)(params);
    const updated = optimizer.update(grad, slots, params, {
      step,
      learningRate: tensor(0.1, { dtype: x.dtype as "f32" }),
    });
    return { params: updated.params, slots: updated.state, loss: value, grad };
  };
}

export const argumentNames = ["params", "slots", "key", "step", "x", "y"];

/** A start that is the same on every runtime. */
export function start({ layer, example }: Network, optimizer: Optimizer, dtype: Precision): State {
  const init = jit((key: Tensor) => {
    const { params } = layer.init(key, { shape: [rows, ...example], dtype });
    return { params, slots: optimizer.init(params) };
  });
  return init(random.key(3)) as State;
}

export function batch(step: number, { example }: Network, dtype: Precision): { x: Tensor; y: Tensor } {
  const size = example.reduce((product, length) => product * length, rows);
  const values = Float64Array.from({ length: size }, (_unused, index) => Math.sin(7 * step + 1.3 * index));
  const labels = Int32Array.from({ length: rows }, (_unused, row) => (row * 5 + step) % classes);
  return {
    x: tensor(values, { shape: [rows, ...example], dtype }),
    y: tensor(labels, { shape: [rows], dtype: "i32" }),
  };
}

export const stagesOf =
  ({ stages }: Network) =>
  (path: string): number | undefined => {
    const match = /^params\.(\d+)\./.exec(path);
    return match === null ? undefined : stages[match[1] as string];
  };

function example(network: Network, optimizer: Optimizer, dtype: Precision): unknown[] {
  const { params, slots } = start(network, optimizer, dtype);
  const { x, y } = batch(0, network, dtype);
  return [params, slots, random.key(3), tensor(0, { dtype: "i32" }), x, y];
}

export type Step = ReturnType<typeof stepOf>;

export interface PipelineChoice {
  readonly schedule: string;
  readonly microBatches?: number;
  readonly mesh?: { readonly [axis: string]: number };
  readonly executor?: "reference" | "native";
}

export function compiled(
  network: Network,
  optimizer: Optimizer,
  dtype: Precision,
  { schedule, microBatches = 4, mesh = { stage: 2 }, executor = "reference" }: PipelineChoice,
): { runtime: Runtime; pipeline: CompiledFunction<Step> } {
  const axes = makeMesh(mesh).axes;
  const runtime = localRuntime({ axes, executor, threads: 1 });
  const layout = axes.map(({ name }) =>
    name === "data" ? { kind: "shard" as const, dim: 0 } : { kind: "replicate" as const },
  );
  const whole = axes.map(() => ({ kind: "replicate" as const }));
  const isBatch = (path: string): boolean => path === "x" || path === "y";
  const pipeline = compilePipeline(stepOf(network, optimizer), example(network, optimizer, dtype), runtime, {
    argumentNames,
    microBatches,
    schedule,
    stages: stagesOf(network),
    batch: isBatch,
    layouts: (path) => (isBatch(path) ? layout : whole),
    outputLayouts: () => whole,
    donate: [0, 1],
  });
  return { runtime, pipeline };
}

/** What a training comes to: losses, first gradients and last parameters, all as plain numbers. */
export interface Trained {
  readonly losses: number[];
  readonly gradients: { readonly [path: string]: ArrayLike<number> };
  readonly params: { readonly [path: string]: ArrayLike<number> };
}

async function numbers(tree: unknown): Promise<{ [path: string]: ArrayLike<number> }> {
  const { leaves, paths } = flattenTree(tree, isTensor);
  return Object.fromEntries(
    await Promise.all(leaves.map(async (leaf, index) => [paths[index], await leaf.data()] as const)),
  );
}

export async function train(
  run: (...inputs: Parameters<Step>) => ReturnType<Step>,
  network: Network,
  optimizer: Optimizer,
  dtype: Precision,
  steps: number,
  onTo: (x: Tensor, isBatch: boolean) => Tensor | Promise<Tensor> = (x) => x,
): Promise<Trained> {
  let { params, slots } = start(network, optimizer, dtype);
  const losses: number[] = [];
  let gradients: Trained["gradients"] = {};
  for (let step = 0; step < steps; step++) {
    const { x, y } = batch(step, network, dtype);
    const count = await onTo(tensor(step, { dtype: "i32" }), false);
    const key = await onTo(random.key(3), false);
    const made = run(params, slots, key, count, await onTo(x, true), await onTo(y, true));
    if (step === 0) gradients = await numbers(made.grad);
    losses.push(await made.loss.item());
    params = made.params;
    slots = made.slots;
  }
  return { losses, gradients, params: await numbers(params) };
}

/** The step on one device, whole. */
export function single(network: Network, optimizer: Optimizer, dtype: Precision, executor: "reference" | "native") {
  const runtime = localRuntime({ executor, threads: 1 });
  const step = compileFunction(stepOf(network, optimizer), example(network, optimizer, dtype), runtime, {
    argumentNames,
  });
  return { runtime, step };
}
