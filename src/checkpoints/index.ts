/** @module Checkpoints: opened, listed, written and verified, in one file or in parts; drivers of storage. */
export type { Description } from "./description.ts";
export { openStorage, registerStorage } from "./drivers.ts";
export { type CheckpointState, tensorsUnder } from "./file.ts";
export { type Checkpoint, loadCheckpoint, type OpenOptions, openCheckpoint } from "./open.ts";
export type { Box } from "./pieces.ts";
export {
  type LatestCheckpoint,
  type LatestCheckpointOptions,
  latestCheckpoint,
  listCheckpoints,
  type SaveCheckpointOptions,
  type SavedCheckpoint,
  saveCheckpoint,
} from "./series.ts";
export type { Storage, StorageDriver, StoredFile, WriteOptions } from "./storage.ts";
export type { ListedCheckpoint, OpenCheckpoint } from "./types.ts";
