/** @module The options of `train`, checked. */

import type { Augmentation } from "../augment/index.ts";
import type { Compressor } from "../compression/compressor.ts";
import type { Compression, CompressionOptions } from "../compression/options.ts";
import type { Machine } from "../cost/index.ts";
import type { Dataset } from "../data/browser.ts";
import type { AnyFrame } from "../frames/index.ts";
import type { Tensor } from "../functions/index.ts";
import type { Selection } from "../functions/parts.ts";
import type { Loss, LossOptions } from "../losses/index.ts";
import type { CountedMetric, Metrics } from "../metrics/index.ts";
import type { Layer, RecordModel } from "../nn/index.ts";
import type { Optimizer } from "../optim/index.ts";
import type { Mesh, PipelineOptions, Plan, PlanLayouts } from "../plan/index.ts";
import type { ExecutorName } from "../runtime/registry.ts";
import type { Pattern } from "../util/pattern.ts";
import type { ColumnNames } from "./columns.ts";
import type { Guard, LossScaleOptions } from "./guard.ts";
import type { Callbacks } from "./history.ts";
import type { MonitorOptions } from "./logs.ts";
import type { NamedLosses } from "./losses.ts";
import type { LayoutRule } from "./rules.ts";
import type { StartValues } from "./start-values.ts";
import type { ClassWeight } from "./weights.ts";

/** Where and when checkpoints are written. */
export interface CheckpointOptions {
  /** Folder, created if missing; or the address of a place that a storage driver knows, such as `s3://bucket/run`. */
  readonly directory: string;
  /** Write after every epoch (default), or after this number of steps; always at the end. */
  readonly every?: "epoch" | number;
  /** How many of the newest checkpoints are kept; default 3. Old ones are removed after a new one is complete. */
  readonly keep?: number;
  /** Keep also the first checkpoint of each period of this many hours; default none. */
  readonly keepHours?: number;
  /**
   * Keep also the best checkpoints after epochs: how many, or how many by a number of the training other than the loss of the validation;
   * default none.
   */
  readonly keepBest?: number | (MonitorOptions & { readonly count?: number });
  /**
   * One file, or a folder of parts, of which each worker writes those that it holds. Default `"auto"`: parts if no worker holds all
   * values, or the directory is an address; otherwise one file, which sharded values are gathered for.
   */
  readonly format?: "auto" | "file" | "parts";
  /**
   * Parts of the model with checkpoints of their own, by name, in the folder of that name in the directory. They have parameters and layer
   * state alone: `io.loadVariables` reads them into the same or another model. Default none.
   */
  readonly parts?: { readonly [name: string]: PartCheckpoints };
}

/** A part of a model that has checkpoints of its own. */
export interface PartCheckpoints {
  /** Which parameters and layer states, by a pattern of names such as `"head"` or `"**.lora*"`. */
  readonly only: Pattern;
  /** Write after every epoch (default), after this number of steps, or once at the end; always at the end. */
  readonly every?: "epoch" | "end" | number;
  /** As in {@link CheckpointOptions}. */
  readonly keep?: number;
  /** As in {@link CheckpointOptions}. */
  readonly keepHours?: number;
  /** As in {@link CheckpointOptions}. */
  readonly keepBest?: NonNullable<CheckpointOptions["keepBest"]>;
}

/** How a network is divided into the stages of a pipeline. */
export interface PipelineTraining {
  /**
   * Stage of each layer that has parameters, by the layer's place or path in the model: `{ "0": 0, "3": 1 }`. Stages
   * count from 0 in the order of the network.
   */
  readonly stages: { readonly [layer: string]: number };
  /** Number of micro-batches of a batch; a batch that is not divisible by it is cut into fewer. */
  readonly microBatches: number;
  /**
   * Order of forward and backward passes; default `"1f1b"`. `"interleaved"` has several stages on each rank, `"zb-h1"` and `"zb-h2"` cut backward
   * passes into the parts by inputs and by weights. With `"pipedream"` and `"pipedream-vertical"` stages update their parameters after each micro-batch, with
   * `"pipedream-2bw"` after several, which changes the result.
   */
  readonly schedule?: PipelineOptions["schedule"];
  /**
   * With parameters that `layout` stores in parts and gathers (`layouts.fullySharded()`): whether each forward and backward pass of a micro-batch gathers
   * what it uses, which needs less memory; default false: a stage gathers its parameters once for all micro-batches of a step, which sends less.
   */
  readonly gatherEach?: boolean;
  /** Number of stages on each rank, for the default mesh; default: what the schedule says, which is 2 for `"interleaved"` and 1 for the others. */
  readonly stagesPerRank?: number;
}

/** Bounds of gradients. */
export interface ClipOptions {
  /** Each element of each gradient is clipped to `[-value, value]`. */
  readonly value?: number;
  /** All gradients are scaled down together if their global norm is larger. */
  readonly norm?: number;
}

/** {@link TrainOptions} of a training on several columns, or with a loss for each of several outputs. */
export type RecordTrainOptions = Omit<TrainOptions, "model" | "loss" | "metrics"> & {
  readonly model: RecordModel;
  // biome-ignore lint/suspicious/noExplicitAny: records whose names are the user's
  readonly loss: NamedLosses | ((output: any, target: any, options?: LossOptions) => Tensor);
  /** Functions of output and target, of which several are records. */
  // biome-ignore lint/suspicious/noExplicitAny: records whose names are the user's
  readonly metrics?: { readonly [name: string]: ((output: any, target: any) => Tensor) | CountedMetric };
} & ({ readonly input: readonly string[] } | { readonly target: readonly string[] } | { readonly loss: NamedLosses });

/** Options of {@link train}. */
export interface TrainOptions<Model extends Layer = Layer> {
  readonly model: Model;
  /** The training data: batched, with a column for the input and a column for the target. */
  readonly data: Dataset;
  /**
   * A function of output and target that gives a scalar. A model with several outputs can also have a loss for each output by name,
   * with weights; each loss is reported: `{ main: losses.softmaxCrossEntropy, aux: { loss: losses.mse, weight: 0.3 } }` ({@link RecordTrainOptions}).
   */
  readonly loss: Loss;
  readonly optimizer: Optimizer;
  /**
   * Which parameters are trained, by a pattern of names (`"head"`, `["**", "!embed"]`) or a function. The other parameters have neither
   * gradients nor optimizer state. Default: all; parameters of `nn.frozen` layers are never trained.
   */
  readonly trainable?: Selection;
  /** Number of passes through the data. */
  readonly epochs: number;
  /** Seed of parameters, dropout and shuffling; default 0. */
  readonly seed?: number;
  /** Dataset for an evaluation after every epoch; by default in batches of the training's size. */
  readonly evaluate?: Dataset;
  /** The column that the model gets; several columns are passed as a record by name. Default `"x"`. */
  readonly input?: string | readonly string[];
  /** The column that the loss compares with the output; several columns are passed as a record. Default `"y"`. */
  readonly target?: string | readonly string[];
  /**
   * Column with a weight per row, by which the loss of the row is multiplied: `Σ weight · loss / rows`. Evaluation uses it
   * if its dataset has the column. Metrics are not weighted. Default: none.
   */
  readonly weight?: string;
  /** Weights of rows by their class, in training only: `{ 0: 1, 1: 5 }`; other classes have weight 1. Default: none. */
  readonly classWeight?: ClassWeight;
  /** Default: accuracy if the target is a class, otherwise none. */
  readonly metrics?: Metrics;
  readonly callbacks?: Callbacks | readonly Callbacks[];
  /** Ends the training after the current step; `train` then throws the signal's reason. */
  readonly signal?: AbortSignal;
  readonly checkpoint?: CheckpointOptions;
  /**
   * Resume from the newest checkpoint of the directory, or from this file or folder; default: only under `heddle run --resume`.
   * A resumed run gives the same bits as a run that was never interrupted.
   */
  readonly resume?: boolean | string;
  /**
   * Initial values that replace those of the model, such as an earlier result; they are copied and not changed. If the training resumes
   * from a checkpoint, the checkpoint has priority.
   */
  readonly from?: StartValues;
  /** Number of epochs that count as done: the first epoch has the next number, the last one the number `epochs`. Default 0. */
  readonly initialEpoch?: number;
  /** Dtype of parameters and arithmetic; default `"f32"`. */
  readonly dtype?: "f32" | "f64";
  /**
   * Compute layers in 16-bit floats, with parameters, optimizer state, norms, softmaxes, losses and metrics in f32: `"bf16"` or
   * `"f16"`. With `"f16"`, `lossScale` is true by default, as small gradients would vanish. Default: all in `dtype`.
   */
  readonly precision?: "bf16" | "f16";
  /** The mesh of devices; default one axis `data` over all workers. In a single process the devices are virtual. */
  readonly mesh?: Mesh;
  /**
   * How parameters are sharded over the mesh, such as `layouts.fullySharded()` or `layouts.named({ "0.weight": { model: 0 } })`;
   * if there are several rules, the first that applies to a parameter decides. Default: replicated.
   */
  readonly layout?: LayoutRule | readonly LayoutRule[];
  /**
   * Train as a pipeline: each stage of the mesh axis `stage` has some of the layers. Default mesh: one device per
   * rank of the schedule, and the other workers on an axis `data`. The result is the same as without a pipeline.
   */
  readonly pipeline?: PipelineTraining;
  /**
   * The planner's description of devices and links, such as `heddle machine` measures; default that of `--machine`, or a general one.
   * It must be the same on every worker.
   */
  readonly machine?: Machine;
  /** The executor; `"auto"` (the default) is native if it loads, otherwise reference. `heddle run --executor` has priority. */
  readonly executor?: ExecutorName;
  /**
   * Report progress by a bar, lines, or nothing; default: a bar on a terminal, otherwise lines. Only rank 0 reports; with `heddle run
   * --quiet` nothing is reported.
   */
  readonly report?: "auto" | "bar" | "lines" | "silent";
  /**
   * What to do if the loss is NaN or infinite; default `"error"`. With `"skip"` a step whose loss or gradients are
   * not finite on any device is rejected on all devices: parameters and state do not change. With `"rollback"` the training goes back to the
   * values of some steps before and leaves the batch out; the rows of the batch are told, and written to `left-out.jsonl` in the folder of the run.
   * At most 10 batches of an epoch are left out.
   */
  readonly nan?: "error" | "continue" | "skip" | "rollback";
  /**
   * A loss counts as bad, too, when it is more than so many times the mean of the last 20 losses, once there are 10: an error, or a reason to go back,
   * by `nan: "error"` or `"rollback"`. Default: only losses that are not finite are bad.
   */
  readonly spike?: number;
  /** With `nan: "rollback"`, the number of steps after which values are copied, on the device; default 10. */
  readonly rollback?: number;
  /**
   * Multiply the loss by a scale before its gradients are taken, so that small gradients do not vanish, and reject steps whose
   * gradients overflow: true, or the options of the scale. Default false.
   */
  readonly lossScale?: boolean | LossScaleOptions;
  /** Clips the gradients of the whole batch before the optimizer's update; default none. */
  readonly clip?: ClipOptions;
  /**
   * Compute each batch in this number of parts, one after another, and take one step with the sum of the gradients. This needs the memory
   * of one part; if the loss is a mean over rows, the result is that of the whole batch, apart from rounding and dropout masks. A batch
   * that is not divisible by it is cut into fewer parts. Default 1.
   */
  readonly accumulate?: number;
  /**
   * Keep a moving average of the parameters, `ema · average + (1 - ema) · parameters` at each step, for evaluation and
   * prediction; `result.averaged` is the average. It starts as the parameters after the first step. Below 1, usually 0.99 to 0.9999;
   * default: none.
   */
  readonly ema?: number;
  /**
   * Compare the copies of parameters and layer state that several workers have after each so many steps, and at the end; a difference is an
   * error that names worker, value and steps. Default 100; false: never.
   */
  readonly checkReplicas?: number | false;
  /**
   * How workers compare their data before the first step: `"sampled"` (default) by size and a sample of blocks, so that the start does not
   * depend on the size of the data; `"whole"` by every value.
   */
  readonly compareData?: "sampled" | "whole";
  /**
   * Bytes of columns that this process may keep in memory besides arrays that you made: files that are read as a whole, and the copies
   * from which native code gathers batches. Columns that do not fit are read by the rows of each batch. Default: a quarter of
   * `HEDDLE_MEMORY`, or 1 GiB.
   */
  readonly dataMemory?: number;
  /**
   * Changes inputs and targets of each batch at random, in training only, such as `augment.flip()`, with a key of seed, epoch and batch: metrics
   * get the targets as they were. For a single input and a single target. Default none.
   */
  readonly augment?: Augmentation;
  /**
   * The frame that made the columns of the data: it is saved with checkpoints and by `result.save`, `predict` takes records, and a run that
   * resumes must have the same. Default none.
   */
  readonly frame?: AnyFrame;
  /**
   * In an elastic run whose values are sharded, the number of steps after which workers take copies of each other's parts into their memory,
   * beside the steps: a lost worker costs at most so many steps, without a file. Default 10; false: never. Where several workers
   * have each part, no copies are taken.
   */
  readonly memoryCopies?: number | false;
  /**
   * Compress gradients between the devices of the axis `data`, or between hosts on a mesh with an axis `hosts`: a compressor, such as
   * `compression.topK({ ratio: 0.01 })`, its name, or options ({@link CompressionOptions}). What is not sent is kept for later steps. Default: gradients travel as they are.
   */
  readonly compression?: Compressor | CompressionOptions | string;
  /**
   * Keep parameters and optimizer state on parameter servers: workers push gradients and pull parameters, and the policy says who waits for
   * whom. `heddle run --servers 2` starts servers, `--servers 0` puts them on the workers; in a single process the server is in it. Default:
   * under `heddle run --servers` true, else parameters are on the workers.
   */
  readonly server?: ServerTraining;
  /**
   * Each worker trains a copy of the model on its rows of the batches, and the copies meet after so many steps and at the end of an epoch: then an outer
   * optimizer takes the mean of what the steps have changed. So a slow link carries the parameters once in a round, and no gradients. Default:
   * workers exchange gradients in every step.
   */
  readonly localSteps?: LocalSteps;
}

/** Steps that each worker takes alone: local SGD, or DiLoCo. */
export interface LocalSteps {
  /** Number of steps between two meetings; the steps count from the beginning of the training, and a meeting at the end of an epoch does not change that. */
  readonly steps: number;
  /**
   * The optimizer that takes the parameters before a round minus the mean of the workers' after it for a gradient; its learning rate may be a schedule
   * over meetings. Default `optim.sgd({ learningRate: 1 })`, with which the parameters become the mean (local SGD). DiLoCo takes
   * `optim.sgd({ learningRate: 0.7, momentum: 0.9, nesterov: true })`.
   */
  readonly outer?: Optimizer;
}

/** A training on parameter servers. */
export interface ServerTraining {
  /** Who waits for whom: the spec of a policy, such as `"bsp"`, `"ssp:3"` or `"async"`. Default that of `--policy`, or `"bsp"`. */
  readonly policy?: string;
  /** Whether the gradients of one step are summed or averaged; default as the policy says. */
  readonly merging?: "sum" | "mean";
  /**
   * Filters of the gradients that workers push, from the first to the last, by their specs, such as `["significant:0.01", "lossless"]`: those that
   * choose rows first, those that pack values after them, `lossless` last. Default: gradients travel as they are.
   */
  readonly filters?: readonly string[];
  /**
   * Repeats a training from its log, `updates.jsonl` in the folder of the run, in this process alone, with the other options as they were: the
   * parameters have the same bits. There are no metrics, callbacks or checkpoints. Learning rates are those of the schedule.
   */
  readonly replay?: string;
}

/** Options with defaults filled in. */
export interface Settings extends Omit<TrainOptions, "loss" | "compression"> {
  readonly compression: Compression | undefined;
  readonly loss: Loss | NamedLosses;
  readonly seed: number;
  readonly input: ColumnNames;
  readonly target: ColumnNames;
  readonly dtype: "f32" | "f64";
  readonly report: "auto" | "bar" | "lines" | "silent";
  readonly nan: "error" | "continue" | "skip" | "rollback";
  readonly rollback: number;
  readonly accumulate: number;
  readonly initialEpoch: number;
  readonly checkReplicas: number | false;
  readonly memoryCopies: number | false;
  /** The guard that rejects steps; undefined if all steps are applied. */
  readonly guard: Guard | undefined;
  readonly callbackList: readonly Callbacks[];
  readonly layoutRules: readonly LayoutRule[];
  /** The plan of the step, which replaces the rules of `layout`. */
  readonly plan?: Plan | PlanLayouts | undefined;
  readonly resumeFrom: string | undefined;
  /** Whether a step leaves the values before it as they are; default false. */
  readonly keepsValues?: boolean;
  /** Tables of embeddings are on servers: the model has none (`absent`), or the rows that a batch looks up (`window`). */
  readonly tables?: "absent" | "window" | undefined;
}
