/**
 * @module Heddle in a browser, on the reference executor: models, data in memory, training. Bundlers for browsers use this file
 * as `heddle`; `io` and `keras`, which read and write files, are missing.
 */
export { maxIterations } from "./adapters/autograph/bound.ts";
export * as augment from "./augment/index.ts";
export * as comm from "./comm/index.ts";
export * as compression from "./compression/index.ts";
export * as data from "./data/browser.ts";
export { type MemoryUse, memory } from "./executors/browser.ts";
export * as frames from "./frames/index.ts";
export * from "./functions/public.ts";
export * as losses from "./losses/index.ts";
export * as metrics from "./metrics/index.ts";
export { accuracy, binaryAccuracy, type Metric } from "./metrics/index.ts";
export * as nn from "./nn/index.ts";
export * as optim from "./optim/index.ts";
export { type AxisDims, withLayout } from "./placed/with-layout.ts";
export { type Mesh, mesh } from "./plan/index.ts";
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
  type Iterated,
  type IterateOptions,
  type IterationPlace,
  iterate,
  type LeftParts,
  type LineagePlace,
  layouts,
  type NamedLosses,
  type PipelineTraining,
  type RecordTrainOptions,
  type Snapshot,
  type StartValues,
  type StatePart,
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
  withLineage,
} from "./train/browser.ts";
export type { ErrorCode } from "./util/error-codes.ts";
export { HeddleError } from "./util/errors.ts";
export type { Tree } from "./util/tree.ts";
