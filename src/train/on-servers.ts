/** @module A training whose parameters and update rule are on parameter servers: this process as a worker of it. */
import { randomBytes } from "node:crypto";
import { type Policy, policyNamed } from "../consistency/index.ts";
import { trainsLocally } from "../consistency/server-policy.ts";
import { localRuntime } from "../executors/runtime.ts";
import { fromShards, isTensor, meshOf, type Tensor, type Tensors } from "../functions/index.ts";
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, isTensorType, type TensorType } from "../ir/shape.ts";
import { reportToLauncher } from "../launcher-messages/launcher.ts";
import { type Bytes, ServerClient } from "../parameter-server/client.ts";
import { pushFilters } from "../parameter-server/filtered-pushes.ts";
import { largestMagnitude } from "../parameter-server/gradients.ts";
import { describeStatistics } from "../parameter-server/report.ts";
import { type ParameterServer, serveParameters } from "../parameter-server/server.ts";
import { bytesOfPieces, type Shard } from "../parameter-server/shards.ts";
import type { Rows } from "../parameter-server/tables/row-lists.ts";
import type { TableSpec } from "../parameter-server/tables/table-spec.ts";
import { replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { concatenated } from "../util/bytes.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions, checkPlace } from "../util/options.ts";
import { readEnvironment } from "../util/settings.ts";
import { shown } from "../util/show.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import type { Tally } from "./history.ts";
import type { ServerTraining, Settings, TrainOptions } from "./options.ts";
import { contents } from "./replay.ts";
import { trainingShards, workerMesh, workerTraining } from "./server-plan.ts";
import { type PackedTables, type RowSource, type ServerTables, servedTables } from "./server-tables.ts";
import type { RunState } from "./state.ts";
import { trainedPart } from "./trainable.ts";
import { type StepDone, summed, type TablesOfUpdates, type Training, tallyText, type Updates } from "./updates.ts";
import { keyType, type TrainState } from "./values.ts";
import { WorkerCopy } from "./worker-copy.ts";
import { WorkerSteps } from "./worker-steps.ts";

/** Whether a training has its parameters on servers: by its options, or by `heddle run --servers`. */
export function isOnServers({ server }: Pick<Settings, "server">): boolean {
  if (server !== undefined) checkServer(server);
  return server !== undefined || readEnvironment().servers !== undefined;
}

function checkServer(server: ServerTraining): void {
  checkOptions("train: server", server, ["policy", "merging", "filters", "replay"]);
  const { policy, merging, filters = [], replay } = server;
  if (!Array.isArray(filters) || !filters.every((spec) => typeof spec === "string"))
    throw new HeddleError("option", `train: server.filters must be a list of specs, got ${shown(filters)}`);
  pushFilters(filters);
  if (replay !== undefined) checkPlace("train", "server.replay", replay, "file");
  if (policy !== undefined) policyNamed(policy);
  if (merging !== undefined && merging !== "sum" && merging !== "mean")
    throw new HeddleError("option", `train: server.merging must be "sum" or "mean", got ${shown(merging)}`);
}

/** Options of `train` that a training on servers does not take, with the reason. */
const refusedOptions: readonly (readonly [option: keyof TrainOptions, reason: string])[] = [
  ["pipeline", "each worker has the whole model"],
  ["mesh", "each worker has the whole model"],
  ["layout", "servers cut parameters by rows"],
  ["compression", "gradients go to servers, not to other workers"],
  ["lossScale", "a step on a server is not rejected"],
  ["ema", "a worker does not see every version of the parameters"],
];

/** The device of this process alone, with its number among the workers. @throws HeddleError `option` for options that do not go with servers */
export function workerRuntime(settings: Settings): Runtime {
  for (const [option, reason] of refusedOptions)
    if (settings[option] !== undefined)
      throw new HeddleError("option", `train: ${option} does not go with parameter servers: ${reason}`);
  if (settings.guard !== undefined || settings.nan === "rollback")
    throw new HeddleError("option", 'train: with parameter servers nan is "error" or "continue"');
  const { rank = 0, world, servers } = readEnvironment();
  if (servers === undefined && world > 1)
    throw new HeddleError("option", `train: the option server needs servers, which the ${world} workers do not have`, {
      hint: "heddle run --servers 2 starts two; --servers 0 puts the parameters on the workers",
    });
  reportToLauncher({ type: "join" });
  const { executor } = settings;
  const runtime = localRuntime({ axes: workerMesh.axes, ...(executor === undefined ? {} : { executor }) });
  return { ...runtime, rank };
}

/** Connects this worker to the servers. */
export async function connectServers(whole: Training, runtime: Runtime): Promise<Updates> {
  const { servers: addresses, world, secret, timeout, serve = false, runDirectory } = readEnvironment();
  const { rank } = runtime;
  const key = secret ?? randomBytes(32).toString("hex");
  const alone = addresses === undefined;
  const own =
    alone || serve
      ? await serveParameters({
          servers: addresses ?? ["127.0.0.1:0"],
          index: alone ? 0 : rank,
          secret: key,
          workers: world,
          timeout,
          folder: runDirectory,
        })
      : undefined;
  const servers = addresses ?? [(own as ParameterServer).address];
  return new ServerUpdates(whole, runtime, { servers, secret: key, timeout, own });
}

interface Place {
  readonly servers: readonly string[];
  readonly secret: string;
  readonly timeout: number | undefined;
  /** The server in this process, if there is one. */
  readonly own: ParameterServer | undefined;
}

/** What the first worker says of the beginning. */
interface Start {
  readonly steps: number;
  readonly epoch: number;
  readonly batch: number;
  readonly orderOffset: number;
  readonly rateScale: number;
  readonly key: readonly number[];
}

class ServerUpdates implements Updates {
  readonly whole: Training;
  readonly own: Training;
  readonly follows: boolean;
  stopped = false;
  missed = 0;
  private readonly runtime: Runtime;
  private readonly place: Place;
  private readonly client: ServerClient;
  private shards: readonly Shard[];
  private readonly policy: Policy;
  /** Under a policy whose workers train copies of their own. */
  private steps: WorkerSteps | undefined;
  private readonly served: ServerTables | undefined;
  private specs: readonly TableSpec[] = [];
  /** The rows of tables after the end. */
  private local: RowSource | undefined;
  /** The last push. */
  private last: { readonly grads: Bytes; readonly rates: readonly number[]; readonly rows: number } | undefined;
  private finished = false;
  private clock = 0;
  private version = 0;

  constructor(whole: Training, runtime: Runtime, place: Place) {
    this.whole = whole;
    this.runtime = runtime;
    this.place = place;
    const { rank } = runtime;
    const { world, policy } = readEnvironment();
    this.follows = rank !== 0;
    const { settings, types } = whole;
    this.policy = policyNamed(settings.server?.policy ?? policy ?? "bsp");
    const smallest = Math.min(...settings.data.batchSizes);
    if (smallest < world)
      throw new HeddleError("data", `train: a batch of ${smallest} rows cannot be shared by ${world} workers`, {
        hint: "leave the last batch out by .batch(size, { dropRemainder: true }), or take fewer workers",
      });
    const own = workerTraining(settings, rank, world);
    const { served, programs } = servedTables(whole, own, runtime);
    if (served !== undefined && trainsLocally(this.policy))
      throw new HeddleError("option", `policy '${this.policy.spec}' does not go with tables on servers`, {
        hint: "a worker has no copy of a table: bsp, ssp:3 and async push each gradient",
      });
    this.served = served;
    this.own = { ...own, programs };
    this.shards = trainingShards(settings, types, place.servers.length, { policy: this.policy });
    this.client = new ServerClient({ ...place, worker: rank, incarnation: Date.now() });
  }

  get lines(): readonly string[] {
    const { servers, own } = this.place;
    const { world } = readEnvironment();
    const bytes = this.shards.map(({ params }) => bytesOfPieces(params));
    const total = bytes.reduce((sum, count) => sum + count, 0);
    const many = servers.length === 1 ? "a server" : `${servers.length} servers`;
    const where =
      own === undefined ? `on ${many}` : servers.length === 1 ? "on a server in this process" : "on the workers";
    return [
      `parameters ${where}, policy ${this.policy.spec}, ${world} ${world === 1 ? "worker" : "workers"}: a clock of a worker pushes and pulls ${megabytes(total)} each`,
    ];
  }

  async begin({ values, key, position }: RunState): Promise<RunState> {
    const { policy } = this;
    const { settings, types } = this.whole;
    this.specs = (await this.served?.specs(this.own)) ?? [];
    this.shards = trainingShards(settings, types, this.place.servers.length, { tables: this.specs, policy });
    const { merging, filters } = settings.server ?? {};
    this.clock = await this.client.open(this.shards, { policy: policy.spec, merging, filters });
    const slots = await contents(values.optimizer);
    const { steps, epoch, batch, orderOffset, rateScale } = position;
    if (!this.follows) {
      const start: Start = { steps, epoch, batch, orderOffset, rateScale, key: [...(await key.data())] };
      const trained = trainedPart(this.whole.types.trained, values.params);
      const packed = await this.served?.packed(values.state);
      if (packed !== undefined) await this.client.loadTables(packed.heads, packed.bytes);
      await this.client.load(await contents(trained), slots, steps, JSON.stringify(start));
    }
    const start = JSON.parse(await this.client.start()) as Start;
    const perEpoch = this.own.settings.data.batchesPerEpoch;
    const begun = await this.client.clock(this.clock, 0);
    this.clock = begun.clock;
    // A worker that comes back goes on after its last clock.
    const own = this.clock * policy.worker.pushEvery;
    const batches = start.epoch * perEpoch + start.batch + own;
    this.version = begun.version;
    this.stopped = begun.stop;
    const optimizer = mapTypes(this.own.types.state.optimizer as Tensors, (type) =>
      this.tensor(type, new Uint8Array(bytesOf(type))),
    );
    const params = await this.pulled(values.params, begun.version);
    if (trainsLocally(policy)) await this.beginLocally(slots, start.steps + own);
    const startKey = this.tensor(keyType, new Uint8Array(Uint32Array.from(start.key).buffer));
    for (const leaf of flattenTree<Tensor>(values.optimizer, isTensor).leaves) leaf.dispose();
    return {
      values: { params, optimizer, state: values.state },
      key: startKey,
      position: {
        ...position,
        steps: start.steps + own,
        epoch: Math.floor(batches / perEpoch),
        batch: batches % perEpoch,
        orderOffset: start.orderOffset,
        rateScale: start.rateScale,
      },
    };
  }

  async step(values: TrainState, { rows, rates, isLast }: StepDone): Promise<TrainState> {
    const grads = await contents(values.optimizer);
    const { filters } = this.client;
    if (isLast) filters?.sendAll();
    if (filters?.needsWeights === true) filters.look(await contents(values.params));
    if (this.steps !== undefined)
      return { ...values, params: this.replaced(values.params, await this.steps.step(grads, rates, rows)) };
    await this.pushed(grads, rates, rows, this.served?.gradients(grads));
    return { ...values, params: await this.pulled(values.params, this.version) };
  }

  /** A copy of the parameters of now, which this worker trains. */
  private async beginLocally(slots: Bytes, steps: number): Promise<void> {
    const { settings, types } = this.whole;
    const copy = new WorkerCopy(trainingShards(settings, types, 1)[0] as Shard, this.runtime);
    copy.load(await this.client.pull(this.version), slots, steps);
    this.steps = new WorkerSteps(this.policy.worker, copy, settings.dtype, {
      push: (grads, rates, rows) => this.pushed(grads, rates, rows),
      pull: () => this.client.pull(this.version),
    });
  }

  /** Pushes gradients, which ends a clock, and waits for the next one. */
  private async pushed(grads: Bytes, rates: readonly number[], rows: number, ofTables: readonly Rows[] = []) {
    this.last = { grads, rates, rows };
    await this.client.push(this.clock, grads, rates, ofTables);
    const next = this.clock + 1;
    const { clock, version, stop } = await this.client.clock(next, rows, this.sizeOf(grads));
    this.missed = clock - next;
    this.clock = clock;
    this.version = version;
    this.stopped ||= stop;
  }

  /** Pushes what the worker or its filters hold back, in a clock of its own if the training ended before its last step was known to be that. */
  private async flush(): Promise<void> {
    const { filters } = this.client;
    filters?.sendAll();
    await this.steps?.flush();
    const { last, served } = this;
    if (filters?.isHolding !== true || last === undefined) return;
    const zeros = new Map([...last.grads].map(([path, { length }]) => [path, new Uint8Array(length)]));
    const noRows = (served === undefined ? undefined : this.specs)?.map(() => ({
      ids: new Int32Array(0),
      values: new Uint8Array(0),
    }));
    await this.pushed(zeros, last.rates, last.rows, noRows);
  }

  /** The largest magnitude of gradients, for policies that bound it. */
  private sizeOf(grads: Bytes): number {
    if (this.policy.sized !== true) return 0;
    const { dtype } = this.whole.settings;
    const types = [...grads.values()].map(({ length }) => ({ dtype, shape: [length / dtypes[dtype].bytes] }));
    return largestMagnitude(types, [...grads.values()]);
  }

  get tables(): TablesOfUpdates | undefined {
    const { served } = this;
    if (served === undefined) return undefined;
    return {
      forStep: (values, batch) => {
        let params: Bytes = new Map();
        const rows: RowSource = async (lists) => {
          const pulled = await this.client.pullRows(this.version, lists);
          ({ params } = pulled);
          return pulled.rows;
        };
        return served
          .forStep(values, batch, rows)
          .then((next) => ({ ...next, params: this.replaced(next.params, params) }));
      },
      forUse: (variables, batch) =>
        served.forUse(variables, batch, this.local ?? ((lists) => this.client.rows(this.version, lists))),
    };
  }

  /** Every clock pushes and pulls. */
  isDue(): boolean {
    return true;
  }

  async saved(state: RunState): Promise<RunState> {
    // After the end the values have the optimizer's state.
    return this.finished ? state : { ...state, values: await this.state(state.values) };
  }

  /** The values with the optimizer's state: the servers', or a worker's own. */
  private async state(values: TrainState): Promise<TrainState> {
    const isOwn = this.policy.worker.carries === "difference";
    const slots = isOwn
      ? await (this.steps as WorkerSteps).copy.slots()
      : (await this.client.snapshot(this.version)).slots;
    const { optimizer } = this.whole.types.state;
    const state = { ...values, optimizer: this.tree(optimizer as Tensors, slots) };
    const { served } = this;
    if (served === undefined) return state;
    return { ...state, ...served.withoutWindows(values, await this.packed()) };
  }

  /** All rows of the tables, from the servers. */
  private async packed(): Promise<PackedTables> {
    const all = await this.client.tables(this.version);
    return {
      heads: all.map(({ heads }) => heads as PackedTables["heads"][number]),
      bytes: concatenated(all.map(({ bytes }) => bytes)),
    };
  }

  async tally(epoch: number, tally: Tally): Promise<Tally> {
    this.client.filters?.passed(tally.examples, epoch + 2 === this.whole.settings.epochs);
    return summed(await this.client.tally(epoch, tallyText(tally)));
  }

  async finish(values: TrainState, stop: boolean): Promise<TrainState> {
    await this.flush();
    await this.client.leave(stop);
    this.version = await this.client.finish();
    const params = await this.pulled(values.params, this.version);
    const last = await this.state({ ...values, params });
    const packed = await this.served?.packed(last.state);
    if (packed !== undefined) this.local = this.served?.local(this.specs, packed);
    this.finished = true;
    return last;
  }

  async report(): Promise<{ readonly lines: readonly string[]; readonly record: object }> {
    const statistics = await this.client.statistics();
    return { lines: describeStatistics(statistics), record: statistics };
  }

  async close(): Promise<void> {
    this.client.close();
    this.steps?.copy.close();
    const { own } = this.place;
    // Other workers may still pull from this one.
    if (this.finished) await own?.idle();
    await own?.close();
  }

  /** All parameters, with those of the servers in a version; the ones before are disposed of. */
  private async pulled(params: Tensors, version: number): Promise<Tensors> {
    const values = await this.client.pull(version);
    const next = this.replaced(params, values);
    this.client.recycle(values);
    return next;
  }

  /** Parameters with those that servers gave; the ones before are disposed of. Windows of tables stay. */
  private replaced(params: Tensors, bytes: Bytes): Tensors {
    const { trained } = this.whole.types;
    const { leaves, paths, shape } = flattenTree<Tensor>(params, isTensor);
    const next = leaves.map((leaf, index) => {
      const path = paths[index] as string;
      const isElsewhere = this.specs.some((table) => table.path === path) || trained?.has(path) === false;
      if (isElsewhere) return leaf;
      const { shape: sizes, dtype } = leaf;
      leaf.dispose();
      return this.tensor({ shape: sizes, dtype }, bytes.get(path) ?? new Uint8Array(bytesOf({ shape: sizes, dtype })));
    });
    return unflattenTree(shape, next) as Tensors;
  }

  /** Tensors with the types of a tree, from their bytes; zeros for states of a tensor without elements, which no server has. */
  private tree(types: Tensors, bytes: Bytes): Tensors {
    const { leaves, paths, shape } = flattenTree<TensorType>(types, isTensorType);
    return unflattenTree(
      shape,
      leaves.map((type, index) =>
        this.tensor(type, bytes.get(paths[index] as string) ?? new Uint8Array(bytesOf(type))),
      ),
    ) as Tensors;
  }

  private tensor({ shape, dtype }: TensorType, bytes: Uint8Array): Tensor {
    const buffer = this.runtime.executor.allocate(bytes.length);
    buffer.write(bytes);
    return fromShards(this.runtime, [buffer], { shape, dtype }, replicated(meshOf(this.runtime)));
  }
}

function mapTypes(types: Tensors, map: (type: TensorType) => Tensor): Tensors {
  const { leaves, shape } = flattenTree<TensorType>(types, isTensorType);
  return unflattenTree(shape, leaves.map(map)) as Tensors;
}

const megabytes = (bytes: number): string =>
  bytes < 1e5 ? `${Math.round(bytes / 100) / 10} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
