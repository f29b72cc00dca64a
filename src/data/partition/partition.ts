/** @module Which rows of a dataset each worker has. */
import { checkOptions } from "../../util/options.ts";
import { checkCount, largestLength } from "../order.ts";

/** What is divided. */
export interface PartitionOptions {
  readonly rows: number;
  readonly workers: number;
}

/** What is divided at random. */
export interface RandomPartitionOptions extends PartitionOptions {
  /** The seed of the order; default 0. */
  readonly seed?: number;
}

/** The rows of each worker. */
export type Partition = readonly Int32Array[];

/** @throws HeddleError `option` for an unknown option, `data` for a malformed number */
export function checkPartition(name: string, options: PartitionOptions, more: readonly string[] = []): void {
  checkOptions(name, options, ["rows", "workers", ...more]);
  checkCount("rows", options.rows, largestLength);
  checkCount("workers", options.workers, largestLength, 1);
}

/** Divides rows in an order into parts of these sizes, one after another. */
export function inParts(sizes: readonly number[], at: (index: number) => number): Partition {
  let start = 0;
  return sizes.map((size) => {
    const first = start;
    start += size;
    return Int32Array.from({ length: size }, (_unused, index) => at(first + index));
  });
}
