/** @module Batches of sequences of similar length: few shapes to compile, and little padding to compute. */
import { type Tensor, tensor } from "../functions/index.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { ByLength, checkBounds } from "./by-length.ts";

/** Options of {@link lengthBuckets}. */
export interface LengthBucketOptions {
  /** The largest length of each bucket, ascending; sequences are padded to it. */
  readonly bounds: readonly number[];
  /** Number of sequences in a batch; default 32. */
  readonly batch?: number;
  /** Value of the padding after a sequence; default 0. */
  readonly pad?: number;
  /** Seed of the order; `null` keeps the order of the sequences, bucket after bucket. Default 0. */
  readonly seed?: number | null;
  /** Leave out a bucket's last batch when it is short; default false. */
  readonly dropRemainder?: boolean;
}

/** A batch of padded sequences. */
export interface SequenceBatch {
  /** The padded sequences, i32 `[batch, bound]`. */
  readonly ids: Tensor;
  /** Lengths without padding, i32 `[batch]`. */
  readonly lengths: Tensor;
  /** Indices of the sequences. */
  readonly indices: readonly number[];
}

/** Sequences in buckets. */
export interface LengthBuckets {
  /** Number of batches in an epoch. */
  readonly batches: number;
  /** The sequences of each bucket, by index. */
  readonly buckets: readonly (readonly number[])[];
  /** The batches of an epoch, counted from 0; each is made when it is needed. */
  epoch(epoch: number): Generator<SequenceBatch>;
}

/**
 * Batches of sequences of ids whose lengths lie within the same bounds. The order of sequences within a
 * bucket, and of batches, depends on seed and epoch alone: it is the same in every process.
 *
 * @throws HeddleError `option` when bounds do not ascend; `data` when a sequence is longer than the last bound
 */
export function lengthBuckets(sequences: readonly ArrayLike<number>[], options: LengthBucketOptions): LengthBuckets {
  const name = "lengthBuckets";
  checkOptions(name, options, ["bounds", "batch", "pad", "seed", "dropRemainder"]);
  const { bounds, batch = 32, pad = 0, seed = 0, dropRemainder = false } = options;
  checkBounds(name, bounds);
  checkInteger(name, "batch", batch, 1);
  checkInteger(name, "pad", pad, -(2 ** 31), 2 ** 31 - 1);
  if (seed !== null) checkInteger(name, "seed", seed);
  const lengthOf = (index: number): number => (sequences[index] as ArrayLike<number>).length;
  const byLength = new ByLength(name, sequences.keys(), lengthOf, { bounds, batch, dropRemainder });

  /** Generates the batches of an epoch. */
  function* epoch(number: number): Generator<SequenceBatch> {
    const find = byLength.epoch(seed, number);
    for (let position = 0; position < byLength.batches; position++) {
      const { rows, length } = find(position);
      yield padded(sequences, rows, length, pad);
    }
  }
  return { batches: byLength.batches, buckets: byLength.buckets, epoch };
}

function padded(
  sequences: readonly ArrayLike<number>[],
  indices: readonly number[],
  bound: number,
  pad: number,
): SequenceBatch {
  const ids = new Int32Array(indices.length * bound).fill(pad);
  const lengths = Int32Array.from(indices, (index) => (sequences[index] as ArrayLike<number>).length);
  indices.forEach((index, row) => {
    ids.set(Array.from(sequences[index] as ArrayLike<number>), row * bound);
  });
  return { ids: tensor(ids, { shape: [indices.length, bound] }), lengths: tensor(lengths), indices };
}
