/** @module Heddle's peer for trainings: one compiled step with donated state, in one process or in several. */
import { distribute, layouts, optim, random, Tensor, valueAndGrad } from "heddle";
import { type Layout, replicated, shard, shardedOn } from "heddle/plan";
import { compileFunction } from "heddle/tensor";
import type { TrainingSizes } from "../kinds/index.ts";
import type { OptimizerSettings } from "../workloads.ts";
import { type Runtime, readTensors, type Tree, timed } from "./heddle-data.ts";
import { type Batch, lossOf } from "./heddle-networks.ts";
import type { Peer, Spec } from "./link.ts";

type Optimizer = ReturnType<typeof optim.sgd>;
/** What a step takes from the one before, beside parameters. */
type Slots = { readonly optimizer: Tree; readonly network: Tree };
type Values = [params: Tree, slots: Slots, key: Tensor, count: Tensor, batch: Batch];

function optimizerOf({ kind, ...options }: OptimizerSettings): Optimizer {
  return optim[kind](options as { learningRate: number });
}

/** The layout in which a value of a step is stored, by its path, such as `1.optimizer.momentumBuffer.0.weight`. */
type Stored = (path: string) => Layout;

/** Parameters and the optimizer's tensors of their shapes are divided if the workload says so; all else is whole. */
function storedLayouts({ sharded, parameters }: Spec, { axes }: Runtime): Stored {
  const rule = layouts.fullySharded();
  return (path) => {
    const found = parameters.find(([name]) => path === name || path.endsWith(`.${name}`));
    if (!sharded || found === undefined || path.includes("network.")) return replicated({ axes });
    return shardedOn({ axes }, rule({ name: found[0], shape: found[1], dtype: "f32" }, { axes })?.shard ?? {});
  };
}

/** The arguments of the first step. */
function initialValues(spec: Spec, runtime: Runtime, optimizer: Optimizer, split: Layout, stored: Stored): Values {
  const placed = (layoutOf: Stored) => (values: Float32Array | Int32Array, shape: readonly number[], name: string) =>
    distribute(runtime, values, { shape, dtype: values instanceof Float32Array ? "f32" : "i32" }, layoutOf(name));
  const whole = replicated({ axes: runtime.axes });
  const { params, inputs, integers } = readTensors(
    spec,
    placed(stored),
    placed(() => split),
    runtime.axes.every(({ size }) => size === 1) ? runtime : undefined,
  );
  const { state } = lossOf(spec.sizes as TrainingSizes, false);
  const initial = (tree: Tree) => ({ optimizer: optimizer.init(tree), network: state() });
  const init = compileFunction(initial, [params], runtime, { layouts: stored, outputLayouts: stored });
  const key = distribute(runtime, new Uint32Array([1, 2]), { shape: [2], dtype: "u32" }, whole);
  const count = distribute(runtime, new Int32Array([0]), { shape: [], dtype: "i32" }, whole);
  return [params, init.run(params) as Slots, key, count, { inputs, integers }];
}

function stepOf(spec: Spec, optimizer: Optimizer, dropout: boolean) {
  const { loss } = lossOf(spec.sizes as TrainingSizes, dropout, spec.precision ?? undefined);
  return (params: Tree, slots: Slots, key: Tensor, count: Tensor, batch: Batch) => {
    const lossOfStep = (variables: Tree) => loss(variables, slots.network, batch, random.foldIn(key, count));
    const { value, grad } = valueAndGrad(lossOfStep)(params);
    const [lossValue, network] = value as [Tensor, Tree];
    const updated = optimizer.update(grad, slots.optimizer, params, { step: count });
    const state: Slots = { optimizer: updated.state as Tree, network };
    return { params: updated.params, state, count: count.add(1), loss: lossValue };
  };
}

/** A training: launches a step, and returns a function that waits for its loss. */
interface Started {
  readonly launch: () => () => Promise<number>;
  /** Frees what the training holds. */
  readonly end: () => void;
}

function disposeAll(tree: Tensor | Tree): void {
  if (tree instanceof Tensor) tree.dispose();
  else for (const part of Object.values(tree)) disposeAll(part);
}

/** A training from the initial weights. */
function startTraining(spec: Spec, runtime: Runtime, dropout: boolean): Started {
  const optimizer = optimizerOf(spec.optimizer as OptimizerSettings);
  const whole = replicated({ axes: runtime.axes });
  const stored = storedLayouts(spec, runtime);
  const split = runtime.axes.map(() => shard(0));
  let [params, slots, key, count, batch] = initialValues(spec, runtime, optimizer, split, stored);
  const compiled = compileFunction(stepOf(spec, optimizer, dropout), [params, slots, key, count, batch], runtime, {
    name: "benchStep",
    layouts: (path) => (path.startsWith("4.") ? split : stored(path)),
    uses: (path) => (path.startsWith("0.") ? whole : undefined),
    outputLayouts: stored,
    donate: [0, 1],
  });
  const end = (): void => {
    for (const held of [params, slots.optimizer, slots.network, key, count, ...batch.inputs, ...batch.integers])
      disposeAll(held);
  };
  const launch = (): (() => Promise<number>) => {
    const results = compiled.run(params, slots, key, count, batch);
    const used = count;
    params = results.params as Tree;
    ({ state: slots, count } = results as { state: Slots; count: Tensor });
    return async () => {
      const loss = await results.loss.item();
      results.loss.dispose();
      used.dispose();
      return loss;
    };
  };
  return { launch, end };
}

export function training(spec: Spec, runtime: Runtime): Peer {
  let started: Started | undefined;
  return {
    versions: {},
    async check() {
      const { launch, end } = startTraining(spec, runtime, false);
      const losses: number[] = [];
      for (let step = 0; step < 3; step++) losses.push(await launch()());
      end();
      return losses;
    },
    steps(count) {
      started ??= startTraining(spec, runtime, true);
      return timed(count, 2, started.launch);
    },
  };
}
