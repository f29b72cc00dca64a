/** @module Disjoint parts of neighbouring rows. */
import { shardSizes } from "../order.ts";
import { checkPartition, inParts, type Partition, type PartitionOptions } from "./partition.ts";

/** Each worker has neighbouring rows; the first workers have one more where the rows do not divide. @throws HeddleError `option`, `data` */
export function contiguous(options: PartitionOptions): Partition {
  checkPartition("contiguous", options);
  return inParts(shardSizes(options.rows, options.workers), (row) => row);
}
