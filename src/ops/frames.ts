/** @module Windows that slide along a dim as two dims, and their sum where they lie: each is the transpose of the other. */
import type { Node } from "../ir/node.ts";
import { otherDims, range } from "../ir/shape.ts";
import * as emit from "./emit.ts";
import { inverseOrder } from "./host-arrays.ts";

/** Windows along a dim: how many elements apart they begin, and how many apart their own elements are. */
export interface Sliding {
  readonly size: number;
  readonly count: number;
  readonly stride: number;
  readonly dilation: number;
}

/** The place of each element `[size, count]` of each window (i32). */
function placesOf({ size, count, stride, dilation }: Sliding): Node {
  const along = (dim: number, by: number): Node => emit.mul(emit.iota("i32", [size, count], dim), by);
  return emit.add(along(0, dilation), along(1, stride));
}

/** A dim as two: the elements of a window, and the windows. */
export const windowsAlong = (x: Node, dim: number, sliding: Sliding): Node => emit.take(x, placesOf(sliding), dim);

/** Two dims, `dim` and the next, added up into one of `length` elements. */
export function foldAlong(x: Node, dim: number, length: number, sliding: Sliding): Node {
  const rows = emit.transpose(x, [dim, dim + 1, ...otherDims(x.shape.length, [dim, dim + 1])]);
  const sums = emit.scatterAdd(rows, placesOf(sliding), length);
  return emit.transpose(sums, inverseOrder([dim, ...otherDims(sums.shape.length, [dim])]));
}

/** `[batch, channels · elements, windows]` of `[batch, channels, …]`. */
export function unfold(x: Node, sliding: readonly Sliding[]): Node {
  const [batch, channels] = x.shape as [number, number];
  // Each spatial dim becomes a pair, so the place of the next moves on by one.
  const paired = sliding.reduce((y, windows, at) => windowsAlong(y, 2 + 2 * at, windows), x);
  const order = [
    0,
    1,
    ...range(sliding.length).map((at) => 2 + 2 * at),
    ...range(sliding.length).map((at) => 3 + 2 * at),
  ];
  const sizes = sliding.reduce((product, { size }) => product * size, channels);
  const counts = sliding.reduce((product, { count }) => product * count, 1);
  return emit.reshape(emit.transpose(paired, order), [batch, sizes, counts]);
}

/** The transpose of {@link unfold}, to spatial dims of these lengths. */
export function fold(x: Node, lengths: readonly number[], sliding: readonly Sliding[]): Node {
  const [batch, rows] = x.shape as [number, number];
  const taps = sliding.reduce((product, { size }) => product * size, 1);
  const rank = sliding.length;
  const whole = emit.reshape(x, [
    batch,
    rows / taps,
    ...sliding.map(({ size }) => size),
    ...sliding.map(({ count }) => count),
  ]);
  const order = [0, 1, ...range(rank).flatMap((at) => [2 + at, 2 + rank + at])];
  return sliding.reduce(
    (y, windows, at) => foldAlong(y, 2 + at, lengths[at] as number, windows),
    emit.transpose(whole, order),
  );
}
