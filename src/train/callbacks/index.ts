/** @module Callbacks for `train` and `fit`: ready ones; any object with `onBegin`, `onStep`, `onEpoch` or `onEnd` is one. */
export { csvLogger, modelCheckpoint, tensorBoard } from "../host.ts";
export type { CsvLoggerOptions } from "./csv-logger.ts";
export { type EarlyStoppingOptions, earlyStopping } from "./early-stopping.ts";
export type { ModelCheckpointOptions } from "./model-checkpoint.ts";
export { type ReduceRateOptions, reduceLROnPlateau } from "./reduce-rate.ts";
export type { TensorBoardOptions } from "./tensorboard.ts";
