/** @module Heddle's peer for trainings: one compiled step with donated state, in one process or in several. */
import { distribute, optim, random, type Tensor, valueAndGrad } from "heddle";
import { type Layout, replicated, shard } from "heddle/plan";
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

/** The arguments of the first step. */
function initialValues(spec: Spec, runtime: Runtime, optimizer: Optimizer, split: Layout, whole: Layout): Values {
  const placed = (layout: Layout) => (values: Float32Array | Int32Array, shape: readonly number[]) =>
    distribute(runtime, values, { shape, dtype: values instanceof Float32Array ? "f32" : "i32" }, layout);
  const { params, inputs, integers } = readTensors(spec, placed(whole), placed(split));
  const { state } = lossOf(spec.sizes as TrainingSizes, false);
  const initial = (tree: Tree) => ({ optimizer: optimizer.init(tree), network: state() });
  const init = compileFunction(initial, [params], runtime, { outputLayouts: () => whole });
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

/** A training from the initial weights: launches a step, and returns a function that waits for its loss. */
function startTraining(spec: Spec, runtime: Runtime, dropout: boolean): () => () => Promise<number> {
  const optimizer = optimizerOf(spec.optimizer as OptimizerSettings);
  const whole = replicated({ axes: runtime.axes });
  const split = runtime.axes.map(() => shard(0));
  let [params, slots, key, count, batch] = initialValues(spec, runtime, optimizer, split, whole);
  const compiled = compileFunction(stepOf(spec, optimizer, dropout), [params, slots, key, count, batch], runtime, {
    name: "benchStep",
    layouts: (path) => (path.startsWith("4.") ? split : whole),
    outputLayouts: () => whole,
    donate: [0, 1],
  });
  return () => {
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
}

export function training(spec: Spec, runtime: Runtime): Peer {
  let launch: ReturnType<typeof startTraining> | undefined;
  return {
    versions: {},
    async check() {
      const next = startTraining(spec, runtime, false);
      const losses: number[] = [];
      for (let step = 0; step < 3; step++) losses.push(await next()());
      return losses;
    },
    steps(count) {
      launch ??= startTraining(spec, runtime, true);
      return timed(count, 2, launch);
    },
  };
}
