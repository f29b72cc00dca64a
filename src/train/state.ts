/** @module Converts the whole state of a run to a checkpoint and back. */

import { forDevices } from "../compression/state.ts";
import { distribute, isTensor, meshOf, replicate, type Tensor } from "../functions/index.ts";
import type { TypedArray } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { bytesOf, formatType, isTensorType, sameType, type TensorType } from "../ir/shape.ts";
import { type Layout, replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { canonicalJson, type Plain } from "../util/text.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import type { Checkpoint, CheckpointState } from "./checkpoint.ts";
import { type EpochRecord, type MetricSums, Tally } from "./history.ts";
import { keptDifference } from "./kept.ts";
import type { StateLayouts } from "./layouts.ts";
import type { Settings } from "./options.ts";
import { keyType, type ModelTypes, type TrainState } from "./values.ts";

/** The position of a run: the next batch to read, and the counts so far. */
export interface RunPosition {
  /** Number of optimizer steps. */
  steps: number;
  epoch: number;
  batch: number;
  /** Sums of the current epoch. */
  tally: Tally;
  readonly history: EpochRecord[];
  /** Number of epochs before the first epoch of this run; the orders of shuffled data continue after them. */
  readonly orderOffset: number;
  /** The product of the factors by which callbacks scaled the learning rate. */
  rateScale: number;
}

/** The position at the start of a run. */
export const beginning = ({ from, initialEpoch }: Pick<Settings, "from" | "initialEpoch">): RunPosition => ({
  steps: from?.steps ?? 0,
  epoch: initialEpoch,
  batch: 0,
  tally: new Tally(),
  history: [],
  orderOffset: Math.max(0, (from?.epochs ?? 0) - initialEpoch),
  rateScale: 1,
});

/** A position that later steps do not change. */
export function copyOf(position: RunPosition): RunPosition {
  return { ...position, tally: position.tally.copy(), history: [...position.history] };
}

const groups = ["params", "optimizer", "state"] as const;

/** Bytes of all values in a checkpoint. */
export function stateBytes(types: ModelTypes): number {
  const leaves = groups.flatMap((group) => flattenTree(types.state[group], isTensorType).leaves);
  return leaves.reduce((total, type) => total + bytesOf(type), 0);
}

/**
 * Copies everything that the run needs to resume. Sharded values are gathered, one at a time: then every process
 * must call this function.
 */
export async function exportState(
  settings: Settings,
  values: TrainState,
  key: Tensor,
  position: RunPosition,
): Promise<CheckpointState> {
  const tensors = new Map<string, HostTensor>();
  for (const group of groups) {
    const { leaves, paths } = flattenTree(values[group], isTensor);
    const copies = await Promise.all(leaves.map(wholeData));
    copies.forEach((data, index) => {
      const { shape, dtype } = leaves[index] as Tensor;
      tensors.set(`${group}/${paths[index]}`, { shape, dtype, data });
    });
  }
  const { steps, epoch, batch, tally, history, orderOffset, rateScale } = position;
  return {
    step: steps,
    position: { epoch, step: batch },
    seed: settings.seed,
    key: [...(await key.data())],
    tensors,
    extra: encode({
      data: settings.data.describe(settings.seed),
      optimizer: settings.optimizer.name,
      tally: {
        loss: tally.loss,
        examples: tally.examples,
        rejected: tally.rejected,
        sums: Object.fromEntries(tally.sums),
      },
      history,
      orderOffset,
      rateScale,
    }) as { [key: string]: Plain },
  };
}

/** The elements of a value; a sharded value is gathered, for which every process must call this function. */
export async function wholeData(leaf: Tensor): Promise<TypedArray> {
  if (leaf.value.layout.every(({ kind }) => kind === "replicate")) return leaf.data();
  const whole = replicate(leaf);
  try {
    return await whole.data();
  } finally {
    whole.dispose();
  }
}

/** A value as JSON, with NaN and infinities as text: they can be in the history. */
function encode(value: unknown): Plain {
  return JSON.parse(JSON.stringify(value, nonFinite)) as Plain;
}

const nonFinite = (_key: string, value: unknown): unknown =>
  typeof value === "number" && !Number.isFinite(value) ? `@${value}` : value;

function decode(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_key, part: unknown) =>
    typeof part === "string" && /^@(NaN|-?Infinity)$/.test(part) ? Number(part.slice(1)) : part,
  );
}

/**
 * Distributes the values of a checkpoint to the devices.
 *
 * @throws HeddleError `checkpoint` if it belongs to another model, optimizer, dataset or seed.
 */
export function importState(
  checkpoint: Checkpoint,
  settings: Settings,
  types: ModelTypes,
  runtime: Runtime,
  layouts: StateLayouts,
): { values: TrainState; key: Tensor; position: RunPosition } {
  checkSameRun(checkpoint, settings);
  const everywhere = replicated(meshOf(runtime));
  const put = (tensor: HostTensor, layout: Layout): Tensor =>
    distribute(runtime, tensor.data, { shape: tensor.shape, dtype: tensor.dtype }, layout);
  const tree = (group: (typeof groups)[number]): TrainState[typeof group] => {
    const { leaves, paths, shape } = flattenTree(types.state[group], isTensorType);
    return unflattenTree(
      shape,
      leaves.map((type, index) =>
        put(find(checkpoint, `${group}/${paths[index]}`, type), layouts.kept(`${group}.${paths[index]}`)),
      ),
    ) as TrainState[typeof group];
  };
  checkTensorNames(checkpoint, types);
  const values = { params: tree("params"), optimizer: tree("optimizer"), state: tree("state") };
  return {
    values,
    key: put({ ...keyType, data: Uint32Array.from(checkpoint.key) }, everywhere),
    position: positionOf(checkpoint),
  };
}

/** @throws HeddleError `checkpoint` if the checkpoint has other tensors than the run, naming the option that makes the difference. */
function checkTensorNames(checkpoint: Checkpoint, types: ModelTypes): void {
  const ours = groups.flatMap((group) =>
    flattenTree(types.state[group], isTensorType).paths.map((path) => `${group}/${path}`),
  );
  const theirs = [...checkpoint.tensors.keys()];
  const optimizerNames = (names: readonly string[]): string[] =>
    names.filter((name) => name.startsWith("optimizer/")).map((name) => name.slice("optimizer/".length));
  const difference = keptDifference(optimizerNames(theirs), optimizerNames(ours));
  if (difference !== undefined) throw mismatch(checkpoint, `it ${difference}`);
  const known = new Set(ours);
  const extra = theirs.filter((name) => !known.has(name));
  // `find` reports missing tensors and other types.
  if (extra.length === 0 || ours.some((name) => !checkpoint.tensors.has(name))) return;
  const more = extra.length === 1 ? "" : ` and ${extra.length - 1} more`;
  throw mismatch(checkpoint, `it has ${extra[0]}${more}, which this run does not have`);
}

function positionOf({ step, position, extra }: Checkpoint): RunPosition {
  const {
    tally: stored,
    history,
    orderOffset = 0,
    rateScale = 1,
  } = decode(extra) as {
    tally: {
      loss: number;
      examples: number;
      rejected: number;
      sums: { [name: string]: MetricSums };
    };
    history: EpochRecord[];
    // Missing in checkpoints of Heddle 0.1.0.
    orderOffset?: number;
    rateScale?: number;
  };
  const tally = new Tally();
  tally.loss = stored.loss;
  tally.examples = stored.examples;
  tally.rejected = stored.rejected;
  for (const [name, sums] of Object.entries(stored.sums)) tally.sums.set(name, sums);
  const records = history.map((record) => ({ ...record, validation: record.validation ?? undefined }));
  const { epoch, step: batch } = position;
  return { steps: step, epoch, batch, tally, history: records, orderOffset, rateScale };
}

function find(checkpoint: Checkpoint, name: string, type: TensorType): HostTensor {
  const tensor = checkpoint.tensors.get(name);
  if (tensor === undefined) throw mismatch(checkpoint, `it has no ${name}`);
  if (!sameType(tensor, type)) {
    const sent = /^optimizer\/compression\.(.*)$/.exec(name)?.[1];
    const fitted = sent === undefined ? undefined : forDevices(sent, tensor, type);
    if (fitted !== undefined) return fitted;
    throw mismatch(checkpoint, `its ${name} is ${formatType(tensor)}, this run's is ${formatType(type)}`);
  }
  return tensor;
}

function checkSameRun(checkpoint: Checkpoint, settings: Settings): void {
  const { seed, extra } = checkpoint;
  if (seed !== settings.seed) throw mismatch(checkpoint, `its seed is ${seed}, this run's is ${settings.seed}`);
  if (extra["optimizer"] !== settings.optimizer.name) {
    throw mismatch(
      checkpoint,
      `its optimizer is ${String(extra["optimizer"])}, this run's is ${settings.optimizer.name}`,
    );
  }
  const theirs = (extra["data"] ?? {}) as { [key: string]: Plain };
  const ours = settings.data.describe(settings.seed);
  for (const part of new Set([...Object.keys(theirs), ...Object.keys(ours)])) {
    const [left, right] = [canonicalJson(theirs[part] ?? null), canonicalJson(ours[part] ?? null)];
    if (left !== right) throw mismatch(checkpoint, `its data has ${part} ${left}, this run's has ${right}`);
  }
  if (typeof extra["tally"] !== "object" || !Array.isArray(extra["history"])) {
    throw mismatch(checkpoint, "it was not written by train()");
  }
}

function mismatch(checkpoint: Checkpoint, problem: string): HeddleError {
  return new HeddleError("checkpoint", `cannot resume from ${checkpoint.path}: ${problem}`, {
    hint: "run with the options of the run that wrote it, or without resume",
  });
}

/** Frees the memory of values. */
export function disposeState(values: TrainState): void {
  for (const tensor of flattenTree(values, isTensor).leaves) tensor.dispose();
}
