/** @module The records of a training (steps, epochs, evaluations), and the callbacks that get them. */
import type { Dataset } from "../data/browser.ts";
import type { Tensor } from "../functions/index.ts";
import { isCounted, type Metrics } from "../metrics/index.ts";
import type { OneOrMore } from "../nn/index.ts";
import type { TrainState } from "./values.ts";

/** Means over all examples of a dataset. */
export interface Evaluation {
  readonly loss: number;
  readonly metrics: { readonly [name: string]: number };
  /** Examples counted. */
  readonly examples: number;
}

/** One epoch. */
export interface EpochRecord {
  /** The epoch's number, from 1. */
  readonly epoch: number;
  /** Optimizer steps since the run began. */
  readonly steps: number;
  /** Mean over the epoch's examples, each computed with the parameters before its step. */
  readonly loss: number;
  readonly metrics: { readonly [name: string]: number };
  /** Number of rejected steps; their examples are not in the means. */
  readonly rejected: number;
  /** The evaluation on the dataset of the option `evaluate`; reports, callbacks and files name its numbers `val_loss`, `val_accuracy`. */
  readonly validation: Evaluation | undefined;
  /** Time of the steps, without the validation; if the epoch was resumed, time since the resume. */
  readonly seconds: number;
  /** Examples per second of all workers together. */
  readonly examplesPerSecond: number;
  /** Learning rate of the epoch's last step. */
  readonly learningRate: number;
}

/** One step. Callbacks get it when its loss is known, about two steps later. */
export interface StepRecord {
  /** The step's number since the run began, from 1; equal to `steps` after the step. */
  readonly step: number;
  /** From 1. */
  readonly epoch: number;
  /** The number of its batch within the epoch, from 1. */
  readonly batch: number;
  readonly loss: number;
  readonly learningRate: number;
  /** Whether the step was rejected and changed nothing: see `nan: "skip"` and `lossScale`. */
  readonly rejected: boolean;
}

/** A copy of the parameters, layer state and optimizer state of a training, after a whole number of steps. */
export interface Snapshot {
  /** Optimizer steps before the copy. */
  readonly steps: number;
  readonly params: TrainState["params"];
  /** The moving average of the parameters; undefined without the option `ema`. */
  readonly averaged: TrainState["params"] | undefined;
  readonly state: TrainState["state"];
  readonly optimizerState: TrainState["optimizer"];
  /**
   * Mean loss and metrics over every row of a dataset, computed while later steps run. With several workers, every worker must call
   * this function in the same callback and await it there.
   */
  evaluate(dataset: Dataset): Promise<Evaluation>;
  /** The model's outputs for every row of a dataset, or for a batch; with several workers as {@link Snapshot.evaluate}. */
  predict<Output extends OneOrMore<Tensor> = Tensor>(input: Dataset | OneOrMore<Tensor>): Promise<Output>;
  /** Frees the memory. */
  dispose(): void;
}

/** What a callback can do with the training. Its decisions must be the same on every worker. */
export interface TrainControl {
  /**
   * Ends the training: immediately after an epoch, otherwise at most three steps later, or at the end of the epoch if steps do not
   * communicate between workers (a mesh axis along which nothing is split). `train` then returns as after the last epoch.
   * Even if only one rank calls this function, all ranks end after the same step.
   */
  stop(): void;
  /** The learning rate of the next step. */
  readonly learningRate: number;
  /** Multiplies the learning rates of all later steps, with any schedule. Checkpoints keep the product of all factors. */
  scaleLearningRate(factor: number): void;
  /**
   * Copies the values after the last launched step; in `onStep` this is usually the step after the reported step. Later steps do not
   * change the copy.
   */
  snapshot(): Snapshot;
  /** Replaces the values of the training by those of a snapshot; the number of steps and the position in the data stay. */
  restore(snapshot: Snapshot): void;
}

/** A training that starts or resumes. */
export interface TrainStart {
  /** The number of the first epoch to run, from 1. */
  readonly epoch: number;
  /** The number of the last epoch. */
  readonly epochs: number;
  /** Steps of the earlier part of the training. */
  readonly steps: number;
  /** Earlier epochs if the training resumes from a checkpoint: a callback can restore its state from them. */
  readonly history: readonly EpochRecord[];
  /** Whether the training resumes from a checkpoint. */
  readonly resumed: boolean;
  /** Names of the metrics, in order. */
  readonly metrics: readonly string[];
  /** Whether each epoch ends with an evaluation on the dataset `evaluate`. */
  readonly validates: boolean;
  /** This worker's number; only rank 0 should write files. */
  readonly rank: number;
  /** Prints a line between the lines of the training, on rank 0 only. */
  readonly print: (text: string) => void;
}

/** A training that has ended without an error. */
export interface TrainEnd {
  readonly history: readonly EpochRecord[];
  readonly steps: number;
}

/**
 * Functions that every worker calls, at the same steps and with the same values; their decisions must depend on these values alone.
 * The training waits for promises. An error ends the training on all workers after the same step.
 */
export interface Callbacks {
  /** Before the first step. */
  readonly onBegin?: (start: TrainStart, control: TrainControl) => void | Promise<void>;
  readonly onStep?: (record: StepRecord, control: TrainControl) => void | Promise<void>;
  readonly onEpoch?: (record: EpochRecord, control: TrainControl) => void | Promise<void>;
  /** After the last step of a training that ends without an error, when its last checkpoint is written. */
  readonly onEnd?: (end: TrainEnd, control: TrainControl) => void | Promise<void>;
}

/** The sums of a metric over some examples, and the number of values in them. */
export interface MetricSums {
  readonly sums: readonly number[];
  readonly count: number;
}

/** Sums of loss and metrics, from which means over examples are computed. */
export class Tally {
  /** Number of rejected batches. */
  rejected = 0;
  loss = 0;
  examples = 0;
  readonly sums = new Map<string, MetricSums>();

  /** Adds a batch, by its mean loss and the sums of each metric. */
  add(examples: number, loss: number, metrics: ReadonlyMap<string, MetricSums>): void {
    this.loss += loss * examples;
    this.examples += examples;
    for (const [name, { sums, count }] of metrics) {
      const before = this.sums.get(name);
      const total = sums.map((sum, index) => sum + (before?.sums[index] ?? 0));
      this.sums.set(name, { sums: total, count: count + (before?.count ?? 0) });
    }
  }

  /** The same sums, which later batches do not change. */
  copy(): Tally {
    const { rejected, loss, examples } = this;
    const tally = Object.assign(new Tally(), { rejected, loss, examples });
    for (const [name, sums] of this.sums) tally.sums.set(name, sums);
    return tally;
  }

  /** The mean loss, and each metric: a mean, or the value that a counted metric computes from its sums. */
  means(metrics: Metrics): Evaluation {
    const valueOf = (name: string, { sums, count }: MetricSums): number => {
      const metric = metrics[name];
      return metric !== undefined && isCounted(metric) ? metric.value(sums) : (sums[0] as number) / count;
    };
    return {
      loss: this.loss / this.examples,
      metrics: Object.fromEntries([...this.sums].map(([name, sums]) => [name, valueOf(name, sums)])),
      examples: this.examples,
    };
  }
}
