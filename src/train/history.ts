/** @module What a training tells while it runs and afterwards. */
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
  /** Its number, from 1, as everywhere. */
  readonly epoch: number;
  /** Optimizer steps since the run began. */
  readonly steps: number;
  /** Mean over the epoch's examples, each as it was when its step was taken. */
  readonly loss: number;
  readonly metrics: { readonly [name: string]: number };
  /** Steps that were rejected; their examples are not in the means. */
  readonly rejected: number;
  /** On the dataset given as `evaluate`; prints, callbacks and files name its numbers `val_loss`, `val_accuracy`. */
  readonly validation: Evaluation | undefined;
  /** Of the steps alone; of the part since a resume, for an epoch that was resumed. */
  readonly seconds: number;
  /** Of the whole batch, all workers together. */
  readonly examplesPerSecond: number;
  /** Of the epoch's last step. */
  readonly learningRate: number;
}

/** One step, told when its loss is known: about two steps after it was taken. */
export interface StepRecord {
  /** Its number since the run began, from 1: after it `steps` is as much. */
  readonly step: number;
  /** From 1. */
  readonly epoch: number;
  /** Batch of the epoch, from 1. */
  readonly batch: number;
  readonly loss: number;
  readonly learningRate: number;
  /** Whether the step was rejected, and so changed nothing: see `nan: "skip"` and `lossScale`. */
  readonly rejected: boolean;
}

/** A copy of all that a training changes, after a whole number of its steps. */
export interface Snapshot {
  /** Optimizer steps that led to it. */
  readonly steps: number;
  readonly params: TrainState["params"];
  /** Their moving average, with `ema`; undefined without. */
  readonly averaged: TrainState["params"] | undefined;
  readonly state: TrainState["state"];
  readonly optimizerState: TrainState["optimizer"];
  /**
   * Mean loss and metrics over every row of a dataset, computed beside the steps that follow. On several workers every one must
   * call it in the same callback, and await it there.
   */
  evaluate(dataset: Dataset): Promise<Evaluation>;
  /** The model's outputs for every row of a dataset, or for a batch; on several workers as {@link Snapshot.evaluate}. */
  predict<Output extends OneOrMore<Tensor> = Tensor>(input: Dataset | OneOrMore<Tensor>): Promise<Output>;
  /** Gives the memory back. */
  dispose(): void;
}

/** What a callback may do to the training. Decisions must be the same on every worker, and depend on nothing else. */
export interface TrainControl {
  /**
   * Ends the training, at once after an epoch, else at most three steps later, or at the end of the epoch where steps carry no
   * message between workers (pipelines, a mesh axis along which nothing is split); `train` returns as after the last epoch.
   * Called on one rank or on all, every rank ends after the same step.
   */
  stop(): void;
  /** The learning rate of the next step. */
  readonly learningRate: number;
  /** Multiplies the learning rates of all later steps, whatever the schedule. Checkpoints keep the product. */
  scaleLearningRate(factor: number): void;
  /**
   * The values as they are after the last step launched, which in `onStep` is usually the one after that told of: a copy, that
   * the steps which follow do not change.
   */
  snapshot(): Snapshot;
  /** Puts the values of a snapshot in place of the training's own; steps and position stay. */
  restore(snapshot: Snapshot): void;
}

/** A training that begins or goes on. */
export interface TrainStart {
  /** The number of the first epoch to come, from 1. */
  readonly epoch: number;
  /** The number of the last epoch. */
  readonly epochs: number;
  /** Steps taken before. */
  readonly steps: number;
  /** Epochs before, where a checkpoint is gone on from: a callback finds its own state again from these. */
  readonly history: readonly EpochRecord[];
  /** Whether a checkpoint is gone on from. */
  readonly resumed: boolean;
  /** Names of the metrics, in order. */
  readonly metrics: readonly string[];
  /** Whether each epoch has a validation. */
  readonly validates: boolean;
  /** This worker's number; only 0 should write. */
  readonly rank: number;
  /** Shows a line on rank 0 among those of the training. */
  readonly print: (text: string) => void;
}

/** A training that has ended well. */
export interface TrainEnd {
  readonly history: readonly EpochRecord[];
  readonly steps: number;
}

/**
 * Called on every worker, at the same steps and with the same values; what they decide must depend on nothing else.
 * Training waits for those that return a promise. One that throws ends the training, on all workers after the same step.
 */
export interface Callbacks {
  /** Before the first step. */
  readonly onBegin?: (start: TrainStart, control: TrainControl) => void | Promise<void>;
  readonly onStep?: (record: StepRecord, control: TrainControl) => void | Promise<void>;
  readonly onEpoch?: (record: EpochRecord, control: TrainControl) => void | Promise<void>;
  /** After the last step of a training that ends well, once its last checkpoint is written. */
  readonly onEnd?: (end: TrainEnd, control: TrainControl) => void | Promise<void>;
}

/** Of a metric over some examples: its sum or sums, and how many values are in it. */
export interface MetricSums {
  readonly sums: readonly number[];
  readonly count: number;
}

/** Sums from which means over examples are made. */
export class Tally {
  /** Batches that were passed over. */
  rejected = 0;
  loss = 0;
  examples = 0;
  readonly sums = new Map<string, MetricSums>();

  /** Adds a batch: its mean loss, and the sums of each metric. */
  add(examples: number, loss: number, metrics: ReadonlyMap<string, MetricSums>): void {
    this.loss += loss * examples;
    this.examples += examples;
    for (const [name, { sums, count }] of metrics) {
      const known = this.sums.get(name);
      const total = sums.map((sum, index) => sum + (known?.sums[index] ?? 0));
      this.sums.set(name, { sums: total, count: count + (known?.count ?? 0) });
    }
  }

  /** The mean loss, and each metric: a mean, or what it makes of its sums. */
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
