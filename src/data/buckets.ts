/** @module Batches of sequences of similar length: few shapes to compile, and little padding to compute. */
import { type Tensor, tensor } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { order } from "./order.ts";

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
  if (!Array.isArray(bounds) || bounds.length === 0)
    throw new HeddleError("option", `${name}: bounds must be lengths such as [16, 32], got ${String(bounds)}`);
  bounds.forEach((bound, index) => {
    checkInteger(name, `bounds[${index}]`, bound, index === 0 ? 1 : (bounds[index - 1] as number) + 1);
  });
  checkInteger(name, "batch", batch, 1);
  checkInteger(name, "pad", pad, -(2 ** 31), 2 ** 31 - 1);
  if (seed !== null) checkInteger(name, "seed", seed);
  const buckets = bounds.map((): number[] => []);
  sequences.forEach(({ length }, index) => {
    const bucket = bounds.findIndex((bound) => length <= bound);
    if (bucket < 0)
      throw new HeddleError(
        "data",
        `${name}: sequence ${index} has ${length} elements, above the last bound ${bounds.at(-1)}`,
      );
    buckets[bucket]?.push(index);
  });
  const counts = buckets.map(({ length }) => (dropRemainder ? Math.floor(length / batch) : Math.ceil(length / batch)));
  const batches = counts.reduce((sum, count) => sum + count, 0);

  /** Generates the batches of an epoch. */
  function* epoch(number: number): Generator<SequenceBatch> {
    const ordered = (length: number, ordinal: number): ((position: number) => number) =>
      seed === null ? (position) => position : order(seed, number, length, ordinal).at;
    const rows = buckets.map(({ length }, bucket) => ordered(length, bucket));
    const positions = counts.flatMap((count, bucket) =>
      Array.from({ length: count }, (_unused, turn) => ({ bucket, turn })),
    );
    const batchOrder = ordered(positions.length, buckets.length);
    for (let position = 0; position < positions.length; position++) {
      const { bucket, turn } = positions[batchOrder(position)] as { bucket: number; turn: number };
      const members = buckets[bucket] as readonly number[];
      const row = rows[bucket] as (at: number) => number;
      const size = Math.min(batch, members.length - turn * batch);
      const indices = Array.from({ length: size }, (_unused, index) => members[row(turn * batch + index)] as number);
      yield padded(sequences, indices, bounds[bucket] as number, pad);
    }
  }
  return { batches, buckets, epoch };
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
