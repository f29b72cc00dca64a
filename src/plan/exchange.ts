/** @module The pieces of a dim that devices send each other, from the intervals that each holds and wants. */
import type { Attrs } from "../ir/node.ts";
import type { Interval } from "./partition.ts";

type Piece = [peer: number, start: number, count: number];

/**
 * The pieces that one device sends and receives so that every device gets its interval; positions are relative to the
 * device's intervals.
 */
export interface Moves {
  readonly sends: readonly Piece[];
  readonly receives: readonly Piece[];
}

const overlap = (a: Interval, b: Interval): Interval => [Math.max(a[0], b[0]), Math.min(a[1], b[1])];

/** Pieces of `interval` that lie in the peers' intervals. */
function pieces(interval: Interval, peers: readonly Interval[], at: number, relative: boolean): Piece[] {
  return peers.flatMap((peerInterval, peer): Piece[] => {
    const [from, to] = overlap(interval, peerInterval);
    return to > from ? [[relative ? peer - at : peer, from - interval[0], to - from]] : [];
  });
}

/** Moves of the device at coordinate `at` from one split of a dim to another; intervals may overlap on either side. */
export function movesAt(from: readonly Interval[], to: readonly Interval[], at: number, relative: boolean): Moves {
  return {
    sends: pieces(from[at] as Interval, to, at, relative),
    receives: pieces(to[at] as Interval, from, at, relative),
  };
}

/** Whether any device needs elements that another one holds. */
export const anyMoves = (from: readonly Interval[], to: readonly Interval[]): boolean =>
  from.some((_part, coordinate) => movesAt(from, to, coordinate, true).sends.some(([peer]) => peer !== 0));

/** Attributes of an exchange along one dim of a value of `shape`, on the device at `coordinate`. */
export function exchangeAttrs(
  common: { readonly axis: string; readonly parts: number; readonly label: string },
  shape: readonly number[],
  dim: number,
  {
    from,
    to,
    coordinate,
    relative,
  }: { from: readonly Interval[]; to: readonly Interval[]; coordinate: number; relative: boolean },
  reduction = "sum",
): Attrs {
  const [first, last] = to[coordinate] as Interval;
  const result = shape.map((size, index) => (index === dim ? last - first : size));
  const moves = movesAt(from, to, coordinate, relative);
  return { ...common, take: dim, put: dim, shape: result, ...moves, reduction, relative };
}
