/**
 * @module Heddle: define a model once; train it on one core or in many processes.
 *
 *     import { nn, optim, losses, data, train } from "heddle";
 */

export * as keras from "./adapters/keras/index.ts";
export * from "./browser.ts";
// With what reads files, in the place of that of a browser.
export * as data from "./data/index.ts";
export * as io from "./io/index.ts";
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
