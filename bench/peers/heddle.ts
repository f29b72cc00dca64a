/** @module The peer that is Heddle itself. Started by `heddle run`, in one process or two. */
import { readFileSync } from "node:fs";
import { connect, distribute, losses, nn, optim, random, type Tensor, tensor, valueAndGrad } from "heddle";
import { type Layout, replicated, shard } from "heddle/plan";
import { compileFunction } from "heddle/tensor";
import type { EagerOperation, EagerSizes, ParameterShape, Sgd, TrainingSizes } from "../workloads.ts";
import { type Peer, readSpec, type Spec, serve } from "./link.ts";

type Tree = Parameters<ReturnType<typeof optim.sgd>["init"]>[0];
type Runtime = Awaited<ReturnType<typeof connect>>;
type Optimizer = ReturnType<typeof optim.sgd>;

/** Steps queued at a time, as in `train()`. */
const inFlight = 2;

function model(sizes: TrainingSizes, dropout: boolean): nn.Layer {
  if (sizes.kind === "embedding") return nn.sequential(nn.embedding(sizes.rows, sizes.features));
  if (sizes.kind === "mlp") {
    const layers = sizes.widths.slice(1).map((width) => nn.linear(width));
    return nn.sequential(...layers.flatMap((layer, index) => (index === 0 ? [layer] : [nn.relu(), layer])));
  }
  const { channels, kernel, hidden, classes } = sizes;
  return nn.sequential(
    ...channels.flatMap((out) => [nn.conv2d({ out, kernel, padding: "same" }), nn.relu(), nn.maxPool2d(2)]),
    nn.flatten(),
    nn.linear(hidden),
    nn.relu(),
    nn.dropout(dropout ? sizes.dropout : 0),
    nn.linear(classes),
  );
}

/** The data file, cut into tensors on the runtime. `labels` are the ids of an embedding. */
function readTensors(spec: Spec, runtime: Runtime, split: Layout, whole: Layout) {
  const bytes = readFileSync(spec.data);
  let offset = 0;
  const take = (shape: readonly number[]): [ArrayBufferLike, offset: number, length: number] => {
    const length = shape.reduce((product, size) => product * size, 1);
    offset += 4 * length;
    return [bytes.buffer, bytes.byteOffset + offset - 4 * length, length];
  };
  const floats = ([, shape]: ParameterShape, layout: Layout): Tensor =>
    distribute(runtime, new Float32Array(...take(shape)), { shape, dtype: "f32" }, layout);
  const params: Record<string, Record<string, Tensor>> = {};
  for (const parameter of spec.parameters) {
    const [layer, name] = parameter[0].split(".") as [string, string];
    params[layer] = { ...params[layer], [name]: floats(parameter, whole) };
  }
  const inputs = spec.inputs.map((input) => floats(input, split));
  const rows = (bytes.length - offset) / 4;
  const labels = distribute(runtime, new Int32Array(...take([rows])), { shape: [rows], dtype: "i32" }, split);
  return { params: params as Tree, inputs, labels };
}

/** Runs `count` launches with a few queued; the time of each is measured from the end of the previous one. */
async function timed(count: number, launch: () => () => Promise<number>) {
  const milliseconds: number[] = [];
  const values: number[] = [];
  const waiting: (() => Promise<number>)[] = [];
  let lastTime = performance.now();
  const settle = async (): Promise<void> => {
    values.push(await (waiting.shift() as () => Promise<number>)());
    const now = performance.now();
    milliseconds.push(now - lastTime);
    lastTime = now;
  };
  for (let step = 0; step < count; step++) {
    if (waiting.length >= inFlight) await settle();
    waiting.push(launch());
  }
  while (waiting.length > 0) await settle();
  return { milliseconds, losses: [values[0] as number, values.at(-1) as number] };
}

type Batch = { readonly x: Tensor; readonly labels: Tensor };
type Values = [params: Tree, slots: Tree, key: Tensor, count: Tensor, batch: Batch];

/** The arguments of the first step. */
function initialValues(spec: Spec, runtime: Runtime, optimizer: Optimizer, split: Layout, whole: Layout): Values {
  const { params, inputs, labels } = readTensors(spec, runtime, split, whole);
  const init = compileFunction((tree: Tree) => optimizer.init(tree), [params], runtime, { outputLayouts: () => whole });
  const key = distribute(runtime, new Uint32Array([1, 2]), { shape: [2], dtype: "u32" }, whole);
  const count = distribute(runtime, new Int32Array([0]), { shape: [], dtype: "i32" }, whole);
  return [params, init.run(params), key, count, { x: inputs[0] as Tensor, labels }];
}

function stepOf(spec: Spec, optimizer: Optimizer, dropout: boolean) {
  const sizes = spec.sizes as TrainingSizes;
  const layers = model(sizes, dropout);
  const looksUp = sizes.kind === "embedding";
  return (params: Tree, slots: Tree, key: Tensor, count: Tensor, { x, labels }: Batch) => {
    const loss = (variables: Tree): Tensor => {
      const options = { train: true, key: random.foldIn(key, count) };
      const { y } = layers.apply({ params: variables, state: {} }, looksUp ? labels : x, options);
      return looksUp ? losses.mse(y, x) : losses.softmaxCrossEntropy(y, labels);
    };
    const { value, grad } = valueAndGrad(loss)(params);
    return { ...optimizer.update(grad, slots, params, { step: count }), count: count.add(1), loss: value };
  };
}

/** A training from the initial weights: launches a step, and returns a function that waits for its loss. */
function startTraining(spec: Spec, runtime: Runtime, dropout: boolean): () => () => Promise<number> {
  const optimizer = optim.sgd(spec.sgd as Sgd);
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
    ({ state: slots, count } = results);
    return async () => {
      const loss = await results.loss.item();
      results.loss.dispose();
      used.dispose();
      return loss;
    };
  };
}

function training(spec: Spec, runtime: Runtime): Peer {
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
      return timed(count, launch);
    },
  };
}

function chain(spec: Spec, runtime: Runtime): Peer {
  const whole = replicated({ axes: runtime.axes });
  const { inputs } = readTensors(spec, runtime, whole, whole);
  const y = (a: Tensor, b: Tensor, c: Tensor): Tensor =>
    a.mul(b).add(c).sigmoid().mul(a.tanh()).sub(b.mul(0.5)).pow(2).add(1).sqrt();
  const compiled = compileFunction(y, inputs, runtime, { name: "chain" });
  const { executable } = compiled.compiled;
  const shards = runtime.local.map((_device, device) => inputs.map((input) => input.value.shards[device]!));
  return {
    versions: {},
    async check() {
      const values = await compiled.run(...(inputs as [Tensor, Tensor, Tensor])).data();
      let sum = 0;
      for (const value of values) sum += Number(value);
      return [sum / values.length];
    },
    steps: (count) =>
      timed(count, () => {
        // Waits for the run itself: reading the result would copy all of it.
        const { outputs, done } = executable.run(shards);
        return async () => {
          await done;
          for (const list of outputs) for (const output of list) output.dispose();
          return 0;
        };
      }),
  };
}

/** A step of a linear regression of x by itself, from weights y. */
function regression(x: Tensor, weights: Tensor, count: number): Tensor {
  const [rows, columns] = x.shape as [number, number];
  let w = weights;
  let b = weights.slice([0, 0], [1, columns]).reshape([columns]);
  for (let step = 0; step < count; step++) {
    const error = x.matmul(w).add(b).sub(x);
    w = w.sub(
      x
        .transpose()
        .matmul(error)
        .mul(2 / rows)
        .mul(0.01),
    );
    b = b.sub(
      error
        .sum(0)
        .mul(2 / rows)
        .mul(0.01),
    );
  }
  return w.add(b);
}

const repeated =
  (operation: (x: Tensor, y: Tensor) => Tensor) =>
  (x: Tensor, y: Tensor, count: number): Tensor => {
    let result = operation(x, y);
    const isChained = String(result.shape) === String(x.shape);
    for (let done = 1; done < count; done++) result = operation(isChained ? result : x, y);
    return result;
  };

const eagerOperations: Readonly<Record<EagerOperation, (x: Tensor, y: Tensor, count: number) => Tensor>> = {
  add: repeated((x, y) => x.add(y)),
  scale: repeated((x) => x.mul(0.5)),
  sum: repeated((x) => x.sum()),
  matmul: repeated((x, y) => x.matmul(y)),
  softmax: repeated((x) => x.softmax()),
  slice: repeated((x) => x.slice([2, 0], [4, x.shape[1] as number])),
  step: regression,
  xty: repeated((x, y) => x.transpose().matmul(y)),
};

function eager(spec: Spec, runtime: Runtime): Peer {
  const whole = replicated({ axes: runtime.axes });
  // Eager tensors on the device of this process, as in users' programs.
  const inputs = readTensors(spec, runtime, whole, whole).inputs.map((x) => tensor(x.dataSync(), { shape: x.shape }));
  const [x, y] = inputs as [Tensor, Tensor];
  const { operation, count } = spec.sizes as EagerSizes;
  const run = eagerOperations[operation];
  return {
    versions: {},
    async check() {
      return Array.from(await run(x, y, 3).data());
    },
    steps: (steps) =>
      timed(steps, () => {
        const results = run(x, y, count);
        return async () => (await results.data())[0] as number;
      }),
  };
}

const peers = { chain, eager };
const spec = readSpec();
const runtime = await connect();
const { kind } = spec.sizes;
const peer = (kind === "chain" || kind === "eager" ? peers[kind] : training)(spec, runtime);
await serve(spec, { ...peer, versions: { node: process.version, executor: runtime.executor.name } });
process.exit(0);
