/**
 * @module Heddle: define a model once; train it on one core or in many processes.
 *
 *     import { nn, optim, losses, data, train } from "heddle";
 */
export { maxIterations } from "./autograph/bound.ts";
export * as data from "./data/index.ts";
export * as io from "./io/index.ts";
export * as keras from "./keras/index.ts";
export * as losses from "./losses/index.ts";
export * as metrics from "./metrics/index.ts";
export { accuracy, binaryAccuracy, type Metric } from "./metrics/index.ts";
export * as nn from "./nn/index.ts";
export * as optim from "./optim/index.ts";
export { type Mesh, mesh } from "./plan/index.ts";
export { type MemoryUse, memory } from "./runtime/index.ts";
export * from "./tensor/public.ts";
export {
  type Callbacks,
  type ClassWeight,
  callbacks,
  confusionTable,
  type DistributedStep,
  type DistributedStepOptions,
  distributedStep,
  drawImages,
  type EpochRecord,
  type Evaluation,
  layouts,
  type NamedLosses,
  type PipelineTraining,
  type RecordTrainOptions,
  type Snapshot,
  type StartValues,
  type StepBatch,
  type StepGiven,
  type StepRecord,
  type TrainControl,
  type TrainEnd,
  type TrainOptions,
  type TrainResult,
  type TrainStart,
  train,
  type WeightedLoss,
} from "./train/index.ts";
export type { ErrorCode } from "./util/error-codes.ts";
export { HeddleError } from "./util/errors.ts";
export type { Tree } from "./util/tree.ts";
