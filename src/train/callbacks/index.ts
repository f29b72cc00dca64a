/** @module Callbacks for `train` and `fit`: ready ones; any object with `onBegin`, `onStep`, `onEpoch` or `onEnd` is one. */
export { type CsvLoggerOptions, csvLogger } from "./csv-logger.ts";
export { type EarlyStoppingOptions, earlyStopping } from "./early-stopping.ts";
export { type ModelCheckpointOptions, modelCheckpoint } from "./model-checkpoint.ts";
export { type ReduceRateOptions, reduceLROnPlateau } from "./reduce-rate.ts";
export { type TensorBoardOptions, tensorBoard } from "./tensorboard.ts";
