/** @module Rows by the length of their sequences: each batch has rows of one bucket, padded to its bound. */
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { order } from "./order.ts";

/** What makes the batches of {@link ByLength}. */
export interface ByLengthOptions {
  /** The largest length of each bucket, ascending. */
  readonly bounds: readonly number[];
  /** Rows of a batch. */
  readonly batch: number;
  /** Leave out a bucket's last batch when it is short. */
  readonly dropRemainder: boolean;
}

/** A kind of batches: its rows, and the length to which sequences are cut, or padded. */
export interface BatchForm {
  readonly rows: number;
  /** Undefined for batches that are not by length. */
  readonly length?: number | undefined;
}

/** Rows of one batch. */
export interface BucketRows {
  readonly rows: readonly number[];
  readonly length: number;
}

/** @throws HeddleError `option` unless `bounds` are ascending lengths */
export function checkBounds(name: string, bounds: unknown): asserts bounds is readonly number[] {
  if (!Array.isArray(bounds) || bounds.length === 0)
    throw new HeddleError("option", `${name}: bounds must be lengths such as [16, 32], got ${String(bounds)}`);
  (bounds as number[]).forEach((bound, index) => {
    checkInteger(name, `bounds[${index}]`, bound, index === 0 ? 1 : (bounds[index - 1] as number) + 1);
  });
}

/** Rows in buckets, and their batches. The order of an epoch depends on the seed and the epoch alone. */
export class ByLength {
  /** The rows of each bucket, in the order that they were given in. */
  readonly buckets: readonly (readonly number[])[];
  readonly options: ByLengthOptions;
  private readonly counts: readonly number[];
  /** Batches of an epoch. */
  readonly batches: number;

  /**
   * @param lengths the length of a row's sequence
   * @throws HeddleError `data` for a row that is longer than the last bound
   */
  constructor(name: string, rows: Iterable<number>, lengths: (row: number) => number, options: ByLengthOptions) {
    const { bounds, batch, dropRemainder } = options;
    const buckets = bounds.map((): number[] => []);
    for (const row of rows) {
      const length = lengths(row);
      const bucket = buckets[bounds.findIndex((bound) => length <= bound)];
      if (bucket === undefined) {
        const text = `${name}: sequence ${row} has ${length} elements, above the last bound ${bounds.at(-1)}`;
        throw new HeddleError("data", text);
      }
      bucket.push(row);
    }
    this.buckets = buckets;
    this.options = options;
    this.counts = buckets.map(({ length }) => (dropRemainder ? Math.floor(length / batch) : Math.ceil(length / batch)));
    this.batches = this.counts.reduce((sum, count) => sum + count, 0);
  }

  /** The kinds of batches of an epoch: most rows first, among those the longest first. */
  get forms(): readonly BatchForm[] {
    const { bounds, batch, dropRemainder } = this.options;
    const forms = this.buckets.flatMap(({ length: count }, bucket) => {
      const length = bounds[bucket] as number;
      const rest = dropRemainder ? 0 : count % batch;
      return [...(count >= batch ? [{ rows: batch, length }] : []), ...(rest > 0 ? [{ rows: rest, length }] : [])];
    });
    return forms.sort((a, b) => b.rows - a.rows || b.length - a.length);
  }

  /** Finds the batches of an epoch by their number. `seed: null`: rows in the order given, bucket after bucket. */
  epoch(seed: number | null, epoch: number): (batch: number) => BucketRows {
    const { bounds, batch: size } = this.options;
    const ordered = (length: number, ordinal: number): ((position: number) => number) =>
      seed === null ? (position) => position : order(seed, epoch, length, ordinal).at;
    const find = this.buckets.map(({ length }, bucket) => ordered(length, bucket));
    const turns = ordered(this.batches, this.buckets.length);
    return (batch) => {
      let turn = turns(batch);
      let bucket = 0;
      for (; turn >= (this.counts[bucket] as number); bucket++) turn -= this.counts[bucket] as number;
      const members = this.buckets[bucket] as readonly number[];
      const count = Math.min(size, members.length - turn * size);
      const at = find[bucket] as (position: number) => number;
      const rows = Array.from({ length: count }, (_unused, index) => members[at(turn * size + index)] as number);
      return { rows, length: bounds[bucket] as number };
    };
  }
}
