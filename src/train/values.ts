/** @module What the programs of a training take and give, and what is known of it before anything is computed. */

import type { Shapes, Tensor, Tensors } from "../functions/index.ts";
import type { TensorType } from "../ir/shape.ts";
import type { Metrics } from "../metrics/index.ts";

/** All that a step changes, and the key that it draws from. */
export interface TrainState {
  readonly params: Tensors;
  readonly optimizer: Tensors;
  readonly state: Tensors;
}

/** Columns of a batch as stored, by name. */
export type BatchColumns = { readonly [name: string]: Tensor };

/** What a step and an evaluation tell: the mean loss, and the sum of each metric. */
export interface BatchOutcome {
  readonly loss: Tensor;
  readonly metrics: { readonly [name: string]: Tensor };
  /** Whether the step was taken; only of steps that may be rejected. */
  readonly accepted?: Tensor;
}

/** The key of a seed has this type. */
export const keyType: TensorType = { shape: [2], dtype: "u32" };

/** The names of the parameters that are trained; undefined: all. */
export type Trained = ReadonlySet<string> | undefined;

/** Sizes of a metric. */
export interface MetricSize {
  readonly perExample: number;
  /** Undefined where the sum is one number. */
  readonly sums: number | undefined;
}

/** What is known of a model before anything is computed. */
export interface ModelTypes {
  /** Types of all that training changes, in the same trees. */
  readonly state: Shapes<TrainState>;
  readonly key: TensorType;
  /** Which parameters are trained; undefined: all. */
  readonly trained: Trained;
  readonly metrics: Metrics;
  /** How many values each metric gives per example, and how many sums are kept of them. */
  readonly metricSizes: ReadonlyMap<string, MetricSize>;
}
