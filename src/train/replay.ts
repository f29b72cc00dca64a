/**
 * @module Repeats a training on servers from the log of its updates, in one process: the same gradients at the same versions of the
 * parameters, in the same steps, so the same bits on processors of one instruction set.
 */
import { readFileSync } from "node:fs";
import { policyNamed } from "../consistency/index.ts";
import { trainsLocally } from "../consistency/server-policy.ts";
import { distribute, fromShards, isTensor, meshOf, type Tensor, type Tensors } from "../functions/index.ts";
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, isTensorType, type TensorType } from "../ir/shape.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { type Bytes, joinedParams, joinedState, stateOf } from "../parameter-server/client.ts";
import { ShardState } from "../parameter-server/shard-state.ts";
import type { Shard } from "../parameter-server/shards.ts";
import { ownerOf } from "../parameter-server/tables/ring.ts";
import { type RowList, split } from "../parameter-server/tables/row-lists.ts";
import { rowsFromServers, rowsOfServer } from "../parameter-server/tables/row-parts.ts";
import { type Begin, parseUpdateLog, type UpdateLog } from "../parameter-server/update-log.ts";
import { replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { concatenated } from "../util/bytes.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { Feed } from "./feed.ts";
import { columnNames } from "./functions.ts";
import { trainingShards, workerTraining } from "./server-plan.ts";
import { type ServerTables, servedTables } from "./server-tables.ts";
import type { RunState } from "./state.ts";
import type { LookedBatch } from "./tables.ts";
import { trainedPart, wholeTree } from "./trainable.ts";
import type { Training } from "./updates.ts";
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
  readonly served: ServerTables | undefined;
  state: Tensors;
}

/** What a worker has pulled for a clock, of each shard; with tables the rows that the clock's batch looks up. */
interface Pulled extends Begin {
  readonly last: number;
  readonly bodies: (readonly Uint8Array[])[];
  lists?: readonly RowList[];
}

class Replay {
  private readonly log: UpdateLog;
  private readonly whole: Training;
  private readonly runtime: Runtime;
  private readonly first: RunState;
  private readonly feed: Feed;
  private shards: readonly ShardState[] = [];
  private pieces: readonly Shard[] = [];
  private readonly workers: Worker[];

  constructor(log: UpdateLog, whole: Training, runtime: Runtime, first: RunState) {
    if (trainsLocally(policyNamed(log.policy)) || log.filters > 0)
      throw new HeddleError(
        "log",
        `train: server.replay: a log under ${log.filters > 0 ? "filters" : `policy '${log.policy}'`} does not have all that its pushes were computed from`,
      );
    this.log = log;
    this.whole = whole;
    this.runtime = runtime;
    this.first = first;
    this.feed = new Feed(runtime);
    this.workers = Array.from({ length: log.workers }, (_unused, rank) => {
      const own = workerTraining(whole.settings, rank, log.workers);
      const { served, programs } = servedTables(whole, own, runtime);
      return { own: { ...own, programs }, served, state: first.values.state };
    });
  }

  /** Makes the shards as they were at the beginning. */
  private async begin(): Promise<void> {
    const { log, whole, workers, runtime } = this;
    const each = await Promise.all(workers.map(({ served, own }) => served?.specs(own)));
    this.pieces = trainingShards(whole.settings, whole.types, log.servers, { tables: each[0] });
    this.shards = this.pieces.map((pieces) => new ShardState(JSON.stringify(pieces), runtime));
    const packed = await workers[0]?.served?.packed(this.first.values.state);
    if (packed === undefined) return;
    for (const shard of this.shards) shard.loadRows(JSON.stringify(packed.heads), packed.bytes);
  }

  async run(): Promise<TrainState> {
    await this.begin();
    const { log, shards, pieces } = this;
    const { params, optimizer } = this.first.values;
    const { trained: names, state } = this.whole.types;
    const trained = trainedPart(names, params);
    const [ofParams, ofSlots] = [await contents(trained), await contents(optimizer)];
    for (const [index, shard] of shards.entries())
      shard.load(stateOf(pieces[index] as Shard, ofParams, ofSlots), this.first.position.steps);
    const named = log.entries.flatMap((entry) => (entry.type === "step" ? entry.parts : []));
    const used = new Set(named.map(({ worker, clock }) => `${worker} ${clock}`));
    // A worker's own clocks come in their order.
    const begins = log.begins
      .filter(({ worker, clock }) => used.has(`${worker} ${clock}`))
      .sort((a, b) => a.worker - b.worker || a.clock - b.clock)
      .map((begin): Pulled => ({ ...begin, last: Math.max(...begin.versions), bodies: [] }));
    const pulls = groupedBy(
      begins.flatMap((begin) => begin.versions.map((version, shard) => ({ begin, version, shard }))),
      ({ version }) => version,
    );
    const due = groupedBy(begins, ({ last }) => last);
    for (let version = 0; version <= log.entries.length; version++) {
      for (const { begin, shard } of pulls.get(version) ?? []) await this.pull(begin, shard, version);
      for (const begin of due.get(version) ?? []) await this.compute(begin);
      const entry = log.entries[version];
      if (entry !== undefined) await Promise.all(shards.map((shard) => shard.apply(version, [entry])));
    }
    const ends = await Promise.all(shards.map((shard) => shard.snapshot(log.entries.length, false)));
    const values = joinedState(
      pieces,
      ends.map(({ bytes }) => bytes),
    );
    const last = {
      params: wholeTree(names, params, this.tree(trained, values.params)),
      optimizer: this.tree(state.optimizer as Tensors, values.slots),
      state: this.workers[0]?.state ?? this.first.values.state,
    };
    const { served } = this.workers[0] ?? {};
    if (served === undefined) return last;
    const tables = await Promise.all(shards.map((shard) => shard.tableSnapshot(log.entries.length)));
    const packed = { heads: tables.map(({ heads }) => heads), bytes: concatenated(tables.map(({ bytes }) => bytes)) };
    return { ...last, ...served.withoutWindows(last, packed) };
  }

  /** What a worker pulls from a shard for a clock. */
  private async pull(begin: Pulled, shard: number, version: number): Promise<void> {
    const { served } = this.workers[begin.worker] as Worker;
    if (served !== undefined && begin.lists === undefined) {
      const batch = await this.batch(begin);
      begin.lists = await served.listsOf(this.first.values, batch.looked);
      await batch.release();
    }
    const { length: servers } = this.shards;
    const parts = (begin.lists ?? []).map((list) => split(list, ownerOf(servers), servers).lists[shard] as RowList);
    begin.bodies[shard] = (await (this.shards[shard] as ShardState).pull(version, parts)).parts;
  }

  /** The batch of a clock. */
  private async batch({ worker, clock }: Begin) {
    const { settings } = (this.workers[worker] as Worker).own;
    const { position } = this.first;
    const perEpoch = settings.data.batchesPerEpoch;
    const number = position.epoch * perEpoch + position.batch + clock;
    const batches = this.feed.batches(settings.data, {
      columns: columnNames(settings, settings.data),
      epoch: Math.floor(number / perEpoch) + position.orderOffset,
      step: number % perEpoch,
      seed: settings.seed,
    });
    const { value: batch } = await batches.next();
    if (batch === undefined) throw new HeddleError("log", `the log has clock ${clock}, for which there is no batch`);
    const release = async (): Promise<void> => {
      batch.release();
      await batches.return();
    };
    return { batch, looked: { ...batch, dataset: settings.data.ofLength(batch.length) }, release };
  }

  /** The values of a worker's step, from what it has pulled. */
  private async valuesOf({ worker, bodies, lists = [] }: Pulled, looked: LookedBatch): Promise<TrainState> {
    const { own, served, state } = this.workers[worker] as Worker;
    const { values } = this.first;
    const pulled = joinedParams(
      this.pieces,
      bodies.map(([dense]) => dense as Uint8Array),
    );
    const trained = trainedPart(this.whole.types.trained, values.params);
    const params = wholeTree(this.whole.types.trained, values.params, this.tree(trained, pulled));
    const whole = {
      params: this.copy(params, await contents(params)),
      optimizer: this.zeros(own.types.state.optimizer as Tensors),
      state: this.copy(state, await contents(state)),
    };
    if (served === undefined) return whole;
    const { length: servers } = this.shards;
    const parts = lists.map((list) => split(list, ownerOf(servers), servers));
    const after = bodies.map(([, ...rows]) => concatenated(rows));
    const rows = rowsFromServers(this.pieces[0]?.tables ?? [], parts, lists, after);
    return served.forStep(whole, looked, async () => rows);
  }

  /** Keeps the push of a worker's clock. */
  private async compute(begin: Pulled): Promise<void> {
    const { worker, clock } = begin;
    const { own, served } = this.workers[worker] as Worker;
    const { settings, programs } = own;
    const { position, key } = this.first;
    const { batch, looked, release } = await this.batch(begin);
    const steps = position.steps + clock;
    const rates = learningRatesAt(settings.optimizer, steps);
    const scalar = (dtype: "i32" | "f32" | "f64", numbers: readonly number[], shape: readonly number[]): Tensor =>
      distribute(
        this.runtime,
        dtypes[dtype].create(numbers as number[]),
        { shape, dtype },
        replicated(meshOf(this.runtime)),
      );
    const outcome = programs.step(batch).run({
      ...(await this.valuesOf(begin, looked)),
      key,
      step: scalar("i32", [steps], []),
      learningRate: scalar(settings.dtype, rates.values, rates.shape),
      batch: batch.columns,
      end: {},
    });
    const grads = await contents(outcome.optimizer);
    await release();
    (this.workers[worker] as Worker).state = outcome.state;
    const rows = served?.gradients(grads) ?? [];
    const { length: servers } = this.shards;
    const parts = rows.map(({ ids }) => split(ids, ownerOf(servers), servers));
    for (const [index, shard] of this.shards.entries()) {
      const push = { type: "push", shard: index, client: worker, incarnation: 1, clock, rates: rates.values } as const;
      const { params, tables } = this.pieces[index] as Shard;
      const dense = stateOf({ params, slots: [] }, grads, new Map());
      const lists = parts.map((part) => part.lists[index] as RowList);
      shard.push(push, concatenated([dense, ...rowsOfServer(tables, parts, rows, index)]), lists);
    }
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

/** Values by a number of theirs. */
function groupedBy<Value>(values: readonly Value[], of: (value: Value) => number): Map<number, Value[]> {
  const groups = new Map<number, Value[]>();
  for (const value of values) {
    const group = groups.get(of(value));
    if (group === undefined) groups.set(of(value), [value]);
    else group.push(value);
  }
  return groups;
}

/** The bytes of the tensors of a tree, by path. */
export async function contents(tree: Tensors): Promise<Bytes> {
  const { leaves, paths } = flattenTree<Tensor>(tree, isTensor);
  const read = leaves.map(({ value }) => (value.shards[0] as { read(): Promise<Uint8Array> }).read());
  const bytes = await Promise.all(read);
  return new Map(paths.map((path, index) => [path, bytes[index] as Uint8Array]));
}
