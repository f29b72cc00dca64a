/** @module How a matrix lies on the workers of a run: whole on each of them, or a block of its rows or columns on each. */

import { cells, type Size } from "../expression.ts";

/** Whole on each worker, or in blocks along this dim: 0 for blocks of rows. */
export type Form = "whole" | 0 | 1;

/** How what the workers have makes up a value, element by element. */
export type Reduction = "sum" | "min" | "max" | "product";

/** The place of a worker among all. */
export interface Place {
  readonly rank: number;
  readonly size: number;
}

/** Where the block of a worker begins along a side of this length. Equal lengths are cut at equal places, whatever the matrix is. */
export const blockStart = (length: number, rank: number, size: number): number => Math.floor((length * rank) / size);

/** The lengths of all blocks of a side. */
export const blockLengths = (length: number, size: number): number[] =>
  Array.from({ length: size }, (_unused, rank) => blockStart(length, rank + 1, size) - blockStart(length, rank, size));

/** The length of one worker's block. */
export const blockLength = (length: number, { rank, size }: Place): number =>
  blockStart(length, rank + 1, size) - blockStart(length, rank, size);

/** Rows and columns of what a worker has. */
export const localSize = (size: Size, form: Form, place: Place): Size =>
  form === "whole"
    ? size
    : (size.map((length, dim) => (dim === form ? blockLength(length, place) : length)) as unknown as Size);

/** A change from one form to another. */
export type Move =
  | { readonly kind: "gather"; readonly dim: 0 | 1 }
  | { readonly kind: "cut"; readonly dim: 0 | 1 }
  | { readonly kind: "turn"; readonly to: 0 | 1 }
  | { readonly kind: "reduce"; readonly reduction: Reduction }
  | { readonly kind: "scatter"; readonly dim: 0 | 1; readonly reduction: Reduction };

/**
 * Bytes that all workers together send for a change of a matrix of f64 of n bytes on P workers: n (P - 1) where each gets what the others have
 * (gather) or a block of the sum (scatter), 2 n (P - 1) where each gets all of the sum (reduce: a scatter and a gather, as in a ring),
 * what lies in another's block for a change from rows to columns (turn), and nothing for a cut of what is whole.
 */
export function bytesOfMove({ kind }: Move, size: Size, workers: number): number {
  const bytes = 8 * cells(size);
  switch (kind) {
    case "cut":
      return 0;
    case "gather":
    case "scatter":
      return bytes * (workers - 1);
    case "reduce":
      return 2 * bytes * (workers - 1);
    case "turn": {
      const [rows, columns] = size.map((length) => blockLengths(length, workers)) as [number[], number[]];
      const stays = rows.reduce((sum, length, rank) => sum + length * (columns[rank] as number), 0);
      return bytes - 8 * stays;
    }
  }
}

/** Sums of at most so many bytes are sent whole; parts of larger ones travel, to be summed up and to be gathered. */
const wholeMessage = 2 ** 16;

/** Messages of a worker that wait for one another. */
export function roundsOfMove({ kind }: Move, size: Size, workers: number): number {
  if (kind === "cut") return 0;
  return (kind === "reduce" && 8 * cells(size) > wholeMessage ? 2 : 1) * (workers - 1);
}

/** Changes that give `wanted` from what is there. */
export function moveTo(from: Form | Reduction, wanted: Form): Move | undefined {
  if (from === wanted) return undefined;
  if (from === "whole") return { kind: "cut", dim: wanted as 0 | 1 };
  if (from === 0 || from === 1)
    return wanted === "whole" ? { kind: "gather", dim: from } : { kind: "turn", to: wanted };
  return wanted === "whole" ? { kind: "reduce", reduction: from } : { kind: "scatter", dim: wanted, reduction: from };
}
