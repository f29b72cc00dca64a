/** @module Partial results of sums (native/core/src/kernels/{reduce,rows/columns}.rs). */
import { product } from "./room.ts";

interface Dim {
  readonly size: number;
  readonly stride: number;
}

const sizeOfDims = (dims: readonly Dim[]): number => product(dims.map(({ size }) => size));

/** Elements that are folded as one piece, elements of one task, and columns that are folded side by side. */
const [piece, task, width] = [2 ** 14, 2 ** 15, 256] as const;

/** The number of partial results of a sum. */
export function reducePartials({
  keep,
  keepStrides,
  over,
  overStrides,
}: {
  readonly keep: readonly number[];
  readonly keepStrides: readonly number[];
  readonly over: readonly number[];
  readonly overStrides: readonly number[];
}): number {
  const outputs = product(keep);
  if (outputs * product(over) === 0) return 0;
  const [keptDims, foldedDims] = [merged(keep, keepStrides), merged(over, overStrides)];
  const [columns, inner] = [keptDims.at(-1), foldedDims.at(-1)];
  if (columns?.stride === 1 && columns.size >= 4 && inner !== undefined && inner.stride !== 1) {
    const outer = sizeOfDims(keptDims.slice(0, -1));
    const chunks = chunksOf(outer, columns.size, sizeOfDims(foldedDims));
    return chunks > 1 ? outer * chunks * columns.size : 0;
  }
  return rowPartials(foldedDims, outputs);
}

/** The number of chunks for rows that are folded to `outer` times `columns` values. */
export function chunksOf(outer: number, columns: number, rows: number): number {
  const work = Math.min(Math.floor((rows * columns) / task), Math.floor(rows / 64));
  return outer * Math.ceil(columns / width) >= 16 ? 1 : Math.min(Math.max(work, 1), 32);
}

function rowPartials(folded: readonly Dim[], outputs: number): number {
  const length = folded.at(-1)?.size ?? 1;
  const runs = sizeOfDims(folded.slice(0, -1));
  const pieces = runs * Math.max(Math.ceil(length / piece), 1);
  const group = 2 ** Math.ceil(Math.log2(Math.floor(piece / Math.min(Math.max(length, 1), piece))));
  const apart = outputs < 64 && pieces > group && outputs * length * runs > 4 * task;
  return apart ? outputs * Math.ceil(pieces / group) : 0;
}

/** Merges dims that are contiguous in memory. */
function merged(sizes: readonly number[], strides: readonly number[]): Dim[] {
  const dims: Dim[] = [];
  sizes.forEach((size, index) => {
    if (size === 1) return;
    const stride = strides[index] as number;
    const last = dims.at(-1);
    if (last !== undefined && last.stride === stride * size) dims[dims.length - 1] = { size: last.size * size, stride };
    else dims.push({ size, stride });
  });
  return dims;
}
