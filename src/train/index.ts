/** @module Training: the loop over steps and epochs, evaluation, checkpoints, reports. */

export {
  type Checkpoint,
  type CheckpointState,
  latestCheckpoint,
  listCheckpoints,
  loadCheckpoint,
  type SavedCheckpoint,
  saveCheckpoint,
  tensorsUnder,
} from "../checkpoints/index.ts";
export { readSafetensors, saveSafetensors } from "../io/safetensors.ts";
export * from "./browser.ts";
