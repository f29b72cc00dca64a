/** @module Partitions: how the elements along a dim are dealt out to the devices of an axis, in order. */
import type { MeshAxis } from "./mesh.ts";

/** Number of elements of each device; undefined: equal numbers. */
export type Sizes = readonly number[] | undefined;

/** Elements `[from, to)` along a dim. */
export type Interval = readonly [from: number, to: number];

const isEven = (sizes: readonly number[]): boolean => sizes.every((size) => size === sizes[0]);

/** The sizes, undefined where they are equal. */
export const canonical = (sizes: readonly number[]): Sizes => (isEven(sizes) ? undefined : sizes);

/** `length` dealt out in proportion to shares, as near as whole numbers come; what is left over goes to the first. */
export function proportional(length: number, shares: readonly number[]): number[] {
  const total = shares.reduce((sum, share) => sum + share, 0);
  const exact = shares.map((share) => (total === 0 ? 0 : (length * share) / total));
  const sizes = exact.map(Math.floor);
  const left = length - sizes.reduce((sum, size) => sum + size, 0);
  const byRemainder = exact
    .map((size, place) => ({ place, rest: size - Math.floor(size) }))
    .sort((one, other) => other.rest - one.rest || one.place - other.place);
  for (const { place } of byRemainder.slice(0, left)) (sizes[place] as number)++;
  return sizes;
}

/** How an axis deals out `length` elements when nobody says: by its shares, else as equally as possible. */
export const dealt = (length: number, axis: MeshAxis): Sizes =>
  canonical(proportional(length, axis.shares ?? Array.from({ length: axis.size }, () => 1)));

/** The sizes in full. */
export const sizesOn = (sizes: Sizes, length: number, parts: number): readonly number[] =>
  sizes ?? Array.from({ length: parts }, () => length / parts);

/** What each device has. */
export function intervals(sizes: readonly number[]): Interval[] {
  let from = 0;
  return sizes.map((size): Interval => {
    from += size;
    return [from - size, from];
  });
}
