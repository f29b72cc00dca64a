/** @module Random parts that overlap, drawn anew for each epoch. */
import { checkNumber } from "../../util/options.ts";
import { order, shardSizes } from "../order.ts";
import { checkPartition, type Partition, type RandomPartitionOptions } from "./partition.ts";

/** Options of {@link overlapping}. */
export interface OverlappingOptions extends RandomPartitionOptions {
  /** The rows of other workers that a worker has besides its own, as a share of its own; default 0.1. */
  readonly overlap?: number;
  /** The epoch, counted from 0: each has another order. Default 0. */
  readonly epoch?: number;
}

/**
 * Each worker has a random part, and the first rows of the parts after it. Together the parts have all rows. No worker has a row
 * twice. @throws HeddleError `option`, `data`
 */
export function overlapping(options: OverlappingOptions): Partition {
  checkPartition("overlapping", options, ["seed", "overlap", "epoch"]);
  const { rows, workers, seed = 0, overlap = 0.1, epoch = 0 } = options;
  checkNumber("overlapping", "overlap", overlap, 0, workers);
  const shuffled = order(seed, epoch, rows);
  let start = 0;
  return shardSizes(rows, workers).map((size) => {
    const first = start;
    start += size;
    const length = Math.min(rows, size + Math.round(size * overlap));
    return Int32Array.from({ length }, (_unused, index) => shuffled.at((first + index) % rows));
  });
}
