/** @module Types of the inputs and outputs of a training's programs, and the properties of a model that are known before a run. */

import type { Shapes, Tensor, Tensors } from "../functions/index.ts";
import type { TensorType } from "../ir/shape.ts";
import type { Metrics } from "../metrics/index.ts";

/** All values that a step changes. */
export interface TrainState {
  readonly params: Tensors;
  readonly optimizer: Tensors;
  readonly state: Tensors;
}

/** The parts of a state, which are the first part of a value's name in checkpoints. */
export const groups = ["params", "optimizer", "state"] as const;

/** The name, in the state of layers, of all rows that servers have of tables (u8): in checkpoints, and at the beginning and the end of a run. */
export const tablesState = "(tables)";

/** Stored columns of a batch, by name. */
export type BatchColumns = { readonly [name: string]: Tensor };

/** The results of a step or an evaluation: the mean loss, and the sum of each metric. */
export interface BatchOutcome {
  readonly loss: Tensor;
  readonly metrics: { readonly [name: string]: Tensor };
  /** Whether the step was applied; only for steps that may be rejected. */
  readonly accepted?: Tensor;
}

/** The type of random keys. */
export const keyType: TensorType = { shape: [2], dtype: "u32" };

/** The names of the trained parameters; undefined for all. */
export type Trained = ReadonlySet<string> | undefined;

/** Sizes of a metric. */
export interface MetricSize {
  readonly perExample: number;
  /** The number of sums of a counted metric; undefined if the sum is one number. */
  readonly sums: number | undefined;
}

/** The properties of a model that are known before a run. */
export interface ModelTypes {
  /** Types of all values that training changes, in the same trees. */
  readonly state: Shapes<TrainState>;
  readonly key: TensorType;
  /** The trained parameters. */
  readonly trained: Trained;
  readonly metrics: Metrics;
  /** The number of values of each metric per example, and the number of its sums. */
  readonly metricSizes: ReadonlyMap<string, MetricSize>;
}
