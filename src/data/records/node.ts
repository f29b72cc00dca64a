/**
 * @module The steps of a chain of records. A node says how many records an epoch has, reads them from any record on, and, where its
 * source can seek, picks records by their number. What it reads depends on (seed, epoch, record) alone.
 */
import type { Link } from "./identity.ts";
import { cut, type Piece } from "./piece.ts";

/** Which epoch is read, and from which record on. */
export interface Reading {
  /** Counted from 0. */
  readonly epoch: number;
  /** The run's seed. */
  readonly seed: number;
  /** The first record, counted from 0. */
  readonly from: number;
  readonly signal?: AbortSignal | undefined;
}

/** Reading without a first record. */
export type Epoch = Omit<Reading, "from">;

/** Records that are picked by number, malformed ones left out. */
export interface Some {
  readonly count: number;
  readonly pick: (rows: ArrayLike<number>, epoch: Epoch) => Promise<Piece>;
}

/** A source of records, or a step after another. */
export interface Node {
  /** What is compared: the source and the steps. */
  readonly chain: readonly Link[];
  /** Records of an epoch; undefined where only reading tells. */
  readonly length: number | undefined;
  /** The records of an epoch from `from` on. */
  read(reading: Reading): AsyncIterable<Piece>;
  /** The records of these numbers, in this order. Absent where the source cannot seek. */
  readonly pick?: ((rows: ArrayLike<number>, epoch: Epoch) => Promise<Piece>) | undefined;
  /** As `pick`, where records may turn out malformed and be left out: of how many, and those of these numbers that are well-formed. */
  readonly some?: Some | undefined;
  /** Parts that can be read in any order, such as files and row groups: their first records, ascending. Absent: one part. */
  readonly parts?: (() => Promise<ArrayLike<number>>) | undefined;
}

/** Records that a node which picks reads at once. */
const pickedAtOnce = 1024;

/** Reads in order what a node picks. */
export async function* readPicked(
  pick: NonNullable<Node["pick"]>,
  length: number,
  { from, ...epoch }: Reading,
): AsyncGenerator<Piece> {
  for (let at = from; at < length; at += pickedAtOnce) {
    epoch.signal?.throwIfAborted();
    const count = Math.min(pickedAtOnce, length - at);
    yield await pick(
      Float64Array.from({ length: count }, (_unused, index) => at + index),
      epoch,
    );
  }
}

/** The pieces after the first `count` records. */
export async function* after(pieces: AsyncIterable<Piece>, count: number): AsyncGenerator<Piece> {
  let left = count;
  for await (const piece of pieces) {
    if (left >= piece.length) left -= piece.length;
    else {
      yield cut(piece, left, piece.length);
      left = 0;
    }
  }
}

/** The pieces with the first `count` records. */
export async function* upTo(pieces: AsyncIterable<Piece>, count: number): AsyncGenerator<Piece> {
  let left = count;
  if (left <= 0) return;
  for await (const piece of pieces) {
    yield cut(piece, 0, Math.min(left, piece.length));
    left -= piece.length;
    if (left <= 0) return;
  }
}

/** A node that picks its records, malformed ones left out: only reading tells how many there are. */
export const someNode = (chain: readonly Link[], some: Some): Node => ({
  chain,
  length: undefined,
  some,
  read: ({ from, ...epoch }) => after(readPicked(some.pick, some.count, { ...epoch, from: 0 }), from),
});
