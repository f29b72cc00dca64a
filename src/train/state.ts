/** @module Converts the whole state of a run to a checkpoint and back. */

import type { Description } from "../checkpoints/description.ts";
import type { CheckpointState } from "../checkpoints/file.ts";
import type { PieceData } from "../checkpoints/parts.ts";
import { type Box, boxOf, type Piece, type Placed, piecesOf } from "../checkpoints/pieces.ts";
import type { OpenCheckpoint } from "../checkpoints/types.ts";
import { distribute, isTensor, meshOf, replicate, type Tensor } from "../functions/index.ts";
import type { TypedArray } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { bytesOf, isTensorType, type TensorType } from "../ir/shape.ts";
import { type Mesh, replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { HeddleError } from "../util/errors.ts";
import type { Plain } from "../util/text.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { problemOfExtra } from "./extra.ts";
import { checkFits, hasAnySize } from "./fits.ts";
import { type EpochRecord, type MetricSums, Tally } from "./history.ts";
import type { StateLayouts } from "./layouts.ts";
import type { Settings } from "./options.ts";
import { readTensors } from "./read-tensors.ts";
import { groups, keyType, type ModelTypes, type TrainState } from "./values.ts";

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

/** Bytes of all values in a checkpoint. */
export function stateBytes(types: ModelTypes): number {
  const leaves = groups.flatMap((group) => flattenTree(types.state[group], isTensorType).leaves);
  return leaves.reduce((total, type) => total + bytesOf(type), 0);
}

/** Everything that a checkpoint says of a run besides its values. */
async function describe(
  settings: Settings,
  key: Tensor,
  { steps, epoch, batch, tally, history, orderOffset, rateScale }: RunPosition,
): Promise<Omit<Description, "library">> {
  return {
    step: steps,
    position: { epoch, step: batch },
    seed: settings.seed,
    key: [...(await key.data())],
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
      ...(settings.frame === undefined ? {} : { frame: settings.frame.toJSON() }),
    }) as { [key: string]: Plain },
  };
}

/** The values, random key and position of a run between two steps. */
export interface RunState {
  readonly values: TrainState;
  readonly key: Tensor;
  readonly position: RunPosition;
}

/** A run as a checkpoint has it. */
export interface Restored {
  readonly state: RunState;
  /** The path of the checkpoint, or its address. */
  readonly path: string;
}

/** Which values a checkpoint has, by their names, such as `params/0.weight`. */
export type Includes = (name: string) => boolean;
const everything: Includes = () => true;

/** Values by the names that checkpoints give them. */
function named(values: TrainState, includes = everything): { readonly name: string; readonly leaf: Tensor }[] {
  return groups.flatMap((group) => {
    const { leaves, paths } = flattenTree(values[group], isTensor);
    return leaves
      .map((leaf, index) => ({ name: `${group}/${paths[index]}`, leaf }))
      .filter(({ name }) => includes(name));
  });
}

/**
 * Copies everything that the run needs to resume. Sharded values are gathered, one at a time: then every process
 * must call this function.
 */
export async function exportState(
  settings: Settings,
  { values, key, position }: RunState,
  includes = everything,
): Promise<CheckpointState> {
  const all = named(values, includes);
  const copies = await Promise.all(all.map(({ leaf }) => wholeData(leaf)));
  const tensors = all.map(({ name, leaf: { shape, dtype } }, index): [string, HostTensor] => [
    name,
    { shape, dtype, data: copies[index] as TypedArray },
  ]);
  return { ...(await describe(settings, key, position)), tensors: new Map(tensors) };
}

/** A copy of what this rank has of a run, without communication. */
export interface OwnPieces {
  readonly description: Omit<Description, "library">;
  readonly pieces: readonly PieceData[];
}

/** Memory of an earlier copy, by the names and places of pieces, for the next one: new memory costs more than the copy. */
export type Staging = Map<string, Uint8Array>;

/**
 * A copy of what this rank writes of a run: every piece of every value has one rank that writes it. The copy is in the memory of `staging`,
 * which is made at the first call.
 */
export async function exportPieces(
  settings: Settings,
  state: RunState,
  runtime: Runtime,
  includes = everything,
  staging?: Staging,
): Promise<OwnPieces> {
  const { rank, world } = runtime;
  const all = named(state.values, includes);
  const placed = all.map(
    ({ name, leaf: { dtype, shape, value } }): Placed => ({ name, type: { dtype, shape }, layout: value.layout }),
  );
  const [first] = all;
  // One device per process, or all devices in one.
  const rankOf = world === 1 ? () => 0 : (device: number) => device;
  const mesh = first === undefined ? { axes: [] } : meshOf(first.leaf.value.runtime);
  const own = piecesOf(placed, mesh, rankOf).filter((piece) => piece.rank === rank);
  return copyPieces(settings, state, runtime, own, staging);
}

/** A copy of all pieces that this rank's devices hold, of which other ranks may have copies. */
export async function exportHeld(settings: Settings, state: RunState, runtime: Runtime): Promise<OwnPieces> {
  const mesh = meshOf(runtime);
  const held = named(state.values).flatMap(({ name, leaf: { dtype, shape, value } }) => {
    const boxes = new Map<string, Place>();
    for (const [device, { coordinates }] of runtime.local.entries()) {
      const type = { dtype, shape };
      const box = boxOf({ type, layout: value.layout }, mesh, coordinates);
      if (box !== undefined) boxes.set(box.start.join(), { ...box, name, type, device });
    }
    return [...boxes.values()];
  });
  return copyPieces(settings, state, runtime, held);
}

/** Names of the values of which a device has the only copy of its part. */
export function soleNames(values: TrainState, { axes }: Mesh): ReadonlySet<string> {
  const isSole = ({ value }: Tensor): boolean =>
    axes.every(({ size }, axis) => size === 1 || value.layout[axis]?.kind !== "replicate");
  return new Set(named(values).flatMap(({ name, leaf }) => (isSole(leaf) ? [name] : [])));
}

type Place = Omit<Piece, "rank">;

async function copyPieces(
  settings: Settings,
  { values, key, position }: RunState,
  { local }: Runtime,
  places: readonly Place[],
  staging: Staging = new Map(),
): Promise<OwnPieces> {
  const leaves = new Map(named(values).map(({ name, leaf }) => [name, leaf]));
  const copied = async ({ name, type, start, shape, device }: Place): Promise<PieceData> => {
    const shards = (leaves.get(name) as Tensor).value.shards;
    const shard = shards[local.length === 1 ? 0 : device] as DeviceBuffer;
    const key = `${name}@${start.join()}`;
    const before = staging.get(key);
    const copy = await shard.read(before?.length === shard.bytes ? before : undefined);
    staging.set(key, copy);
    return { name, type, start, shape, bytes: copy };
  };
  return { description: await describe(settings, key, position), pieces: await Promise.all(places.map(copied)) };
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
 * Reads the values of a checkpoint onto the devices, of each value what the devices of this process hold. The checkpoint must fit
 * ({@link checkFits}).
 *
 * @throws HeddleError `checkpoint`, `format` or `file` if what is read is damaged; nothing is left on the devices then
 */
export async function importState(
  checkpoint: OpenCheckpoint,
  settings: Settings,
  types: ModelTypes,
  runtime: Runtime,
  layouts: StateLayouts,
): Promise<RunState> {
  const position = positionOf(checkpoint, settings);
  const trees = groups.map((group) => ({ group, ...flattenTree(types.state[group], isTensorType) }));
  const wanted = trees.flatMap(({ group, leaves, paths }) =>
    leaves.map((expected, index): Placed => {
      const layout = layouts.kept(`${group}.${paths[index]}`);
      const name = `${group}/${paths[index]}`;
      const found = checkpoint.entries.get(name);
      return { name, type: found !== undefined && hasAnySize(name, found) ? found : expected, layout };
    }),
  );
  const made: Tensor[] = [];
  try {
    for await (const tensor of readTensors(checkpoint, wanted, runtime)) made.push(tensor);
    const left = [...made];
    const read = trees.map(({ leaves, shape }) => unflattenTree(shape, left.splice(0, leaves.length)));
    const [params, optimizer, state] = read as [TrainState["params"], TrainState["optimizer"], TrainState["state"]];
    const key = Uint32Array.from(checkpoint.description.key);
    const values = { params, optimizer, state };
    return { values, key: distribute(runtime, key, keyType, replicated(meshOf(runtime))), position };
  } catch (error) {
    for (const tensor of made) tensor.dispose();
    throw error;
  }
}

/** What the devices of this process hold of each value, by the names that checkpoints give them. */
export function neededBoxes(
  types: ModelTypes,
  runtime: Runtime,
  layouts: StateLayouts,
): Map<string, { readonly type: TensorType; readonly boxes: readonly Box[] }> {
  const mesh = meshOf(runtime);
  const entries = groups.flatMap((group) => {
    const { leaves, paths } = flattenTree(types.state[group], isTensorType);
    return leaves.map((type, index) => {
      const layout = layouts.kept(`${group}.${paths[index]}`);
      const boxes = runtime.local.flatMap(({ coordinates }) => boxOf({ type, layout }, mesh, coordinates) ?? []);
      const distinct = [...new Map(boxes.map((box) => [box.start.join(), box])).values()];
      return [`${group}/${paths[index]}`, { type, boxes: distinct }] as const;
    });
  });
  return new Map(entries);
}

/** @throws HeddleError `checkpoint` if the position or the counts cannot be those of a run. */
function positionOf({ path, description }: OpenCheckpoint, { data }: Settings): RunPosition {
  const { step, position, extra } = description;
  const decoded = decode(extra);
  // After the last batch, what ends the epoch is still to be done.
  const beyond = position.step > data.batchesPerEpoch;
  const problem = beyond
    ? `its next batch is ${position.step}, an epoch has ${data.batchesPerEpoch}`
    : problemOfExtra(decoded);
  if (problem !== undefined) throw new HeddleError("checkpoint", `${path} is not a whole checkpoint: ${problem}`);
  const {
    tally: stored,
    orderOffset = 0,
    rateScale = 1,
  } = decoded as {
    tally: {
      loss: number;
      examples: number;
      rejected: number;
      sums: { [name: string]: MetricSums };
    };
    // Missing in checkpoints of Heddle 0.1.0.
    orderOffset?: number;
    rateScale?: number;
  };
  const tally = new Tally();
  tally.loss = stored.loss;
  tally.examples = stored.examples;
  tally.rejected = stored.rejected;
  for (const [name, sums] of Object.entries(stored.sums)) tally.sums.set(name, sums);
  const { epoch, step: batch } = position;
  return { steps: step, epoch, batch, tally, history: [...historyOf(description)], orderOffset, rateScale };
}

/** The epochs that a checkpoint has had; empty if it was not written by `train`. */
export function historyOf({ extra }: Description): readonly EpochRecord[] {
  const decoded = decode(extra) as { history: EpochRecord[] };
  if (problemOfExtra(decoded) !== undefined) return [];
  return decoded.history.map((record) => ({ ...record, validation: record.validation ?? undefined }));
}

/** Frees the memory of values. */
export function disposeState(values: TrainState): void {
  for (const tensor of flattenTree(values, isTensor).leaves) tensor.dispose();
}
