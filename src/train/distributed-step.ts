/**
 * @module A hand-written training loop on every worker: the user's step is compiled by the planner that `train` uses, with batches
 * sharded by rows, and the state in its layouts, updated in place.
 */
import type { Compressor } from "../compression/compressor.ts";
import type { CompressionOptions } from "../compression/options.ts";
import type { Machine } from "../cost/index.ts";
import {
  type BatchesOptions,
  type Column,
  columnDType,
  type Dataset,
  Dataset as DatasetClass,
} from "../data/browser.ts";
import {
  type CompiledFunction,
  compileFunction,
  connect,
  distribute,
  isTensor,
  meshOf,
  placeOn,
  random,
  redistribute,
  type Tensor,
  type Tensors,
} from "../functions/index.ts";
import { dtypes } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import { scopeKey } from "../nn/index.ts";
import { learningRateAt, type Schedule } from "../optim/index.ts";
import { type Layout, type Mesh, printPlan, replicated, sameLayout } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { called } from "../util/source.ts";
import { listed } from "../util/text.ts";
import { type FlatTree, flattenTree, isRecord, treeKey, unflattenTree } from "../util/tree.ts";
import { datasetLines } from "./agree.ts";
import { transformed } from "./columns.ts";
import { batchLayout, Feed } from "./feed.ts";
import { batchTypes } from "./functions.ts";
import { host } from "./host.ts";
import { placedBy } from "./layouts.ts";
import { noFiles } from "./no-files.ts";
import { OwnCompression } from "./own-compression.ts";
import type { LayoutRule } from "./rules.ts";
import { wholeData } from "./state.ts";

/** Columns of a batch. */
export type StepBatch<Name extends string> = { readonly [Column in Name]: Tensor };

/** The third argument of a step: its number, its random key, and the option `numbers`. */
export type StepGiven<Number extends string> = {
  /** Number of earlier steps: an i32 scalar, 0 for the first step. */
  readonly step: Tensor;
  /** A random key (u32[2]) for this step alone. */
  readonly key: Tensor;
  /**
   * The sum over the devices of gradients of `state.params`, compressed on their way, with the option `compression`; without the option the gradients
   * as they are. A step calls it once, before it clips gradients and updates.
   */
  readonly exchange: <Grads>(grads: Grads) => Grads;
} & { readonly [Name in Number]: Tensor };

/** Options of {@link distributedStep}. */
export interface DistributedStepOptions<
  State extends Tensors,
  Told extends { readonly state: State },
  Name extends string,
  Number extends string,
> {
  /** The initial values, the same on every worker: a tree of parameters, optimizer states, layer states. They are copied. */
  readonly state: State;
  /**
   * One step: from state, batch and {@link StepGiven} to `{ state, … }`, with a state of the same structure; `run` returns the rest.
   * The function is traced, as by `jit`; means over the batch are over the whole batch.
   */
  readonly step: (state: State, batch: StepBatch<Name>, given: StepGiven<Number>) => Told;
  /**
   * Numbers that change from step to step, such as learning rates: constants, or functions of the number of earlier steps. Default
   * none.
   */
  readonly numbers?: { readonly [Name in Number]: number | Schedule };
  /** Seed of keys, and of the order of shuffled data; default 0. */
  readonly seed?: number;
  /** The mesh of devices; default that of `--mesh`, or one axis `data` over all workers. In a single process the devices are virtual. */
  readonly mesh?: Mesh;
  /** Layouts of the state, by paths (`"params.0.weight"`), as the option `layout` of `train`; default replicated. */
  readonly layout?: LayoutRule | readonly LayoutRule[];
  /**
   * Compress gradients, as the option `compression` of `train`: those that the step gives to `exchange`. The state has the parameters as `params`. There is no
   * warm-up. Default: gradients travel as they are.
   */
  readonly compression?: Compressor | CompressionOptions | string;
  /** The planner's description of devices and links; default that of `--machine`, or a general one. */
  readonly machine?: Machine;
}

/** A step that runs on every worker, and the state that it changes. */
export interface DistributedStep<
  State extends Tensors,
  Told extends { readonly state: State },
  Name extends string = "x" | "y",
> {
  /** The values after the last step. Values from before a step cannot be used afterwards: the step reuses their memory. */
  readonly state: State;
  /** Number of steps. */
  readonly steps: number;
  /** This worker's number. */
  readonly rank: number;
  /**
   * Runs a step. Resolves with the function's results except the state, replicated, when the step is launched; their contents come
   * later. Every worker must call this function, with its batch of {@link DistributedStep.batches}, or with the same whole batch.
   */
  run(batch: StepBatch<Name>): Promise<Omit<Told, "state">>;
  /**
   * Applies a function, such as a metric, to the current state and a batch; the result is replicated. The function is compiled once. Every
   * worker must call this method.
   */
  evaluate<Result>(fn: (state: State, batch: StepBatch<Name>) => Result, batch: StepBatch<Name>): Promise<Result>;
  /** The batches of one epoch, as `data.batches` gives them; each worker reads only its rows. */
  batches(dataset: Dataset, options?: BatchesOptions): AsyncGenerator<StepBatch<Name>, void, undefined>;
  /**
   * Writes state and number of steps as one safetensors file on rank 0; the file appears whole or not at all. Every worker must call
   * this method.
   */
  save(path: string): Promise<void>;
  /**
   * Restores state and number of steps from a file of {@link DistributedStep.save}, on any number of workers. Every worker must call
   * this method.
   */
  load(path: string): Promise<void>;
  /** Prints a line on rank 0 only. */
  print(text: string): void;
}

/**
 * Runs a hand-written step on every worker, with the same numbers on one worker and on many, as `train` does. Under
 * `heddle run --workers n` every worker makes the same call.
 *
 * @example
 *     const loop = await distributedStep({
 *       state: { w: zeros([3]) },
 *       step: ({ w }, { x, y }) => {
 *         const { value, grad } = valueAndGrad((weights: Tensor) => x.matmul(weights).sub(y).pow(2).mean())(w);
 *         return { state: { w: w.sub(grad.mul(0.1)) }, loss: value };
 *       },
 *     });
 *     for await (const batch of loop.batches(rows)) loop.print(`${await (await loop.run(batch)).loss.item()}`);
 * @throws HeddleError `option`; `mismatch` if workers have different values, data or steps; from `run` `tree` or `shape` if the
 * step gives a state of another structure
 */
export function distributedStep<
  State extends Tensors,
  Told extends { readonly state: State },
  Name extends string = "x" | "y",
  Number extends string = never,
>(options: DistributedStepOptions<State, Told, Name, Number>): Promise<DistributedStep<State, Told, Name>> {
  return called(async () => {
    checkOptions("distributedStep", options, ownOptions);
    checkInteger("distributedStep", "seed", options.seed ?? 0, 0);
    if (typeof options.step !== "function")
      throw new HeddleError("option", `distributedStep: step must be a function, got ${shown(options.step)}`);
    for (const name of Object.keys(options.numbers ?? {}))
      if (name === "step" || name === "key" || name === "exchange")
        throw new HeddleError("option", `distributedStep: numbers has '${name}', which every step gets anyway`, {
          hint: "choose another name",
        });
    const loop = new OwnLoop(options, await connect(options.mesh));
    await loop.begin();
    return loop;
  });
}

const ownOptions = ["state", "step", "numbers", "seed", "mesh", "layout", "compression", "machine"] as const;

type AnyBatch = { readonly [name: string]: Tensor };

/** The inputs of a compiled function, by name. */
interface Inputs<State> {
  readonly state: State;
  readonly batch: AnyBatch;
  readonly given?: AnyBatch;
  readonly key?: Tensor;
  /** What compression keeps. */
  readonly compression?: Tensors;
}

/** A compiled function of state and batch. */
type Compiled = CompiledFunction<(...inputs: unknown[]) => unknown>;

class OwnLoop<State extends Tensors, Told extends { readonly state: State }, Name extends string, Number extends string>
  implements DistributedStep<State, Told, Name>
{
  state: State;
  steps = 0;
  private readonly options: DistributedStepOptions<State, Told, Name, Number>;
  private readonly runtime: Runtime;
  private readonly feed: Feed;
  private readonly flat: FlatTree<Tensor>;
  private readonly layouts: ReadonlyMap<string, { readonly kept: Layout; readonly used: Layout }>;
  private readonly key: Tensor;
  private readonly compression: OwnCompression | undefined;
  private readonly compiled = new WeakMap<object, Map<string, Compiled>>();
  private readonly agreed = new Set<Dataset>();
  /** The last call, after which the next one runs: all workers run programs in the same order. */
  private last: Promise<unknown> = Promise.resolve();

  constructor(options: DistributedStepOptions<State, Told, Name, Number>, runtime: Runtime) {
    this.options = options;
    this.runtime = runtime;
    this.feed = new Feed(runtime);
    this.flat = flattenTree(options.state, isTensor);
    const { leaves, paths, shape } = this.flat;
    const held = flattenTree(options.state, (value): value is unknown => !Array.isArray(value) && !isRecord(value));
    const wrong = held.leaves.findIndex((leaf) => !isTensor(leaf));
    if (wrong >= 0)
      throw new HeddleError(
        "option",
        `distributedStep: state.${held.paths[wrong]} is ${shown(held.leaves[wrong])}, not a tensor`,
        { hint: "write a constant into the step; a value that changes must be a tensor, or stand in numbers" },
      );
    if (leaves.length === 0)
      throw new HeddleError("option", `distributedStep: state has no tensors, got ${shown(options.state)}`);
    const rules = [options.layout ?? []].flat() as LayoutRule[];
    const mesh = meshOf(runtime);
    this.layouts = new Map(
      paths.map((path, index) => [path, placedBy(rules, { name: path, ...typeOf(leaves[index] as Tensor) }, mesh)]),
    );
    this.key = placeOn(runtime, scopeKey(random.key(options.seed ?? 0), "steps"));
    this.state = unflattenTree(shape, leaves) as State;
    const used = (name: string): Layout => this.layoutOf(`params.${name}`).used;
    this.compression = OwnCompression.of(options, runtime, used);
  }

  get rank(): number {
    return this.runtime.rank;
  }

  /** Compares the initial values with those of the other workers, and distributes copies to the devices. */
  async begin(): Promise<void> {
    const values = new Map<string, HostTensor>();
    for (const [index, path] of this.flat.paths.entries()) {
      const leaf = this.flat.leaves[index] as Tensor;
      values.set(path, { ...typeOf(leaf), data: await wholeData(leaf) });
    }
    const { processes } = this.runtime;
    if (processes !== undefined) {
      const lines = [...values].map(([path, value]) => `state: ${path} ${formatType(value)} ${digestOf(value)}`);
      await processes.agree("state", [`seed: ${this.options.seed ?? 0}`, ...lines].join("\n"));
    }
    this.put(values);
    await this.compression?.put();
  }

  private put(values: ReadonlyMap<string, HostTensor>): void {
    const leaves = this.flat.paths.map((path) => {
      const { data, ...type } = values.get(path) as HostTensor;
      return distribute(this.runtime, data, type, this.layoutOf(path).kept);
    });
    this.state = unflattenTree(this.flat.shape, leaves) as State;
  }

  private layoutOf(path: string): { readonly kept: Layout; readonly used: Layout } {
    const everywhere = replicated(meshOf(this.runtime));
    return this.layouts.get(path) ?? { kept: everywhere, used: everywhere };
  }

  run(batch: StepBatch<Name>): Promise<Omit<Told, "state">> {
    return called(() => this.inOrder(() => this.step(batch)));
  }

  evaluate<Result>(fn: (state: State, batch: StepBatch<Name>) => Result, batch: StepBatch<Name>): Promise<Result> {
    return called(() =>
      this.inOrder(async () => {
        const columns = this.placed(batch);
        const inputs = { state: this.state, batch: columns };
        const work = (traced: Inputs<State>): unknown => fn(traced.state, traced.batch as StepBatch<Name>);
        const program = await this.compiledFor(fn, inputs, { name: fn.name || "evaluate", work });
        return program.run(inputs) as Result;
      }),
    );
  }

  private inOrder<Result>(work: () => Promise<Result>): Promise<Result> {
    const next = this.last.then(work, work);
    this.last = next.catch(() => {});
    return next;
  }

  private async step(batch: StepBatch<Name>): Promise<Omit<Told, "state">> {
    const { runtime, steps } = this;
    const columns = this.placed(batch);
    const wide = this.flat.leaves.some(({ dtype }) => dtype === "f64") ? "f64" : "f32";
    const scalar = (dtype: "i32" | "f32" | "f64", value: number): Tensor =>
      distribute(runtime, dtypes[dtype].create([value]), { shape: [], dtype }, replicated(meshOf(runtime)));
    const numbers = Object.entries<number | Schedule>(this.options.numbers ?? {}).map(([name, learningRate]) => [
      name,
      scalar(wide, learningRateAt({ name: `distributedStep: ${name}`, learningRate }, steps)),
    ]);
    const scalars = { ...Object.fromEntries(numbers), step: scalar("i32", steps) } as { [name: string]: Tensor };
    const sent = this.compression === undefined ? {} : { compression: this.compression.kept };
    const inputs = { state: this.state, batch: columns, given: scalars, key: this.key, ...sent };
    const name = this.options.step.name || "step";
    const program = await this.compiledFor(this, inputs, { name, work: this.traced, donate: ["state", "compression"] });
    host.process?.report({ type: "progress", step: steps + 1 });
    runtime.processes?.setStep(steps + 1);
    const { state, compression: after, ...results } = program.run(inputs) as Told & { readonly compression?: Tensors };
    this.state = state;
    if (this.compression !== undefined && after !== undefined) this.compression.kept = after;
    this.steps++;
    for (const scalar of Object.values(scalars)) scalar.dispose();
    return results as unknown as Omit<Told, "state">;
  }

  /** The user's step, with the key of the step, and with its state checked. */
  private readonly traced = ({ state, batch, given, key, compression: kept }: Required<Inputs<State>>): Told => {
    const own = random.foldIn(key, given["step"] as Tensor);
    const compressing = this.compression?.tracing(kept, own);
    const exchange = compressing?.exchange ?? (<Grads>(grads: Grads): Grads => grads);
    const all = { ...given, key: own, exchange } as unknown as StepGiven<Number>;
    const results = this.options.step(state, batch as StepBatch<Name>, all);
    this.checkState(results?.state, results);
    return compressing === undefined ? results : compressing.finished(results);
  };

  private checkState(state: unknown, results: unknown): void {
    const after = flattenTree(state, isTensor);
    const { paths, shape, leaves } = this.flat;
    if (treeKey(after.shape) !== treeKey(shape))
      throw new HeddleError(
        "tree",
        `distributedStep: the step gives ${state === undefined ? `${shown(results)}, without a state` : `a state of [${listed(after.paths)}] for [${listed(paths)}]`}`,
        { hint: "return { state, … } with a state of the same structure" },
      );
    for (const [index, path] of paths.entries()) {
      const [old, next] = [leaves[index] as Tensor, after.leaves[index] as Tensor];
      if (!sameType(old, next))
        throw new HeddleError(
          "shape",
          `distributedStep: '${path}' of the state is ${formatType(old)} before a step and ${formatType(next)} after it`,
        );
    }
  }

  /** The columns, sharded by rows. */
  private placed(batch: StepBatch<Name>): AnyBatch {
    const entries = Object.entries<Tensor>(batch ?? {});
    const [first] = entries;
    const wrong = entries.find(([, column]) => !isTensor(column) || column.shape[0] !== first?.[1].shape[0]);
    if (first === undefined || wrong !== undefined || first[1].shape.length === 0)
      throw new HeddleError(
        "argument",
        `distributedStep: a batch is columns of equally many rows, got ${wrong === undefined ? shown(batch) : `${wrong[0]} ${shown(wrong[1])}`}`,
      );
    const layout = batchLayout(meshOf(this.runtime), first[1].shape[0] as number);
    const split = (column: Tensor): Tensor => {
      const here = placeOn(this.runtime, column);
      return sameLayout(here.value.layout, layout) ? here : redistribute(here, layout);
    };
    return Object.fromEntries(entries.map(([name, column]) => [name, split(column)]));
  }

  /** The program of a function for these types; when it is compiled, the workers compare their programs. */
  private async compiledFor(
    fn: object,
    inputs: Inputs<State>,
    // biome-ignore lint/suspicious/noExplicitAny: its argument has the types for which it is compiled
    { name, work, donate = [] }: { name: string; work: (inputs: any) => unknown; donate?: readonly string[] },
  ): Promise<Compiled> {
    const { batch } = inputs;
    const key = JSON.stringify(Object.entries(batch).map(([column, { shape, dtype }]) => [column, dtype, shape]));
    const known = this.compiled.get(fn) ?? new Map<string, Compiled>();
    this.compiled.set(fn, known);
    const found = known.get(key);
    if (found !== undefined) return found;
    const everywhere = replicated(meshOf(this.runtime));
    const rows = Object.values(batch)[0]?.shape[0] as number;
    const stored = (path: string): Layout =>
      path.startsWith("state.")
        ? this.layoutOf(path.slice(6)).kept
        : ((path.startsWith("compression.")
            ? this.compression?.layout(path.slice("compression.".length))
            : undefined) ?? everywhere);
    const program = compileFunction(work, [inputs], this.runtime, {
      name,
      donate,
      machine: this.options.machine,
      layouts: (path) => (path.startsWith("batch.") ? batchLayout(meshOf(this.runtime), rows) : stored(path)),
      uses: (path) => (path.startsWith("state.") ? this.layoutOf(path.slice(6)).used : undefined),
      outputLayouts: donate.length === 0 ? () => everywhere : stored,
    }) as Compiled;
    await this.runtime.processes?.agree("program", printPlan(program.plan));
    known.set(key, program);
    return program;
  }

  async *batches(dataset: Dataset, options: BatchesOptions = {}): AsyncGenerator<StepBatch<Name>, void, undefined> {
    checkOptions("batches", options, ["epoch", "seed"]);
    if (!(dataset instanceof DatasetClass))
      throw new HeddleError("argument", `batches: takes a dataset, got ${shown(dataset)}`);
    const seed = options.seed ?? this.options.seed ?? 0;
    const names = [...dataset.columns.keys()];
    if (!this.agreed.has(dataset)) {
      await this.runtime.processes?.agree("data", (await datasetLines("data", dataset, names, seed)).join("\n"));
      this.agreed.add(dataset);
    }
    const seen = new Map<number, Compiled>();
    for await (const batch of this.feed.batches(dataset, { ...options, columns: names, seed })) {
      const { rows } = batch;
      const program = seen.get(rows) ?? this.seeing(dataset, names, rows);
      seen.set(rows, program);
      const columns = program.run(batch.columns) as StepBatch<Name>;
      batch.release();
      yield columns;
      for (const column of Object.values<Tensor>(columns)) column.dispose();
    }
  }

  /** The program that turns stored columns into columns as the model sees them. */
  private seeing(dataset: Dataset, columns: readonly string[], rows: number): Compiled {
    const layout = batchLayout(meshOf(this.runtime), rows);
    const see = (stored: AnyBatch): AnyBatch =>
      Object.fromEntries(
        columns.map((name) => {
          const column = dataset.columns.get(name) as Column;
          return [name, transformed(stored[name] as Tensor, column, columnDType(column))];
        }),
      );
    const options = { name: "batch", layouts: () => layout, outputLayouts: () => layout };
    return compileFunction(see, [batchTypes(dataset, columns, rows)], this.runtime, options) as Compiled;
  }

  save(path: string): Promise<void> {
    return called(() =>
      this.inOrder(async () => {
        const { files } = host;
        if (files === undefined) throw noFiles("distributedStep: save writes a file");
        const values = new Map<string, HostTensor>();
        const { leaves, paths } = flattenTree(this.state, isTensor);
        // Sequentially: sharded values are gathered, and all workers must gather them in the same order.
        for (const [index, leaf] of leaves.entries())
          values.set(paths[index] as string, { ...typeOf(leaf), data: await wholeData(leaf) });
        for (const [name, value] of (await this.compression?.values()) ?? []) values.set(name, value);
        const metadata = new Map([[stepsKey, String(this.steps)]]);
        if (this.rank === 0) await files.writeTensors("save", path, values, metadata);
        await this.runtime.processes?.barrier("save");
      }),
    );
  }

  load(path: string): Promise<void> {
    return called(() =>
      this.inOrder(async () => {
        if (host.files === undefined) throw noFiles("distributedStep: load reads a file");
        const { tensors, metadata } = await host.files.readTensors(path);
        const { paths, leaves } = this.flat;
        const wrong = [
          ...paths.filter((name, index) => {
            const found = tensors.get(name);
            return found === undefined || !sameType(found, leaves[index] as Tensor);
          }),
          ...(this.compression?.wrongIn(tensors) ?? []),
          ...[...tensors.keys()].filter((name) => !paths.includes(name) && this.compression?.has(name) !== true),
        ];
        if (wrong.length > 0)
          throw new HeddleError("checkpoint", `load: ${path} has another state: ${listed(wrong)} differ`);
        const before = flattenTree(this.state, isTensor).leaves;
        this.put(tensors);
        await this.compression?.put(tensors);
        for (const leaf of before) leaf.dispose();
        this.steps = Number(metadata.get(stepsKey) ?? 0);
      }),
    );
  }

  print(text: string): void {
    if (this.rank === 0) console.log(text);
  }
}

/** The metadata key of the number of steps in a file of {@link DistributedStep.save}. */
const stepsKey = "heddle.steps";

const typeOf = ({ shape, dtype }: TensorType): TensorType => ({ shape, dtype });

const digestOf = ({ dtype, data }: HostTensor): string => host.sha256(dtypes[dtype].bytesOf(data)).slice(0, 16);
