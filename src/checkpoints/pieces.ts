/**
 * @module Pieces of tensors: the boxes into which a layout cuts a value, the rank that writes each of them, and the bytes that two
 * boxes have in common.
 */

import { dtypes } from "../ir/dtype.ts";
import { type Shape, sizeOf, stridesOf, type TensorType } from "../ir/shape.ts";
import { coordinatesOf, deviceCount, type Layout, localType, type Mesh, partStart, resolved } from "../plan/index.ts";

/** A box of elements of a tensor: where the box begins along each dim, and its sizes. */
export interface Box {
  readonly start: readonly number[];
  readonly shape: Shape;
}

/** A tensor by its type and layout. */
export interface Placed {
  readonly name: string;
  readonly type: TensorType;
  readonly layout: Layout;
}

/** A piece of a tensor, the rank that writes it, and the device of that rank whose memory has it. */
export interface Piece extends Box {
  readonly name: string;
  readonly type: TensorType;
  readonly rank: number;
  readonly device: number;
}

/** The whole tensor as a box. */
export const wholeBox = (shape: Shape): Box => ({ start: shape.map(() => 0), shape });

/** The box of a device; undefined if the device holds no part of the tensor. */
export function boxOf(
  { type, layout }: Omit<Placed, "name">,
  mesh: Mesh,
  coordinates: readonly number[],
): Box | undefined {
  const away = layout.some(
    (placement, axis) => placement.kind === "only" && placement.coordinate !== coordinates[axis],
  );
  if (away) return undefined;
  const sized = resolved(type, layout, mesh);
  return { start: partStart(type, sized, mesh, coordinates), shape: localType(type, sized, mesh, coordinates).shape };
}

/**
 * The pieces of all tensors, each with one writer. Of the ranks that hold a piece the one with the fewest bytes so far writes it, so the
 * work is even; all ranks compute the same pieces from the same layouts.
 *
 * @param rankOf the rank of a device; default: one device per rank
 */
export function piecesOf(
  tensors: readonly Placed[],
  mesh: Mesh,
  rankOf: (device: number) => number = (device) => device,
): Piece[] {
  const load: number[] = [];
  const bytesOn = (device: number): number => load[rankOf(device)] ?? 0;
  const places = Array.from({ length: deviceCount(mesh) }, (_unused, device) => coordinatesOf(mesh, device));
  return tensors.flatMap(({ name, type, layout }) => {
    const boxes = new Map<string, { readonly box: Box; readonly devices: number[] }>();
    for (const [device, coordinates] of places.entries()) {
      const box = boxOf({ type, layout }, mesh, coordinates);
      // A device without elements holds nothing, unless nobody does.
      if (box === undefined || (sizeOf(box.shape) === 0 && sizeOf(type.shape) > 0)) continue;
      const key = box.start.join(",");
      const known = boxes.get(key);
      if (known === undefined) boxes.set(key, { box, devices: [device] });
      else known.devices.push(device);
    }
    return [...boxes.values()].map(({ box, devices }): Piece => {
      const device = devices.reduce((best, other) => (bytesOn(other) < bytesOn(best) ? other : best));
      load[rankOf(device)] = bytesOn(device) + sizeOf(box.shape) * dtypes[type.dtype].bytes;
      return { ...box, name, type, rank: rankOf(device), device };
    });
  });
}

/** A run of bytes that two boxes share, by its place in each. */
export interface SharedRun {
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
}

/** The runs of bytes that `source` shares with `target`, in the order of the source; both are packed and row-major. */
export function* sharedRuns(source: Box, target: Box, elementBytes: number): Generator<SharedRun> {
  const rank = source.shape.length;
  const first = source.start.map((start, dim) => Math.max(start, target.start[dim] as number));
  const sizes = first.map((start, dim) => {
    const end = (box: Box): number => (box.start[dim] as number) + (box.shape[dim] as number);
    return Math.min(end(source), end(target)) - start;
  });
  if (sizes.some((size) => size <= 0)) return;
  const [from, to] = [stridesOf(source.shape), stridesOf(target.shape)];
  const offset = (box: Box, strides: readonly number[]): number =>
    first.reduce((sum, start, dim) => sum + (start - (box.start[dim] as number)) * (strides[dim] as number), 0);
  // Dims at the end that both boxes have whole form one run.
  let inner = rank;
  let run = 1;
  while (inner > 0) {
    inner--;
    run *= sizes[inner] as number;
    if (sizes[inner] !== source.shape[inner] || sizes[inner] !== target.shape[inner]) break;
  }
  const bytes = run * elementBytes;
  const index = sizes.slice(0, inner).map(() => 0);
  let [left, right] = [offset(source, from), offset(target, to)];
  for (;;) {
    yield { from: left * elementBytes, to: right * elementBytes, bytes };
    let dim = inner - 1;
    while (dim >= 0) {
      left += from[dim] as number;
      right += to[dim] as number;
      index[dim] = (index[dim] as number) + 1;
      if ((index[dim] as number) < (sizes[dim] as number)) break;
      left -= (from[dim] as number) * (sizes[dim] as number);
      right -= (to[dim] as number) * (sizes[dim] as number);
      index[dim] = 0;
      dim--;
    }
    if (dim < 0) return;
  }
}

/** Bytes of a chunk of a piece that are needed, and where they go. */
export interface ChunkRead {
  /** The number of the chunk in the piece. */
  readonly index: number;
  readonly bytes: number;
  /** `from` counts from the start of the chunk. */
  readonly runs: readonly SharedRun[];
}

/** The chunks of a piece that have bytes of a box, in order. `chunk` is the size of all but the last. */
export function* chunkReads(
  piece: Box & { readonly bytes: number },
  wanted: Box,
  elementBytes: number,
  chunk: number,
): Generator<ChunkRead> {
  let index = 0;
  let runs: SharedRun[] = [];
  const read = (): ChunkRead => ({ index, bytes: Math.min(chunk, piece.bytes - index * chunk), runs });
  for (const run of sharedRuns(piece, wanted, elementBytes)) {
    for (let done = 0; done < run.bytes; ) {
      const at = run.from + done;
      const next = Math.floor(at / chunk);
      if (next !== index) {
        if (runs.length > 0) yield read();
        index = next;
        runs = [];
      }
      const from = at - index * chunk;
      const bytes = Math.min(run.bytes - done, chunk - from);
      runs.push({ from, to: run.to + done, bytes });
      done += bytes;
    }
  }
  if (runs.length > 0) yield read();
}
