/** @module Which rows each worker has: a small file each. */
export { atRandom } from "./at-random.ts";
export { contiguous } from "./contiguous.ts";
export { type OverlappingOptions, overlapping } from "./overlapping.ts";
export type { Partition, PartitionOptions, RandomPartitionOptions } from "./partition.ts";
export { roundRobin } from "./round-robin.ts";
export { type StratifiedOptions, stratified } from "./stratified.ts";
