/**
 * @module A parameter server: one device keeps the parameters and their update rule, workers pull parameters and push
 * gradients, and a consistency policy decides which workers may continue. Events are logged in order; the same log replayed
 * gives the same bits.
 */

import { Consistency, type Grant, staleSynchronous } from "../consistency/index.ts";
import { compileFunction, distribute, isTensor, meshOf, type Tensor, type Tensors } from "../functions/index.ts";
import type { TypedArray } from "../ir/dtype.ts";
import { typeOf } from "../ir/shape.ts";
import type { Optimizer } from "../optim/index.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree, type TreeShape, unflattenTree } from "../util/tree.ts";
import { ServerDevice } from "./device.ts";

/** One event, in the order in which the server took it. */
export interface Applied {
  readonly kind: "pull" | "push";
  readonly worker: number;
  /** The clock of the worker, counted from 0. */
  readonly clock: number;
  /** The number of updates applied before the event. */
  readonly version: number;
}

/** The model, its data and the devices of a training. */
export interface ParameterServerOptions<Batch extends Tensors> {
  /** First values, on any one device. */
  readonly params: Tensors;
  readonly optimizer: Optimizer;
  /** The loss and the gradients of a batch. Pure. */
  readonly gradient: (params: Tensors, batch: Batch) => { readonly loss: Tensor; readonly grads: Tensors };
  /** The batch of a worker's clock, a function of the two alone; all of the same shapes. */
  readonly batch: (worker: number, clock: number) => Batch;
  /** The device that serves. */
  readonly server: Runtime;
  /** One device per worker. */
  readonly workers: readonly Runtime[];
  /** Clocks of each worker. */
  readonly clocks: number;
  /** Clocks that a worker may be ahead of the slowest; default 1. 0: bulk-synchronous; Infinity: asynchronous. */
  readonly staleness?: number;
}

/** The result of a training. */
export interface ParameterServerResult {
  readonly params: Tensors;
  readonly log: readonly Applied[];
  /** The loss of each push, in the order of the log. */
  readonly losses: readonly number[];
}

/** Trains until each worker has run its clocks. Workers run at their own pace, within the bounds of the policy. */
export async function trainOnServer<Batch extends Tensors>(
  options: ParameterServerOptions<Batch>,
): Promise<ParameterServerResult> {
  const { workers, clocks, staleness = 1 } = options;
  const server = new Server(options);
  if (!(staleness === Infinity || (Number.isInteger(staleness) && staleness >= 0))) {
    throw new HeddleError("option", `staleness must be a whole number of clocks or Infinity, got ${staleness}`);
  }
  const policy = new Consistency(staleSynchronous(staleness), { workers: workers.length });
  const waiting = new Map<number, (pulled: Snapshot) => void>();
  const grant = (grants: readonly Grant[]): void => {
    for (const { worker, clock } of grants) waiting.get(worker)?.(server.pull(worker, clock));
  };
  const work = async (worker: number): Promise<void> => {
    for (let clock = 0; clock < clocks; clock++) {
      const pulled = await new Promise<Snapshot>((resolve) => {
        waiting.set(worker, resolve);
        grant(policy.pull(worker));
      });
      const gradient = await server.compute(worker, clock, await pulled);
      server.push(worker, clock, gradient);
      grant(policy.push(worker));
    }
    grant(policy.leave(worker));
  };
  await Promise.all(workers.map((_runtime, worker) => work(worker)));
  return server.result();
}

/**
 * Repeats a run from its log, one event after another: the same parameters to the bit, on executors of the same
 * instruction set.
 *
 * @throws HeddleError `log` when the log does not fit the options.
 */
export async function replayOnServer<Batch extends Tensors>(
  options: ParameterServerOptions<Batch>,
  log: readonly Applied[],
): Promise<ParameterServerResult> {
  const server = new Server(options);
  const pulled = new Map<number, { readonly clock: number; readonly values: Host }>();
  for (const { kind, worker, clock, version } of log) {
    if (server.version !== version || worker >= options.workers.length) {
      throw new HeddleError("log", `the log has version ${version} where the server is at ${server.version}`);
    }
    if (kind === "pull") {
      pulled.set(worker, { clock, values: await server.pull(worker, clock) });
      continue;
    }
    const last = pulled.get(worker);
    if (last?.clock !== clock) throw new HeddleError("log", `worker ${worker} pushes clock ${clock} without a pull`);
    server.push(worker, clock, await server.compute(worker, clock, last.values));
  }
  return server.result();
}

/** A snapshot of the parameters, copied on the server and read to the host. */
type Snapshot = Promise<Host>;
type Host = readonly TypedArray[];
interface Gradient {
  readonly loss: number;
  readonly grads: Host;
}

interface State {
  readonly params: Tensors;
  readonly slots: Tensors;
}

/** The serving device, the programs of the workers, and the log. */
class Server<Batch extends Tensors> {
  version = 0;
  private readonly options: ParameterServerOptions<Batch>;
  private readonly device: ServerDevice<State>;
  private readonly types: readonly Tensor[];
  private readonly shape: TreeShape;
  private readonly gradients: readonly ((params: Tensors, batch: Batch) => { loss: Tensor; grads: Tensors })[];
  private readonly log: Applied[] = [];
  private readonly losses: number[] = [];

  constructor(options: ParameterServerOptions<Batch>) {
    this.options = options;
    const { params, optimizer, server, workers, gradient, batch } = options;
    const { leaves, shape } = flattenTree(params, isTensor);
    this.types = leaves;
    this.shape = shape;
    const onServer = (tree: Tensors): Tensors => moved(tree, server, (leaf) => leaf.dataSync());
    const state = { params: onServer(params), slots: onServer(optimizer.init(params)) };
    const types = unflattenTree(shape, leaves.map(typeOf)) as Tensors;
    this.device = new ServerDevice<State>(server, "parameters", state, {
      pull: { inputs: [], run: (state) => ({ reply: state.params }) },
      push: {
        inputs: [types, { shape: [], dtype: "i32" }, { shape: learningRatesAt(optimizer, 0).shape, dtype: "f32" }],
        run: ({ params: current, slots }, grads: Tensors, step: Tensor, learningRate: Tensor) => {
          const updated = optimizer.update(grads, slots, current, { step, learningRate });
          return { state: { params: updated.params, slots: updated.state } };
        },
      },
    });
    const example = flattenTree(batch(0, 0), isTensor);
    const batchTypes = unflattenTree(example.shape, example.leaves.map(typeOf));
    this.gradients = workers.map(
      (runtime) => compileFunction(gradient, [types, batchTypes], runtime, { name: "gradient" }).run,
    );
  }

  /** The parameters as they are between two updates. */
  pull(worker: number, clock: number): Snapshot {
    this.log.push({ kind: "pull", worker, clock, version: this.version });
    const copies = flattenTree(this.device.ask("pull"), isTensor).leaves as Tensor[];
    return Promise.all(copies.map((leaf) => leaf.data()));
  }

  /** A worker's gradient at parameters that it has pulled. */
  async compute(worker: number, clock: number, values: Host): Promise<Gradient> {
    const runtime = this.options.workers[worker] as Runtime;
    const params = this.tree(runtime, values);
    const batch = moved(this.options.batch(worker, clock), runtime, (leaf) => leaf.dataSync()) as Batch;
    const { loss, grads } = (this.gradients[worker] as (typeof this.gradients)[number])(params, batch);
    const leaves = flattenTree(grads, isTensor).leaves as Tensor[];
    return { loss: await loss.item(), grads: await Promise.all(leaves.map((leaf) => leaf.data())) };
  }

  /** Applies a gradient. */
  push(worker: number, clock: number, { loss, grads }: Gradient): void {
    const { server, optimizer } = this.options;
    const step = this.version;
    this.log.push({ kind: "push", worker, clock, version: step });
    this.losses.push(loss);
    const layout = replicated(meshOf(server));
    const { shape, values } = learningRatesAt(optimizer, step);
    this.device.ask(
      "push",
      this.tree(server, grads),
      distribute(server, Int32Array.of(step), { shape: [], dtype: "i32" }, layout),
      distribute(server, Float32Array.from(values), { shape, dtype: "f32" }, layout),
    );
    this.version++;
  }

  async result(): Promise<ParameterServerResult> {
    return { params: this.device.ask("pull") as Tensors, log: this.log, losses: this.losses };
  }

  private tree(runtime: Runtime, values: Host): Tensors {
    const layout = replicated(meshOf(runtime));
    const leaves = values.map((data, index) => distribute(runtime, data, typeOf(this.types[index] as Tensor), layout));
    return unflattenTree(this.shape, leaves) as Tensors;
  }
}

function moved(tree: Tensors, runtime: Runtime, read: (leaf: Tensor) => TypedArray): Tensors {
  const { leaves, shape } = flattenTree(tree, isTensor);
  const layout = replicated(meshOf(runtime));
  return unflattenTree(
    shape,
    (leaves as Tensor[]).map((leaf) => distribute(runtime, read(leaf), typeOf(leaf), layout)),
  ) as Tensors;
}
