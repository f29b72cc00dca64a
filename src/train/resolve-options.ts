/** @module The options of `train`: checked, with defaults filled in. */

import { wishedCompression } from "../compression/options.ts";
import { checkMachine } from "../cost/index.ts";
import { type Dataset, Dataset as DatasetClass } from "../data/browser.ts";
import { type AnyFrame, Frame } from "../frames/index.ts";
import type { DType } from "../ir/dtype.ts";
import { executorNamed } from "../runtime/registry.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions, checkPlace } from "../util/options.ts";
import { matching } from "../util/pattern.ts";
import { readEnvironment } from "../util/settings.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { isRecord } from "../util/tree.ts";
import { type ColumnNames, checkNames, namesIn } from "./columns.ts";
import { guardOf } from "./guard.ts";
import type { Callbacks } from "./history.ts";
import { checkLocalSteps } from "./local-training.ts";
import { checkMonitor } from "./logs.ts";
import { checkLoss } from "./losses.ts";
import { checkMemoryCopies } from "./neighbours.ts";
import type { CheckpointOptions, PartCheckpoints, PipelineTraining, Settings, TrainOptions } from "./options.ts";
import type { LayoutRule } from "./rules.ts";
import { checkStart } from "./start-values.ts";
import { checkClassWeight } from "./weights.ts";

const names: readonly (keyof TrainOptions)[] = [
  "model",
  "data",
  "loss",
  "optimizer",
  "trainable",
  "epochs",
  "seed",
  "evaluate",
  "input",
  "target",
  "weight",
  "classWeight",
  "metrics",
  "callbacks",
  "signal",
  "checkpoint",
  "resume",
  "from",
  "initialEpoch",
  "dtype",
  "precision",
  "mesh",
  "layout",
  "pipeline",
  "machine",
  "executor",
  "report",
  "nan",
  "spike",
  "rollback",
  "lossScale",
  "clip",
  "accumulate",
  "ema",
  "compression",
  "checkReplicas",
  "compareData",
  "dataMemory",
  "frame",
  "augment",
  "memoryCopies",
  "server",
  "localSteps",
];

/** @throws HeddleError `option` unless this changes batches of one input and one target */
function checkAugment(augment: unknown, input: ColumnNames, target: ColumnNames): void {
  if (typeof augment !== "function")
    throw new HeddleError("option", `train: augment must be an augmentation, got ${shown(augment)}`, {
      hint: "such as augment.flip(), or augment.chain(first, second)",
    });
  if (typeof input === "string" && typeof target === "string") return;
  throw new HeddleError("option", "train: augment changes one input and one target; here are several", {
    hint: "augment within the model, by a layer",
  });
}

/** Checks that a frame makes the model's input. @throws HeddleError `option` */
function checkFrame(frame: AnyFrame, input: ColumnNames): void {
  if (!(frame instanceof Frame))
    throw new HeddleError("option", `train: frame must be a frame, got ${shown(frame)}`, {
      hint: "await frames.fit(records, { x: […], y: … })",
    });
  const lacking = namesIn(input).find((name) => !frame.names.includes(name));
  if (lacking !== undefined)
    throw new HeddleError("option", `train: the frame makes ${listed(frame.names)}, and not the input "${lacking}"`);
}

/** Checks what goes with the policy for bad losses. @throws HeddleError `option` */
function checkBadLoss({ spike, rollback }: TrainOptions, nan: Settings["nan"]): void {
  if (spike !== undefined) checkNumber("train", "spike", spike, 1);
  if (rollback !== undefined) checkInteger("train", "rollback", rollback, 1);
  if (spike !== undefined && nan !== "error" && nan !== "rollback")
    throw new HeddleError("option", `train: spike says which losses are bad, and nan: "${nan}" lets them be`, {
      hint: 'pass nan: "error" or "rollback", or leave spike out',
    });
  if (rollback !== undefined && nan !== "rollback")
    throw new HeddleError("option", `train: rollback goes with nan: "rollback", not with nan: "${nan}"`);
}

/**
 * Checks the options and fills in defaults.
 *
 * @throws HeddleError `option` naming the option, also for an unknown option.
 */
export function resolveOptions(options: TrainOptions): Settings {
  checkOptions("train", options, names);
  for (const name of ["model", "data", "loss", "optimizer", "epochs"] as const) {
    if (options[name] !== undefined) continue;
    const reason = name in options ? ": it is undefined, as a misspelt name is" : "";
    throw new HeddleError("option", `train: '${name}' is missing${reason}`);
  }
  checkKinds(options);
  const { seed = 0, checkpoint, dtype = "f32", report = "auto", nan = "error", callbacks = [], layout = [] } = options;
  checkInteger("train", "epochs", options.epochs, 0);
  checkInteger("train", "seed", seed, 0);
  checkInteger("train", "initialEpoch", options.initialEpoch ?? 0, 0);
  oneOf("dtype", dtype, ["f32", "f64"] satisfies DType[]);
  oneOf("report", report, ["auto", "bar", "lines", "silent"]);
  if (options.checkReplicas !== undefined && options.checkReplicas !== false)
    checkInteger("train", "checkReplicas", options.checkReplicas, 1);
  oneOf("compareData", options.compareData ?? "sampled", ["sampled", "whole"]);
  if (options.dataMemory !== undefined) checkNumber("train", "dataMemory", options.dataMemory, 0);
  if (options.frame !== undefined) checkFrame(options.frame, options.input ?? "x");
  checkMemoryCopies(options.memoryCopies);
  oneOf("nan", nan, ["error", "continue", "skip", "rollback"]);
  checkBadLoss(options, nan);
  if (options.precision !== undefined) checkPrecision(options.precision, dtype);
  if (options.executor !== undefined) executorNamed(options.executor);
  if (checkpoint !== undefined) checkCheckpoint(checkpoint);
  checkGradients(options);
  const compression = wishedCompression(options.compression);
  checkLocalSteps(options, compression);
  if (options.pipeline !== undefined) checkPipeline(options);
  const input = options.input ?? "x";
  const target = options.target ?? "y";
  for (const [option, names] of Object.entries({ input, target })) checkNames(option, names);
  if (options.augment !== undefined) checkAugment(options.augment, input, target);
  for (const dataset of [options.data, options.evaluate])
    if (dataset !== undefined) checkColumns(dataset, [...namesIn(input), ...namesIn(target)]);
  if (options.weight !== undefined) checkColumns(options.data, [options.weight], "the option weight");
  if (options.classWeight !== undefined) checkClassWeight(options.classWeight);
  if (options.from !== undefined) checkStart(options.from);
  return {
    ...options,
    compression,
    seed,
    input,
    target,
    dtype,
    report: readEnvironment().quiet ? "silent" : report,
    nan,
    accumulate: options.accumulate ?? 1,
    checkReplicas: options.checkReplicas ?? 100,
    memoryCopies: options.memoryCopies ?? 10,
    rollback: options.rollback ?? 10,
    initialEpoch: options.initialEpoch ?? 0,
    guard: guardOf(nan, options.lossScale ?? (options.precision === "f16" ? true : undefined)),
    callbackList: checkedCallbacks(Array.isArray(callbacks) ? callbacks : [callbacks as Callbacks]),
    layoutRules: Array.isArray(layout) ? layout : [layout as LayoutRule],
    resumeFrom: resumeFrom(options),
    ...(options.machine === undefined ? {} : { machine: checkMachine("train: machine", options.machine) }),
  };
}

const hooks = ["onBegin", "onStep", "onEpoch", "onEnd"];

/** A callback may have other members, but an unknown function `on…` is a misspelt hook. */
function checkedCallbacks(callbacks: readonly Callbacks[]): readonly Callbacks[] {
  for (const callback of callbacks) {
    if (typeof callback !== "object" || callback === null)
      throw new HeddleError("option", `train: a callback is ${shown(callback)}, not an object of functions`);
    const unknown = Object.entries(callback).find(
      ([name, value]) => /^on[A-Z]/.test(name) && typeof value === "function" && !hooks.includes(name),
    );
    if (unknown !== undefined)
      throw new HeddleError("option", `train: nothing calls the callback's ${unknown[0]}`, {
        hint: `callbacks have ${hooks.join(", ")}`,
      });
  }
  return callbacks;
}

function checkKinds(options: TrainOptions): void {
  const { model, data, loss, optimizer } = options;
  const fail = (name: keyof TrainOptions, what: string): never => {
    const value: unknown = options[name];
    const hint = kindHint(name, value);
    throw new HeddleError(
      "option",
      `train: ${name} is not ${what}, but ${shown(value)}`,
      hint === undefined ? {} : { hint },
    );
  };
  if (typeof model.init !== "function" || typeof model.apply !== "function")
    fail("model", "a layer (such as nn.sequential(…))");
  if (!(data instanceof DatasetClass)) fail("data", 'a dataset (such as data.mnist("train").batch(128))');
  if (options.evaluate !== undefined && !(options.evaluate instanceof DatasetClass)) fail("evaluate", "a dataset");
  for (const rule of [options.layout ?? []].flat())
    if (typeof rule !== "function") fail("layout", "a rule (such as layouts.fullySharded())");
  const { metrics } = options;
  const isMetric = (metric: unknown): boolean =>
    typeof metric === "function" || (isRecord(metric) && "counts" in metric);
  if (metrics !== undefined && (!isRecord(metrics) || !Object.values(metrics).every(isMetric)))
    fail("metrics", "a record of names (such as { accuracy: metrics.accuracy })");
  checkLoss(loss);
  if (typeof optimizer.init !== "function" || typeof optimizer.update !== "function") {
    fail("optimizer", "an optimizer (such as optim.sgd({ learningRate: 0.01 }))");
  }
  // Throws an error with a hint if the dataset has no batches.
  void data.batchesPerEpoch;
}

/** A hint for values that other libraries take. */
function kindHint(name: keyof TrainOptions, value: unknown): string | undefined {
  if (name === "model" && Array.isArray(value)) return "combine layers with nn.sequential(first, second)";
  if (typeof value === "string" || (typeof value === "function" && name === "optimizer"))
    return "names are for keras.model(layer).compile; here write a call, such as optim.adam({ learningRate: 1e-3 })";
  if ((name === "data" || name === "evaluate") && typeof value === "object" && value !== null)
    return "make columns from tensors and arrays: data.fromArrays({ x: { shape, data }, y: { shape, data } }).batch(32)";
  return undefined;
}

/** @throws HeddleError `option` unless `precision` is a 16-bit float and `dtype` is f32. */
export function checkPrecision(precision: string, dtype: DType, what = "train"): void {
  oneOf("precision", precision, ["bf16", "f16"] satisfies DType[], what);
  if (dtype === "f32") return;
  throw new HeddleError("option", `${what}: precision "${precision}" needs dtype f32, not ${dtype}`);
}

function oneOf(name: string, value: unknown, values: readonly string[], what = "train"): void {
  if (values.includes(value as string)) return;
  throw new HeddleError("option", `${what}: ${name} must be ${values.join(" or ")}, got ${String(value)}`);
}

function checkCheckpoint(checkpoint: CheckpointOptions): void {
  const what = "checkpoint";
  checkOptions("train: checkpoint", checkpoint, [
    "directory",
    "every",
    "keep",
    "keepHours",
    "keepBest",
    "format",
    "parts",
  ]);
  const { directory, format = "auto", parts = {} } = checkpoint;
  oneOf("checkpoint.format", format, ["auto", "file", "parts"]);
  checkPlace("train", "checkpoint.directory", directory, "folder");
  checkSeries(what, checkpoint);
  for (const [name, part] of Object.entries(parts)) {
    const place = `${what}.parts.${name}`;
    if (!/^[A-Za-z][A-Za-z0-9_-]{0,63}$/.test(name) || /^(step|earlier)-/.test(name))
      throw new HeddleError("option", `train: checkpoint.parts has "${name}", which is not the name of a folder here`);
    checkOptions(`train: ${place}`, part, ["only", "every", "keep", "keepHours", "keepBest"]);
    matching(`train: ${place}.only`, part.only);
    checkSeries(place, part, ["epoch", "end"]);
  }
}

function checkSeries(
  what: string,
  { every = "epoch", keep = 3, keepHours, keepBest }: Omit<PartCheckpoints, "only">,
  moments: readonly string[] = ["epoch"],
): void {
  if (!moments.includes(every as string)) checkInteger("train", `${what}.every`, every as number, 1);
  if (keep !== Infinity) checkInteger("train", `${what}.keep`, keep, 1);
  if (keepHours !== undefined) checkNumber("train", `${what}.keepHours`, keepHours, Number.MIN_VALUE);
  if (keepBest === undefined) return;
  if (typeof keepBest === "object")
    checkOptions(`train: ${what}.keepBest`, keepBest ?? {}, ["count", "monitor", "mode"]);
  const { count = 1, ...monitor } = typeof keepBest === "object" ? (keepBest ?? {}) : { count: keepBest };
  checkInteger("train", `${what}.keepBest`, count, 1);
  checkMonitor(`train: ${what}.keepBest`, monitor);
}

function checkGradients({ clip, accumulate = 1, ema, pipeline }: TrainOptions): void {
  if (clip !== undefined) {
    if (typeof clip !== "object" || clip === null)
      throw new HeddleError("option", `train: clip must be { norm } or { value }, got ${String(clip)}`);
    checkOptions("train: clip", clip, ["value", "norm"]);
    if (Object.keys(clip).length === 0)
      throw new HeddleError("option", "train: clip has no bound", { hint: "write { norm: 1 } or { value: 1 }" });
    for (const [name, bound] of Object.entries(clip)) checkNumber("train", `clip.${name}`, bound, Number.MIN_VALUE);
  }
  checkInteger("train", "accumulate", accumulate, 1);
  if (ema !== undefined) checkNumber("train", "ema", ema, 0, 1);
  if (ema === 1) throw new HeddleError("option", "train: ema must be below 1, otherwise the average never changes");
  if (accumulate > 1 && pipeline !== undefined)
    throw new HeddleError("option", "train: a pipeline accumulates gradients over its micro-batches", {
      hint: "set pipeline.microBatches",
    });
}

function checkPipeline({ pipeline }: TrainOptions): void {
  const { stages, microBatches, stagesPerRank = 1, gatherEach = false } = pipeline as PipelineTraining;
  checkOptions("train: pipeline", pipeline as PipelineTraining, [
    "stages",
    "microBatches",
    "schedule",
    "stagesPerRank",
    "gatherEach",
  ]);
  checkInteger("train", "pipeline.microBatches", microBatches, 1);
  checkInteger("train", "pipeline.stagesPerRank", stagesPerRank, 1);
  if (typeof gatherEach !== "boolean")
    throw new HeddleError("option", `train: pipeline.gatherEach must be true or false, got ${shown(gatherEach)}`);
  if (typeof stages !== "object" || stages === null || Object.keys(stages).length === 0)
    throw new HeddleError("option", "train: pipeline.stages must name the stage of each layer with parameters");
  for (const [layer, stage] of Object.entries(stages)) checkInteger("train", `pipeline.stages["${layer}"]`, stage, 0);
}

function checkColumns(dataset: Dataset, wanted: readonly string[], by = "the options input and target"): void {
  for (const name of wanted) {
    if (dataset.columns.has(name)) continue;
    throw new HeddleError("data", `train: ${dataset.name} has no column "${name}"`, {
      hint: `its columns are ${listed([...dataset.columns.keys()])}; name one with ${by}`,
    });
  }
}

/** The file or folder to resume from, if any. */
function resumeFrom({ resume, checkpoint }: TrainOptions): string | undefined {
  const wanted = resume ?? readEnvironment().resume;
  if (typeof wanted === "string") return wanted;
  if (!wanted) return undefined;
  if (checkpoint === undefined) {
    // A launcher that starts a failed run again does not know whether the run has checkpoints.
    if (resume === undefined && readEnvironment().epoch > 0) return undefined;
    throw new HeddleError("option", "train: there is nothing to resume from", {
      hint: "pass checkpoint: { directory }, or the path of a checkpoint as resume",
    });
  }
  return checkpoint.directory;
}
