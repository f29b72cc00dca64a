/** @module From who has what of a dim and who wants what of it to the pieces that devices send each other. */
import type { Attrs } from "../ir/node.ts";
import type { Interval } from "./partition.ts";

type Piece = [peer: number, start: number, count: number];

/** What the device at `place` sends and gets so that all have their part of `to`; positions are relative to its parts. */
export interface Moves {
  readonly sends: readonly Piece[];
  readonly receives: readonly Piece[];
}

const overlap = (one: Interval, other: Interval): Interval => [Math.max(one[0], other[0]), Math.min(one[1], other[1])];

/** Pieces of `mine` that lie in the others' intervals. */
function pieces(mine: Interval, others: readonly Interval[], place: number, relative: boolean): Piece[] {
  return others.flatMap((other, peer): Piece[] => {
    const [from, to] = overlap(mine, other);
    return to > from ? [[relative ? peer - place : peer, from - mine[0], to - from]] : [];
  });
}

/** Moves from one dealing of a dim to another; parts may overlap on either side. */
export function movesAt(from: readonly Interval[], to: readonly Interval[], place: number, relative: boolean): Moves {
  return {
    sends: pieces(from[place] as Interval, to, place, relative),
    receives: pieces(to[place] as Interval, from, place, relative),
  };
}

/** Whether any device needs what another one has. */
export const anyMoves = (from: readonly Interval[], to: readonly Interval[]): boolean =>
  from.some((_part, place) => movesAt(from, to, place, true).sends.some(([peer]) => peer !== 0));

/** Attributes of the exchange of a dim of a value of `shape` on the device at `place`. */
export function exchangeAttrs(
  common: { readonly axis: string; readonly parts: number; readonly label: string },
  shape: readonly number[],
  dim: number,
  {
    from,
    to,
    place,
    relative,
  }: { from: readonly Interval[]; to: readonly Interval[]; place: number; relative: boolean },
  reduction = "sum",
): Attrs {
  const [first, last] = to[place] as Interval;
  const result = shape.map((size, index) => (index === dim ? last - first : size));
  const moves = movesAt(from, to, place, relative);
  return { ...common, take: dim, put: dim, shape: result, ...moves, reduction, relative };
}
