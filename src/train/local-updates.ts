/** @module This process as one of the workers of a training with local steps: its own copy of the values, and the meetings with the others. */
import { localRuntime } from "../executors/runtime.ts";
import {
  type CompiledFunction,
  compileFunction,
  distribute,
  fromShards,
  isTensor,
  meshOf,
  random,
  type Tensor,
  type Tensors,
  tensor,
} from "../functions/index.ts";
import { withParts } from "../functions/parts.ts";
import { dtypes } from "../ir/dtype.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { mesh, replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { gatherTexts } from "./drift.ts";
import { Tally } from "./history.ts";
import {
  byWorker,
  type LocalState,
  localLines,
  localTraining,
  meetingBytes,
  meetingFunction,
  meetingOptions,
  meetingTypes,
  metParts,
  outerOf,
  workerAxis,
} from "./local-training.ts";
import type { LocalSteps, Settings } from "./options.ts";
import { Programs } from "./programs.ts";
import type { RunState } from "./state.ts";
import { type StepDone, summed, type Training, tallyText, type Updates } from "./updates.ts";
import { keyType, type TrainState } from "./values.ts";

type Meeting = CompiledFunction<ReturnType<typeof meetingFunction>>;

/** The runtime of this worker alone, which knows the processes of the others. */
export function ownRuntime({ executor }: Settings, all: Runtime): Runtime {
  const alone = localRuntime({
    axes: mesh({ [workerAxis]: 1 }).axes,
    ...(executor === undefined ? {} : { executor }),
  });
  return { ...alone, rank: all.rank, processes: all.processes, machine: all.machine };
}

/** The meetings of a worker with the others. */
export class LocalUpdates implements Updates {
  readonly whole: Training;
  readonly own: Training;
  readonly runtime: Runtime;
  readonly follows = false;
  readonly missed = 0;
  readonly tables = undefined;
  readonly lines: readonly string[];
  readonly sent: number;
  readonly wholeRows: (own: number) => number;
  stopped = false;
  private readonly all: Runtime;
  private readonly every: number;
  private readonly meeting: () => Meeting;
  /** Parameters after the last meeting, and the outer optimizer's state, on the mesh of all workers. */
  private met!: { readonly params: Tensors; readonly outer: Tensors; readonly rounds: Tensor };
  /** Values of all workers that no meeting changes. */
  private first!: TrainState;
  private rounds = 0;
  private since = 0;
  private last: TrainState | undefined;

  /** @param given the settings of the training; `whole` is what {@link wholeTraining} makes of them, on the runtime `all` */
  constructor(given: Settings, whole: Training, all: Runtime) {
    this.all = all;
    this.whole = { ...whole, runtime: all };
    this.runtime = ownRuntime(given, all);
    const own = localTraining(given, all.rank, all.world);
    this.own = { ...own, programs: new Programs(own.settings, own.types, this.runtime) };
    const rows = new Map(own.settings.data.batchForms.map(({ rows: part }, index) => [part, index]));
    const forms = whole.settings.data.batchForms;
    this.wholeRows = (part) => forms[rows.get(part) ?? 0]?.rows ?? part;
    const { steps } = given.localSteps as LocalSteps;
    this.every = steps;
    const { settings, types } = whole;
    const bytes = meetingBytes(settings, types, meshOf(all));
    this.lines = localLines(settings, all.world, bytes);
    this.sent = bytes / steps;
    let compiled: Meeting | undefined;
    this.meeting = () => {
      const example = [meetingTypes(settings, types, all.world)] as Parameters<typeof compileFunction>[1];
      const outer = outerOf(settings.localSteps as LocalSteps);
      compiled ??= compileFunction(meetingFunction(outer), example, all, meetingOptions(settings, meshOf(all)));
      return compiled;
    };
  }

  async begin({ values, key, position }: RunState): Promise<RunState> {
    const { inner, outer, rounds } = values.optimizer as unknown as LocalState;
    this.rounds = await rounds.item();
    this.first = values;
    this.met = { params: metParts(this.whole.types, values, isTensor).params, outer, rounds };
    const { rank } = this.all;
    const numbers = await key.data();
    // Workers draw different numbers; the first one those that it would draw alone.
    const own = rank === 0 ? numbers : await random.foldIn(tensor(numbers, { dtype: "u32" }), rank).data();
    const mine = {
      params: await this.here(values.params),
      optimizer: await this.here(inner, true),
      state: await this.here(values.state),
    };
    for (const leaf of flattenTree<Tensor>([inner, values.state], isTensor).leaves) leaf.dispose();
    return {
      values: mine,
      key: distribute(this.runtime, own, keyType, replicated(meshOf(this.runtime))),
      // What was counted before is with the first worker.
      position: rank === 0 ? position : { ...position, tally: new Tally() },
    };
  }

  isDue({ steps, ends }: StepDone): boolean {
    this.since++;
    return ends || steps % this.every === 0;
  }

  async step(values: TrainState, { stop }: StepDone): Promise<TrainState> {
    const { processes } = this.all;
    const asked = (await processes?.allGather(Uint8Array.of(stop ? 1 : 0), "whether to end")) ?? [];
    this.stopped ||= asked.some((each) => each !== 0);
    return this.meet(values);
  }

  /** The copies of all workers meet. */
  private async meet(values: TrainState): Promise<TrainState> {
    const { all, whole } = this;
    const meeting = this.meeting();
    const { params, layers } = metParts(whole.types, values, isTensor);
    const [local, stacked] = [await this.everywhere(params), await this.everywhere(layers)];
    const { shape, values: rates } = learningRatesAt(outerOf(whole.settings.localSteps as LocalSteps), this.rounds);
    const { dtype } = whole.settings;
    const everywhere = replicated(meshOf(all));
    const learningRate = distribute(all, dtypes[dtype].create([...rates]), { shape, dtype }, everywhere);
    const { layers: means, ...met } = meeting.run({ local, layers: stacked, ...this.met, learningRate });
    for (const leaf of flattenTree<Tensor>([local, stacked, learningRate, this.met.rounds, params, layers], isTensor)
      .leaves)
      leaf.dispose();
    this.met = met;
    this.rounds++;
    this.since = 0;
    const next = {
      params: withParts(values.params, await this.here(met.params)),
      optimizer: values.optimizer,
      state: withParts(values.state, await this.here(means)),
    };
    for (const leaf of flattenTree<Tensor>(means, isTensor).leaves) leaf.dispose();
    return next;
  }

  async saved({ values, key, position }: RunState): Promise<RunState> {
    const tally = await this.tally(position.epoch, position.tally);
    return { values: this.last ?? (await this.wholeState(values)), key, position: { ...position, tally } };
  }

  /** The values of all workers, between two rounds. */
  private async wholeState(values: TrainState): Promise<TrainState> {
    const { params, outer, rounds } = this.met;
    const inner = await this.everywhere(values.optimizer);
    return {
      params: withParts(this.first.params, params),
      optimizer: { inner, outer, rounds } as unknown as Tensors,
      state: await this.replicas(values.state),
    };
  }

  async tally(_epoch: number, tally: Tally): Promise<Tally> {
    const { processes } = this.all;
    if (processes === undefined) return tally;
    return summed(await gatherTexts(processes, tallyText(tally), "sums of an epoch"));
  }

  async finish(values: TrainState): Promise<TrainState> {
    const ended = this.since > 0 ? await this.meet(values) : values;
    this.last = await this.wholeState(ended);
    return { ...ended, optimizer: this.last.optimizer };
  }

  async report(): Promise<{ readonly lines: readonly string[] }> {
    return { lines: [] };
  }

  async close(): Promise<void> {}

  /** Copies of what this worker has of values of all workers, as values of its own; without their first dim if it counts workers. */
  private async here(tree: Tensors, stacked = false): Promise<Tensors> {
    return mapped(tree, async ({ dtype, shape: sizes, value }) => {
      const shape = stacked ? sizes.slice(1) : sizes;
      const bytes = await (value.shards[0] as DeviceBuffer).read();
      const data = dtypes[dtype].view(bytes.buffer as ArrayBuffer, bytes.byteOffset, sizeOf(shape));
      return distribute(this.runtime, data, { dtype, shape }, replicated(meshOf(this.runtime)));
    });
  }

  /** The values of all workers, stacked: each has its own. */
  private everywhere(tree: Tensors): Promise<Tensors> {
    const { all } = this;
    return mapped(tree, async ({ dtype, shape, value }) => {
      const type: TensorType = { dtype, shape: [all.world, ...shape] };
      return fromShards(all, [await this.copied(value.shards[0] as DeviceBuffer)], type, byWorker(meshOf(all)));
    });
  }

  /** Values that all workers have alike. */
  private replicas(tree: Tensors): Promise<Tensors> {
    const { all } = this;
    return mapped(tree, async ({ dtype, shape, value }) => {
      const type: TensorType = { dtype, shape };
      return fromShards(all, [await this.copied(value.shards[0] as DeviceBuffer)], type, replicated(meshOf(all)));
    });
  }

  private async copied(from: DeviceBuffer): Promise<DeviceBuffer> {
    const buffer = this.all.executor.allocate(from.bytes);
    buffer.write(await from.read());
    return buffer;
  }
}

/** A tree of new tensors, made one after another. */
async function mapped(tree: Tensors, change: (leaf: Tensor) => Promise<Tensor>): Promise<Tensors> {
  const { leaves, shape } = flattenTree<Tensor>(tree, isTensor);
  const next: Tensor[] = [];
  for (const leaf of leaves) next.push(await change(leaf));
  return unflattenTree(shape, next) as Tensors;
}
