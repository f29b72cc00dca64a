/** @module The options of a model and of its methods. */
import type { Loss } from "../../losses/index.ts";
import type { Optimizer } from "../../optim/index.ts";
import type { TrainOptions } from "../../train/index.ts";
import type { Rows, ValidationData } from "./inputs.ts";
import type { LossName } from "./losses.ts";
import type { MetricList } from "./metrics.ts";
import type { OptimizerName } from "./optimizers.ts";

/** Options of `keras.model`. */
export interface ModelOptions
  extends Pick<TrainOptions, "seed" | "dtype" | "precision" | "mesh" | "layout" | "executor"> {
  /** Shape of one example, for `summary` before any data were seen. Default: that of the data. */
  readonly inputShape?: readonly number[];
}

/** Names of the options of a model. */
export const modelOptions = ["seed", "dtype", "precision", "mesh", "layout", "executor", "inputShape"];

/** The options of `train` for gradients between the loss and the optimizer. */
export type Gradients = Pick<TrainOptions, "clip" | "ema" | "lossScale" | "accumulate">;

/** Options of `Model.compile`; those not described here are `train`'s. */
export interface CompileOptions extends Gradients {
  /** An optimizer, or the name of one with Keras' defaults. */
  readonly optimizer: Optimizer | OptimizerName | (string & {});
  /** A function, or a name; Keras' names of cross-entropies take probabilities, Heddle's take logits. */
  readonly loss: Loss | LossName | (string & {});
  /** Names and functions in a list, or a record of them by the names they are reported under. Default: none. */
  readonly metrics?: MetricList;
}

/** Names of the options of `compile`. */
export const compileOptions = ["optimizer", "loss", "metrics", "clip", "ema", "lossScale", "accumulate"];

type Running = Pick<
  TrainOptions,
  "callbacks" | "classWeight" | "checkpoint" | "resume" | "signal" | "nan" | "initialEpoch"
>;

/** Options of `Model.fit`; those not described here are `train`'s. */
export interface FitOptions extends Running {
  /** The number of the last epoch: how often to go through the data, less `initialEpoch`. Default 1. */
  readonly epochs?: number;
  /** Rows per step; default 32, or what the dataset says. */
  readonly batchSize?: number;
  /** The data of the evaluation after every epoch. */
  readonly validationData?: ValidationData;
  /** The share of the rows, the last ones before any shuffle, that are evaluated and not trained on. */
  readonly validationSplit?: number;
  /** Read arrays in a new order each epoch; default true. A dataset has its own order. */
  readonly shuffle?: boolean;
  /** One weight per row of arrays; a dataset has its weights in the column `weight`. */
  readonly sampleWeight?: Rows;
  /** 0: nothing; 1 (default): a bar, on a terminal; 2: lines. */
  readonly verbose?: 0 | 1 | 2;
}

/** Names of the options of `fit`. */
export const fitOptions = [
  ...["callbacks", "classWeight", "checkpoint", "resume", "signal", "nan", "initialEpoch", "epochs", "batchSize"],
  ...["validationData", "validationSplit", "shuffle", "sampleWeight", "verbose"],
];

/** Options of `Model.predict`. */
export interface PredictOptions {
  /** Rows that are computed at a time; default 32, or what the dataset says. */
  readonly batchSize?: number;
}

/** Options of `Model.evaluate`. */
export interface EvaluateOptions extends PredictOptions {
  /** One weight per row, in the loss. */
  readonly sampleWeight?: Rows;
}
