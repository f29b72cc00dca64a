/**
 * @module Repeats a training on servers from the log of its updates, in one process: the same gradients at the same versions of the
 * parameters, in the same steps, so the same bits on processors of one instruction set.
 */
import { readFileSync } from "node:fs";
import { distribute, fromShards, isTensor, meshOf, type Tensor, type Tensors } from "../functions/index.ts";
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, isTensorType, type TensorType } from "../ir/shape.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import {
  type Bytes,
  parseUpdateLog,
  type Shard,
  ShardState,
  shardsOf,
  splitState,
  stateOf,
  type UpdateLog,
} from "../parameter-server/index.ts";
import { replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { Feed } from "./feed.ts";
import { columnNames, modelTypes } from "./functions.ts";
import { Programs } from "./programs.ts";
import type { RunState } from "./state.ts";
import { trainedPart, wholeTree } from "./trainable.ts";
import { gradientsOnly, type Training } from "./updates.ts";
import type { TrainState } from "./values.ts";

/** Reads a log. @throws HeddleError `file` or `log` */
export function readUpdateLog(path: string): UpdateLog {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new HeddleError("file", `train: server.replay: ${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
  return parseUpdateLog(text);
}

/**
 * The values at the end of a training, with the optimizer's state.
 *
 * @param first the state in which the training began
 * @throws HeddleError `log` if the log does not fit the training
 */
export async function replayed(
  log: UpdateLog,
  whole: Training,
  runtime: Runtime,
  first: RunState,
): Promise<TrainState> {
  return new Replay(log, whole, runtime, first).run();
}

/** What one worker has between its clocks. */
interface Worker {
  readonly own: Training;
  state: Tensors;
}

class Replay {
  private readonly log: UpdateLog;
  private readonly whole: Training;
  private readonly runtime: Runtime;
  private readonly first: RunState;
  private readonly feed: Feed;
  private readonly shard: ShardState;
  private readonly pieces: Shard;
  private readonly workers: Worker[];

  constructor(log: UpdateLog, whole: Training, runtime: Runtime, first: RunState) {
    this.log = log;
    this.whole = whole;
    this.runtime = runtime;
    this.first = first;
    this.feed = new Feed(runtime);
    const { settings, types } = whole;
    const trained = flattenTree<TensorType>(types.state.params, isTensorType);
    const parts = trained.leaves.map((type, index) =>
      types.trained?.has(trained.paths[index] as string) === false ? {} : type,
    );
    const params = unflattenTree(trained.shape, parts) as Tensors;
    const slots = types.state.optimizer as Tensors;
    const [pieces] = shardsOf(settings.optimizer, { params, slots, dtype: settings.dtype }, 1);
    this.pieces = pieces as Shard;
    this.shard = new ShardState(JSON.stringify(pieces), runtime);
    this.workers = Array.from({ length: log.workers }, (_unused, rank) => {
      const data = settings.data.share(rank, log.workers);
      const own = { ...settings, data, optimizer: gradientsOnly(settings.optimizer) };
      const ownTypes = modelTypes(own);
      return {
        own: { settings: own, types: ownTypes, programs: new Programs(own, ownTypes, runtime) },
        state: first.values.state,
      };
    });
  }

  async run(): Promise<TrainState> {
    const { log, shard, pieces } = this;
    const { params, optimizer } = this.first.values;
    const trained = trainedPart(this.whole.types.trained, params);
    shard.load(stateOf(pieces, await contents(trained), await contents(optimizer)), this.first.position.steps);
    const used = new Set(
      log.entries.flatMap((entry) =>
        entry.type === "step" ? entry.parts.map(({ worker, clock }) => `${worker} ${clock}`) : [],
      ),
    );
    for (let version = 0; version <= log.entries.length; version++) {
      const begun = log.begins.filter(
        (begin) => begin.version === version && used.has(`${begin.worker} ${begin.clock}`),
      );
      // A worker's own clocks come in their order.
      for (const { worker, clock } of begun.sort((a, b) => a.worker - b.worker || a.clock - b.clock))
        await this.compute(worker, clock, await shard.pull(version));
      const entry = log.entries[version];
      if (entry !== undefined) await shard.apply(version, [entry]);
    }
    const { bytes } = await shard.snapshot(log.entries.length, false);
    const values = splitState(pieces, bytes);
    return {
      params: wholeTree(this.whole.types.trained, params, this.tree(trained, values.params)),
      optimizer: this.tree(this.whole.types.state.optimizer as Tensors, values.slots),
      state: this.workers[0]?.state ?? this.first.values.state,
    };
  }

  /** Keeps the push of a worker's clock. */
  private async compute(worker: number, clock: number, pulled: Uint8Array): Promise<void> {
    const { own, state } = this.workers[worker] as Worker;
    const { settings, types, programs } = own;
    const { position, key, values } = this.first;
    const perEpoch = settings.data.batchesPerEpoch;
    const batchNumber = position.epoch * perEpoch + position.batch + clock;
    const steps = position.steps + clock;
    const batches = this.feed.batches(settings.data, {
      columns: columnNames(settings, settings.data),
      epoch: Math.floor(batchNumber / perEpoch) + position.orderOffset,
      step: batchNumber % perEpoch,
      seed: settings.seed,
    });
    const { value: batch } = await batches.next();
    if (batch === undefined) throw new HeddleError("log", `the log has clock ${clock}, for which there is no batch`);
    const trained = trainedPart(types.trained, values.params);
    const params = wholeTree(types.trained, values.params, this.tree(trained, splitState(this.pieces, pulled).params));
    const rates = learningRatesAt(settings.optimizer, steps);
    const scalar = (dtype: "i32" | "f32" | "f64", numbers: readonly number[], shape: readonly number[]): Tensor =>
      distribute(
        this.runtime,
        dtypes[dtype].create(numbers as number[]),
        { shape, dtype },
        replicated(meshOf(this.runtime)),
      );
    const outcome = programs.step(batch.rows).run({
      params: this.copy(params, await contents(params)),
      optimizer: this.zeros(types.state.optimizer as Tensors),
      state: this.copy(state, await contents(state)),
      key,
      step: scalar("i32", [steps], []),
      learningRate: scalar(settings.dtype, rates.values, rates.shape),
      batch: batch.columns,
      end: {},
    });
    const grads = await contents(outcome.optimizer);
    batch.release();
    await batches.return();
    (this.workers[worker] as Worker).state = outcome.state;
    const push = { type: "push", shard: 0, client: worker, incarnation: 1, clock, rates: rates.values } as const;
    this.shard.push(push, stateOf({ ...this.pieces, slots: [] }, grads, new Map()));
  }

  private zeros(types: Tensors): Tensors {
    const { leaves, paths } = flattenTree<TensorType>(types, isTensorType);
    return this.tree(
      types,
      new Map(paths.map((path, index) => [path, new Uint8Array(bytesOf(leaves[index] as TensorType))])),
    );
  }

  /** A copy, which a step may write over. */
  private copy(tree: Tensors, bytes: Bytes): Tensors {
    const { leaves, paths, shape } = flattenTree<Tensor>(tree, isTensor);
    return unflattenTree(
      shape,
      leaves.map((leaf, index) => this.tensor(leaf, bytes.get(paths[index] as string) as Uint8Array)),
    ) as Tensors;
  }

  private tree(types: Tensors, bytes: Bytes): Tensors {
    const { leaves, paths, shape } = flattenTree<TensorType>(types, isTensorType);
    return unflattenTree(
      shape,
      leaves.map((type, index) => this.tensor(type, bytes.get(paths[index] as string) ?? new Uint8Array(0))),
    ) as Tensors;
  }

  private tensor({ shape, dtype }: TensorType, bytes: Uint8Array): Tensor {
    const buffer = this.runtime.executor.allocate(bytes.length);
    buffer.write(bytes);
    return fromShards(this.runtime, [buffer], { shape, dtype }, replicated(meshOf(this.runtime)));
  }
}

/** The bytes of the tensors of a tree, by path. */
export async function contents(tree: Tensors): Promise<Bytes> {
  const { leaves, paths } = flattenTree<Tensor>(tree, isTensor);
  const read = leaves.map(({ value }) => (value.shards[0] as { read(): Promise<Uint8Array> }).read());
  const bytes = await Promise.all(read);
  return new Map(
    paths.map((path, index) => [path, (bytes[index] as Uint8Array).subarray(0, bytesOf(leaves[index] as Tensor))]),
  );
}
