/** @module Partitions: how the elements along a dim are split over the devices of an axis, in order. */
import type { MeshAxis } from "./mesh.ts";

/** Number of elements of each device; undefined: equal numbers. */
export type Sizes = readonly number[] | undefined;

/** Elements `[from, to)` along a dim. */
export type Interval = readonly [from: number, to: number];

const isEven = (sizes: readonly number[]): boolean => sizes.every((size) => size === sizes[0]);

/** The sizes; undefined when they are equal. */
export const canonical = (sizes: readonly number[]): Sizes => (isEven(sizes) ? undefined : sizes);

/** `length` split in proportion to shares, rounded to whole numbers by largest remainder. */
export function proportional(length: number, shares: readonly number[]): number[] {
  const total = shares.reduce((sum, share) => sum + share, 0);
  const exact = shares.map((share) => (total === 0 ? 0 : (length * share) / total));
  const sizes = exact.map(Math.floor);
  const leftOver = length - sizes.reduce((sum, size) => sum + size, 0);
  const byRemainder = exact
    .map((size, index) => ({ index, remainder: size - Math.floor(size) }))
    .sort((left, right) => right.remainder - left.remainder || left.index - right.index);
  for (const { index } of byRemainder.slice(0, leftOver)) (sizes[index] as number)++;
  return sizes;
}

/** How an axis splits `length` elements by default: by its shares, else as equally as possible. */
export const dealt = (length: number, axis: MeshAxis): Sizes =>
  canonical(proportional(length, axis.shares ?? Array.from({ length: axis.size }, () => 1)));

/** The size of each device's part, written out. */
export const sizesOn = (sizes: Sizes, length: number, parts: number): readonly number[] =>
  sizes ?? Array.from({ length: parts }, () => length / parts);

/** The interval of each device. */
export function intervals(sizes: readonly number[]): Interval[] {
  let from = 0;
  return sizes.map((size): Interval => {
    from += size;
    return [from - size, from];
  });
}
