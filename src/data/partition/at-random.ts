/** @module Disjoint parts of random rows. */
import { order, shardSizes } from "../order.ts";
import { checkPartition, inParts, type Partition, type RandomPartitionOptions } from "./partition.ts";

/** Each worker has random rows, disjoint; the seed decides which. @throws HeddleError `option`, `data` */
export function atRandom(options: RandomPartitionOptions): Partition {
  checkPartition("atRandom", options, ["seed"]);
  const { rows, workers, seed = 0 } = options;
  const shuffled = order(seed, 0, rows);
  return inParts(shardSizes(rows, workers), (index) => shuffled.at(index));
}
