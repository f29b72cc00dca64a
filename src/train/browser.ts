/** @module Training without files: the part of this folder that runs in a browser. */
export type { HostTensor, HostTensors } from "../io/safetensors.ts";
export * as callbacks from "./callbacks/index.ts";
export {
  type DistributedStep,
  type DistributedStepOptions,
  distributedStep,
  type StepBatch,
  type StepGiven,
} from "./distributed-step.ts";
export { exportWeights } from "./export-weights.ts";
export type { LossScaleOptions } from "./guard.ts";
export type {
  Callbacks,
  EpochRecord,
  Evaluation,
  Snapshot,
  StepRecord,
  TrainControl,
  TrainEnd,
  TrainStart,
} from "./history.ts";
export {
  type Iterated,
  type IterateOptions,
  type IterationPlace,
  iterate,
  type LeftParts,
  type StatePart,
} from "./iterate.ts";
export { type LineagePlace, withLineage } from "./lineage.ts";
export { type Logs, logsOf } from "./logs.ts";
export type { NamedLosses, WeightedLoss } from "./losses.ts";
export type {
  CheckpointOptions,
  ClipOptions,
  LocalSteps,
  PipelineTraining,
  RecordTrainOptions,
  TrainOptions,
} from "./options.ts";
export { confusionTable, drawImage, drawImages } from "./report.ts";
export type { TrainResult } from "./result.ts";
export * as layouts from "./rules.ts";
export type { StartValues } from "./start-values.ts";
export { prepare, train } from "./train.ts";
export type { ClassWeight } from "./weights.ts";
