/** @module Values that the workers of a run hold together in their memories, gathered where they are needed. */
import { type FilledBox, type FilledValue, fillFrom, memoryCheckpoint } from "../checkpoints/memory.ts";
import type { PieceData } from "../checkpoints/parts.ts";
import { type Box, wholeBox } from "../checkpoints/pieces.ts";
import type { OpenCheckpoint } from "../checkpoints/types.ts";
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, range, sameType, sizeOf, type TensorType } from "../ir/shape.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { World } from "../runtime/world.ts";
import { HeddleError } from "../util/errors.ts";
import { gatherTexts } from "./drift.ts";
import type { OwnPieces } from "./state.ts";

/** What a worker's devices need of a value. */
export interface Needed {
  readonly type: TensorType;
  readonly boxes: readonly Box[];
}

/** What a worker says of what it holds. */
interface Holding {
  /** The training of the script, from 1. */
  readonly call: number;
  readonly states: readonly {
    readonly step: number;
    readonly pieces: readonly Omit<PieceData, "bytes">[];
  }[];
}

/**
 * The newest of the states that the workers hold together, with the boxes that this worker needs; undefined if there is none. Every worker
 * must call this function.
 *
 * @throws HeddleError `mismatch` if the workers are in different trainings of their scripts
 */
export async function newestTogether(
  own: readonly OwnPieces[],
  needed: ReadonlyMap<string, Needed>,
  { processes: world, rank }: Pick<Runtime, "processes" | "rank">,
  call: number,
): Promise<OpenCheckpoint | undefined> {
  const holding: Holding = {
    call,
    states: own.map(({ description: { step }, pieces }) => ({
      step,
      pieces: pieces.map(({ bytes: _bytes, ...piece }) => piece),
    })),
  };
  const texts = world && (await gatherTexts(world, JSON.stringify(holding), "what the workers hold"));
  const all = texts?.map((text) => JSON.parse(text) as Holding) ?? [holding];
  const step = newestWhole(all, needed);
  if (step === undefined) return undefined;
  const holders = range(all.length).filter((other) => all[other]?.states.some((state) => state.step === step));
  const other = range(all.length).find((index) => all[index]?.call !== all[holders[0] as number]?.call);
  if (other !== undefined)
    throw new HeddleError(
      "mismatch",
      `rank ${holders[0]} is in training ${all[holders[0] as number]?.call} of the script, rank ${other} in training ${all[other]?.call}`,
    );
  const mine = own.find(({ description }) => description.step === step);
  const source = holders[0] as number;
  const told = world === undefined ? mine?.description : await broadcastJson(world, source, mine?.description);
  const values = await gather(world, step, all, mine?.pieces ?? [], needed);
  const path = `the memory of rank ${holders.includes(rank) ? rank : source}`;
  return memoryCheckpoint(path, { ...(told as OwnPieces["description"]), library: "" }, values);
}

/** Names of what compression has kept back: each device has a row of its own. */
const unsent = "optimizer/compression.";

/** A piece, and the ranks that hold it. */
interface HeldPiece {
  readonly piece: Omit<PieceData, "bytes">;
  readonly ranks: number[];
}

const keyOf = ({ name, start }: Pick<PieceData, "name" | "start">): string => `${name}@${start}`;

/** The pieces of one step, by name and place. */
function piecesAt(all: readonly Holding[], step: number): Map<string, HeldPiece> {
  const found = new Map<string, HeldPiece>();
  for (const [rank, { states }] of all.entries())
    for (const piece of states.find((state) => state.step === step)?.pieces ?? []) {
      const known = found.get(keyOf(piece));
      if (known === undefined) found.set(keyOf(piece), { piece, ranks: [rank] });
      else known.ranks.push(rank);
    }
  return found;
}

/** The newest step of which the workers have every value whole. */
function newestWhole(all: readonly Holding[], needed: ReadonlyMap<string, Needed>): number | undefined {
  const steps = [...new Set(all.flatMap(({ states }) => states.map(({ step }) => step)))].sort((a, b) => b - a);
  return steps.find((step) => {
    const missing = new Map<string, number>();
    for (const { piece } of piecesAt(all, step).values()) {
      const { name, type, shape } = piece;
      const before = missing.get(name) ?? bytesOf(type);
      missing.set(name, before - bytesOf({ dtype: type.dtype, shape }));
    }
    // What a lost worker had not sent is lost with it; the training goes on without.
    return [...needed.keys()].every((name) => name.startsWith(unsent) || missing.get(name) === 0);
  });
}

/** Moves the pieces of one step to the workers that need parts of them. */
async function gather(
  world: World | undefined,
  step: number,
  all: readonly Holding[],
  own: readonly PieceData[],
  needed: ReadonlyMap<string, Needed>,
): Promise<Map<string, FilledValue>> {
  const values = new Map<string, { type: TensorType; boxes: FilledBox[] }>();
  const held = new Map(own.map((piece) => [keyOf(piece), piece]));
  for (const [key, { piece, ranks }] of piecesAt(all, step)) {
    const { name, type, start, shape } = piece;
    const { bytes: elementBytes } = dtypes[type.dtype];
    const mine = held.get(key)?.bytes;
    // What all have is sent by nobody.
    const isEverywhere = ranks.length === all.length;
    const length = bytesOf({ dtype: type.dtype, shape });
    const bytes =
      world === undefined || isEverywhere
        ? (mine as Uint8Array)
        : await world.broadcast(mine ?? new Uint8Array(length), ranks[0] as number, name);
    const want = needed.get(name);
    if (want === undefined) continue;
    // A value of another shape is made of the whole one, as that of compression on other numbers of devices.
    const boxes = sameType(want.type, type) ? want.boxes : [wholeBox(type.shape)];
    const value = values.get(name) ?? {
      type,
      boxes: boxes.map((box) => ({ ...box, bytes: new Uint8Array(sizeOf(box.shape) * elementBytes) })),
    };
    values.set(name, value);
    for (const target of value.boxes) fillFrom(target, { start, shape, bytes }, elementBytes);
  }
  return values;
}

async function broadcastJson<Said>(world: World, source: number, own: Said | undefined): Promise<Said> {
  const text = world.rank === source ? new TextEncoder().encode(JSON.stringify(own)) : undefined;
  const size = new Uint8Array(Uint32Array.of(text?.length ?? 0).buffer);
  const length = new Uint32Array((await world.broadcast(size, source, "a length")).slice().buffer)[0] as number;
  const bytes = await world.broadcast(text ?? new Uint8Array(length), source, "the position of a training");
  return JSON.parse(new TextDecoder().decode(bytes)) as Said;
}
