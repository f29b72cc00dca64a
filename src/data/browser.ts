/** @module Data in memory: the part of this folder that runs in a browser. */
export * as batchSizes from "./batch-sizes/index.ts";
export { type BatchesOptions, batches } from "./batches.ts";
export { type LengthBucketOptions, type LengthBuckets, lengthBuckets, type SequenceBatch } from "./buckets.ts";
export type { BatchForm } from "./by-length.ts";
export {
  type ArrayColumn,
  type Column,
  columnDType,
  columnFromArray,
  columnFromLoader,
  type PaddedOptions,
  padded,
  type ReadMoment,
  type RowIndices,
  type RowRange,
  rowElements,
  type Transform,
} from "./column.ts";
export {
  type BatchByLengthOptions,
  type BatchOptions,
  type BatchRows,
  type BatchRowsOptions,
  Dataset,
  fromArrays,
  fromColumns,
  type ShuffleOptions,
} from "./dataset.ts";
export { type Deduplicated, type DeduplicateOptions, deduplicate } from "./duplicates/deduplicate.ts";
export { gatherRows, type HostRows, hostGather, type RowGather } from "./gather.ts";
export { type IdxArray, type IdxHeader, parseIdx } from "./idx.ts";
export { type Batch, defaultAhead, type LoaderOptions, loader } from "./loader.ts";
export { type Order, order, shardSizes } from "./order.ts";
export * as partition from "./partition/index.ts";
export { columnFromRanges, type RangeSource } from "./ranges.ts";
export type { OnBad, Outcome, RecordMoment, RemoteFunction, RowFunction } from "./records/apply.ts";
export type {
  BatchColumn,
  BatchOf,
  HostBatch,
  ReadBatches,
  RecordBatches,
  RecordBatchOptions,
} from "./records/batches.ts";
export type { BatchValues } from "./records/collate.ts";
export type { AnyRow, Piece, Values } from "./records/piece.ts";
export { type ApplyOptions, type ReadRecords, type RecordShuffleOptions, Records } from "./records/records.ts";
export { fromDataset, fromGenerator, fromRows, type MixOptions, mix } from "./records/sources.ts";
export { balanced, type SplitOptions, split } from "./records/split.ts";
export {
  type PaddedDatasetOptions,
  type StreamedOptions,
  streamed,
  type ToDatasetOptions,
  toDataset,
} from "./records/to-dataset.ts";
