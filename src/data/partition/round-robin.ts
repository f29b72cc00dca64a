/** @module Rows dealt out in turn. */
import { shardSizes } from "../order.ts";
import { checkPartition, type Partition, type PartitionOptions } from "./partition.ts";

/** Worker w has the rows w, w + workers, w + 2 · workers, … @throws HeddleError `option`, `data` */
export function roundRobin(options: PartitionOptions): Partition {
  checkPartition("roundRobin", options);
  const { rows, workers } = options;
  return shardSizes(rows, workers).map((size, worker) =>
    Int32Array.from({ length: size }, (_unused, index) => worker + index * workers),
  );
}
