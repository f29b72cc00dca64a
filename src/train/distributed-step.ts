/**
 * @module A training loop of one's own on every worker: the user's step is compiled by the planner that `train` uses, with batches
 * split by rows and the state where it is kept, updated in place.
 */
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
import type { LayoutRule } from "./rules.ts";
import { wholeData } from "./state.ts";

/** Columns of a batch. */
export type StepBatch<Name extends string> = { readonly [Column in Name]: Tensor };

/** What a step is given besides state and batch. */
export type StepGiven<Number extends string> = {
  /** Steps taken before: an i32 scalar, 0 for the first. */
  readonly step: Tensor;
  /** A random key (u32[2]) of this step alone. */
  readonly key: Tensor;
} & { readonly [Name in Number]: Tensor };

/** Options of {@link distributedStep}. */
export interface DistributedStepOptions<
  State extends Tensors,
  Told extends { readonly state: State },
  Name extends string,
  Number extends string,
> {
  /** The first values, the same on every worker: a tree of parameters, optimizer states, layer states. They are copied. */
  readonly state: State;
  /**
   * One step: from state, batch and what else is given to `{ state, … }`, the state in the form in which it came. The rest is
   * handed on. It is traced, as by `jit`; means over the batch are over the whole batch.
   */
  readonly step: (state: State, batch: StepBatch<Name>, given: StepGiven<Number>) => Told;
  /** Numbers that change from step to step, such as learning rates: constants or functions of the steps taken before. Default none. */
  readonly numbers?: { readonly [Name in Number]: number | Schedule };
  /** Of keys, and of the order of shuffled data; default 0. */
  readonly seed?: number;
  /** Default one axis `data` over all workers, or what `--mesh` says; in a single process the devices are virtual. */
  readonly mesh?: Mesh;
  /** Where the state lives, by its paths (`"params.0.weight"`), as `train`'s `layout`; default whole on every device. */
  readonly layout?: LayoutRule | readonly LayoutRule[];
  /** What the planner assumes of devices and links; default that of `--machine`, or what it assumes of any. */
  readonly machine?: Machine;
}

/** A step on every worker, and the state that it changes. */
export interface DistributedStep<
  State extends Tensors,
  Told extends { readonly state: State },
  Name extends string = "x" | "y",
> {
  /** The values after the last step. Those of before a step cannot be used any more: it takes over their memory. */
  readonly state: State;
  /** Steps taken. */
  readonly steps: number;
  /** This worker's number. */
  readonly rank: number;
  /**
   * Takes a step; gives what the function gave but the state, whole on every device, whose contents come later. Every worker must
   * call it, with its batch of {@link DistributedStep.batches}, or with whole batches that are the same everywhere.
   */
  run(batch: StepBatch<Name>): Promise<Omit<Told, "state">>;
  /**
   * What a function makes of the state as it is and a batch, such as a metric, whole on every device; compiled once per function. Every
   * worker must call it.
   */
  evaluate<Result>(fn: (state: State, batch: StepBatch<Name>) => Result, batch: StepBatch<Name>): Promise<Result>;
  /** The batches of one epoch, as `data.batches` gives them, of which each worker reads its own rows. */
  batches(dataset: Dataset, options?: BatchesOptions): AsyncGenerator<StepBatch<Name>, void, undefined>;
  /** Writes state and number of steps as one safetensors file, whole or not at all, on rank 0. Every worker must call it. */
  save(path: string): Promise<void>;
  /** Goes on from what {@link DistributedStep.save} wrote, on any number of workers. Every worker must call it. */
  load(path: string): Promise<void>;
  /** Prints a line on rank 0 only. */
  print(text: string): void;
}

/**
 * Makes a step of one's own run on every worker: the same numbers on one worker and on many, as of `train`. Under
 * `heddle run --workers n` every worker makes the same call.
 *
 * @example
 *     const loop = await distributedStep({
 *       state: { w: zeros([3]) },
 *       step: ({ w }, { x, y }) => {
 *         const { value, grad } = valueAndGrad((own: Tensor) => x.matmul(own).sub(y).pow(2).mean())(w);
 *         return { state: { w: w.sub(grad.mul(0.1)) }, loss: value };
 *       },
 *     });
 *     for await (const batch of loop.batches(rows)) loop.print(`${await (await loop.run(batch)).loss.item()}`);
 * @throws HeddleError `option`; `mismatch` where workers have other values, data or steps; from `run` `tree` or `shape` when the
 * step gives the state in another form
 */
export function distributedStep<
  State extends Tensors,
  Told extends { readonly state: State },
  Name extends string = "x" | "y",
  Number extends string = never,
>(options: DistributedStepOptions<State, Told, Name, Number>): Promise<DistributedStep<State, Told, Name>> {
  return called(async () => {
    checkOptions("distributedStep", options, ["state", "step", "numbers", "seed", "mesh", "layout", "machine"]);
    checkInteger("distributedStep", "seed", options.seed ?? 0, 0);
    if (typeof options.step !== "function")
      throw new HeddleError("option", `distributedStep: step must be a function, got ${shown(options.step)}`);
    for (const name of Object.keys(options.numbers ?? {}))
      if (name === "step" || name === "key")
        throw new HeddleError("option", `distributedStep: numbers has '${name}', which every step is given`, {
          hint: "call it something else",
        });
    const loop = new OwnLoop(options, await connect(options.mesh));
    await loop.begin();
    return loop;
  });
}

type AnyBatch = { readonly [name: string]: Tensor };

/** What a compiled function is given, by name. */
interface Given<State> {
  readonly state: State;
  readonly batch: AnyBatch;
  readonly given?: AnyBatch;
  readonly key?: Tensor;
}

/** A compiled function of the state, and what it was compiled for. */
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
  private readonly compiled = new WeakMap<object, Map<string, Compiled>>();
  private readonly agreed = new Set<Dataset>();
  /** The last call: workers come to programs in one order. */
  private last: Promise<unknown> = Promise.resolve();

  constructor(options: DistributedStepOptions<State, Told, Name, Number>, runtime: Runtime) {
    this.options = options;
    this.runtime = runtime;
    this.feed = new Feed(runtime);
    this.flat = flattenTree(options.state, isTensor);
    const { leaves, paths, shape } = this.flat;
    const held = flattenTree(options.state, (value): value is unknown => !Array.isArray(value) && !isRecord(value));
    const odd = held.leaves.findIndex((leaf) => !isTensor(leaf));
    if (odd >= 0)
      throw new HeddleError(
        "option",
        `distributedStep: state.${held.paths[odd]} is ${shown(held.leaves[odd])}, not a tensor`,
        { hint: "what stays the same is a constant of the step; what changes is a tensor, or one of numbers" },
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
  }

  get rank(): number {
    return this.runtime.rank;
  }

  /** Compares the first values with those of the other workers, and puts copies of them on the devices. */
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
        const given = { state: this.state, batch: columns };
        const work = (one: Given<State>): unknown => fn(one.state, one.batch as StepBatch<Name>);
        const program = await this.compiledFor(fn, given, { name: fn.name || "evaluate", work });
        return program.run(given) as Result;
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
    const given = { state: this.state, batch: columns, given: scalars, key: this.key };
    const name = this.options.step.name || "step";
    const program = await this.compiledFor(this, given, { name, work: this.taken, donate: ["state"] });
    host.process?.report({ type: "progress", step: steps + 1 });
    runtime.processes?.setStep(steps + 1);
    const { state, ...told } = program.run(given) as Told;
    this.state = state;
    this.steps++;
    for (const one of Object.values(scalars)) one.dispose();
    return told;
  }

  /** The user's step, with a key of its own, and a state of the same form. */
  private readonly taken = ({ state, batch, given, key }: Required<Given<State>>): Told => {
    const all = { ...given, key: random.foldIn(key, given["step"] as Tensor) } as unknown as StepGiven<Number>;
    const told = this.options.step(state, batch as StepBatch<Name>, all);
    this.checkState(told?.state, told);
    return told;
  };

  private checkState(state: unknown, told: unknown): void {
    const made = flattenTree(state, isTensor);
    const { paths, shape, leaves } = this.flat;
    if (treeKey(made.shape) !== treeKey(shape))
      throw new HeddleError(
        "tree",
        `distributedStep: the step gives ${state === undefined ? `${shown(told)}, without a state` : `a state of [${listed(made.paths)}] for [${listed(paths)}]`}`,
        { hint: "give { state, … } with the state in the form in which it came" },
      );
    for (const [index, path] of paths.entries()) {
      const [before, after] = [leaves[index] as Tensor, made.leaves[index] as Tensor];
      if (!sameType(before, after))
        throw new HeddleError(
          "shape",
          `distributedStep: '${path}' of the state is ${formatType(before)} before a step and ${formatType(after)} after it`,
        );
    }
  }

  /** Each column split by rows. */
  private placed(batch: StepBatch<Name>): AnyBatch {
    const entries = Object.entries<Tensor>(batch ?? {});
    const [first] = entries;
    const odd = entries.find(([, column]) => !isTensor(column) || column.shape[0] !== first?.[1].shape[0]);
    if (first === undefined || odd !== undefined || first[1].shape.length === 0)
      throw new HeddleError(
        "argument",
        `distributedStep: a batch is columns of equally many rows, got ${odd === undefined ? shown(batch) : `${odd[0]} ${shown(odd[1])}`}`,
      );
    const layout = batchLayout(meshOf(this.runtime), first[1].shape[0] as number);
    const split = (column: Tensor): Tensor => {
      const here = placeOn(this.runtime, column);
      return sameLayout(here.value.layout, layout) ? here : redistribute(here, layout);
    };
    return Object.fromEntries(entries.map(([name, column]) => [name, split(column)]));
  }

  /** The program of a function for these types; workers that come to one for the first time compare theirs. */
  private async compiledFor(
    fn: object,
    given: Given<State>,
    // biome-ignore lint/suspicious/noExplicitAny: it is given what it is compiled for
    { name, work, donate = [] }: { name: string; work: (given: any) => unknown; donate?: readonly string[] },
  ): Promise<Compiled> {
    const { batch } = given;
    const key = JSON.stringify(Object.entries(batch).map(([column, { shape, dtype }]) => [column, dtype, shape]));
    const known = this.compiled.get(fn) ?? new Map<string, Compiled>();
    this.compiled.set(fn, known);
    const found = known.get(key);
    if (found !== undefined) return found;
    const everywhere = replicated(meshOf(this.runtime));
    const rows = Object.values(batch)[0]?.shape[0] as number;
    const kept = (path: string): Layout => (path.startsWith("state.") ? this.layoutOf(path.slice(6)).kept : everywhere);
    const program = compileFunction(work, [given], this.runtime, {
      name,
      donate,
      machine: this.options.machine,
      layouts: (path) => (path.startsWith("batch.") ? batchLayout(meshOf(this.runtime), rows) : kept(path)),
      uses: (path) => (path.startsWith("state.") ? this.layoutOf(path.slice(6)).used : undefined),
      outputLayouts: donate.length === 0 ? () => everywhere : kept,
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
    const columns = [...dataset.columns.keys()];
    if (!this.agreed.has(dataset)) {
      await this.runtime.processes?.agree("data", (await datasetLines("data", dataset, columns, seed)).join("\n"));
      this.agreed.add(dataset);
    }
    const seen = new Map<number, Compiled>();
    for await (const batch of this.feed.batches(dataset, { ...options, columns, seed })) {
      const { rows } = batch;
      const program = seen.get(rows) ?? this.seeing(dataset, columns, rows);
      seen.set(rows, program);
      const made = program.run(batch.columns) as StepBatch<Name>;
      batch.release();
      yield made;
      for (const column of Object.values<Tensor>(made)) column.dispose();
    }
  }

  /** From columns as stored to columns as the model sees them. */
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
        // One after the other: what is in parts is gathered, by all workers in one order.
        for (const [index, leaf] of leaves.entries())
          values.set(paths[index] as string, { ...typeOf(leaf), data: await wholeData(leaf) });
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
          ...[...tensors.keys()].filter((name) => !paths.includes(name)),
        ];
        if (wrong.length > 0)
          throw new HeddleError("checkpoint", `load: ${path} is of another state: ${listed(wrong)} differ`);
        const before = flattenTree(this.state, isTensor).leaves;
        this.put(tensors);
        for (const leaf of before) leaf.dispose();
        this.steps = Number(metadata.get(stepsKey) ?? 0);
      }),
    );
  }

  print(text: string): void {
    if (this.rank === 0) console.log(text);
  }
}

/** Where a file of {@link DistributedStep.save} has the number of steps. */
const stepsKey = "heddle.steps";

const typeOf = ({ shape, dtype }: TensorType): TensorType => ({ shape, dtype });

const digestOf = ({ dtype, data }: HostTensor): string => host.sha256(dtypes[dtype].bytesOf(data)).slice(0, 16);
