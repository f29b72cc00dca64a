/** @module Callbacks for `train` and `fit`. Any object with `onBegin`, `onStep`, `onEpoch` or `onEnd` is a callback, too. */
export { csvLogger, modelCheckpoint, tensorBoard } from "../host.ts";
export type { CsvLoggerOptions } from "./csv-logger.ts";
export { type EarlyStoppingOptions, earlyStopping } from "./early-stopping.ts";
export type { ModelCheckpointOptions } from "./model-checkpoint.ts";
export { type ReduceRateOptions, reduceLROnPlateau } from "./reduce-rate.ts";
export type { TensorBoardOptions } from "./tensorboard.ts";
