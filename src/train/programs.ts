/** @module The compiled programs of a run: one for each kind of batches, compiled at the first use. */

import { stageOf } from "../compression/options.ts";
import type { BatchForm, Column, Dataset } from "../data/browser.ts";
import {
  type CompiledFunction,
  compileFunction,
  type FunctionOptions,
  meshOf,
  type PlannedFunction,
  planFunction,
} from "../functions/index.ts";
import { isTensorType, range } from "../ir/shape.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { type Layout, type Mesh, replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { flattenTree } from "../util/tree.ts";
import { namesIn, recordOf, seenTypes } from "./columns.ts";
import { endRequestLayout, endRequestTypes } from "./ending.ts";
import { checkFed } from "./fed.ts";
import { batchLayout } from "./feed.ts";
import {
  batchTypes,
  columnNames,
  evaluationFunction,
  initialiser,
  modelTypes,
  predictionFunction,
} from "./functions.ts";
import { type StateLayouts, stateLayouts } from "./layouts.ts";
import type { Settings } from "./options.ts";
import { forwardOnly, pipelineOptions } from "./pipeline.ts";
import { stepFunction } from "./step.ts";
import { groups, keyType, type ModelTypes } from "./values.ts";

type StepFunction = ReturnType<typeof stepFunction>;
type EvaluationFunction = ReturnType<typeof evaluationFunction>;
type PredictionFunction = ReturnType<typeof predictionFunction>;
type Initialiser = ReturnType<typeof initialiser>;

/** Layouts of inputs by path: batches are sharded by rows, all other values have the layouts of the state. */
const inputLayouts = (state: StateLayouts, batch: Layout, endRequest?: (path: string) => Layout) => ({
  layouts: (path: string): Layout => {
    if (path.startsWith("batch.")) return batch;
    return endRequest !== undefined && path.startsWith("end.") ? endRequest(path) : state.kept(path);
  },
  uses: state.used,
});

/** The planner's options for a step. */
function stepOptions(
  settings: Settings,
  types: ModelTypes,
  mesh: Mesh,
  { rows, length, stage }: StepKind,
  state: StateLayouts,
) {
  return {
    name: "trainStep",
    machine: settings.machine,
    ...inputLayouts(state, batchLayout(mesh, rows), (path) => endRequestLayout(mesh, settings, path)),
    outputLayouts: state.kept,
    // A step updates these in place, unless the values before the step may be needed again.
    donate: settings.keepsValues === true ? [] : groups,
    pipeline: settings.pipeline && pipelineOptions(settings.pipeline, mesh, rows, parameterPaths(types)),
    plan: isWhole(settings, { rows, length }) && stage === lastStage(settings) ? settings.plan : undefined,
  };
}

/** The steps of a training: by the rows of their batches and the length of these, and the stages of compression. */
interface StepKind {
  readonly rows: number;
  readonly length: number | undefined;
  readonly stage: number;
}

/** The stage of compression in which most of a training runs. */
const lastStage = ({ compression }: Settings): number => compression?.warmup ?? 0;

/** All kinds of steps of a training: whole batches in the last stage first. */
export const stepKinds = (settings: Settings): StepKind[] =>
  range(lastStage(settings) + 1)
    .reverse()
    .flatMap((stage) => settings.data.batchForms.map(({ rows, length }) => ({ rows, length, stage })));

function stepExample(settings: Settings, types: ModelTypes, mesh: Mesh, { rows, length }: StepKind): unknown[] {
  const { params, optimizer, state } = types.state;
  const step = {
    ...{ params, optimizer, state, key: keyType, step: { shape: [], dtype: "i32" } },
    learningRate: { shape: learningRatesAt(settings.optimizer, 0).shape, dtype: settings.dtype },
    batch: batchTypes(settings.data.ofLength(length), columnNames(settings, settings.data), rows),
    end: endRequestTypes(mesh, settings, types),
  };
  return [step];
}

/** A whole batch: of the longest sequences, where there are several lengths. */
export const wholeBatch = ({ data }: Pick<Settings, "data">): BatchForm => data.batchForms[0] as BatchForm;

const isWhole = (settings: Settings, { rows, length }: Pick<StepKind, "rows" | "length">): boolean => {
  const whole = wholeBatch(settings);
  return rows === whole.rows && length === whole.length;
};

/** Plans a step, as a pipeline if the settings ask for it; the mesh need not exist. The default is a step of a whole batch. */
export function planStep(
  settings: Settings,
  types: ModelTypes,
  mesh: Mesh,
  part: Partial<StepKind> = {},
  onPass?: FunctionOptions["onPass"],
): PlannedFunction {
  const layouts = stateLayouts(settings, types, mesh);
  const kind = { length: undefined, ...wholeBatch(settings), stage: lastStage(settings), ...part };
  const options = { ...stepOptions(settings, types, mesh, kind, layouts), onPass };
  const example = stepExample(settings, types, mesh, kind);
  return planFunction(stepFunction(settings, types, kind.stage), example, mesh, options);
}

/** Plans the program that makes the initial values. */
export function planInitialiser(settings: Settings, types: ModelTypes, mesh: Mesh): PlannedFunction {
  return planFunction(
    initialiser(settings),
    [keyType],
    mesh,
    initialiserOptions(settings, stateLayouts(settings, types, mesh)),
  );
}

/** Plans the evaluation of a batch. */
export function planEvaluation(
  settings: Settings,
  of: Dataset,
  types: ModelTypes,
  mesh: Mesh,
  { rows, length }: BatchForm,
): PlannedFunction {
  const dataset = of.ofLength(length);
  const fn = evaluationFunction(settings, dataset, types.metrics);
  const example = forwardExample(types, dataset, columnNames(settings, dataset), rows);
  const options = forwardOptions("evaluate", settings, types, mesh, rows, stateLayouts(settings, types, mesh));
  return planFunction(fn, example, mesh, options);
}

/** The planner's options for the initial values. */
const initialiserOptions = ({ machine }: Settings, layouts: StateLayouts) => ({
  name: "initialise",
  machine,
  argumentNames: ["seed"],
  outputLayouts: layouts.kept,
});

function forwardExample(types: ModelTypes, dataset: Dataset, columns: readonly string[], rows: number): unknown[] {
  const { params, state } = types.state;
  return [{ params, state, batch: batchTypes(dataset, columns, rows) }];
}

/** The planner's options for an evaluation or a prediction, which run through the stages of a pipeline. */
function forwardOptions(
  name: string,
  { machine, pipeline }: Settings,
  types: ModelTypes,
  mesh: Mesh,
  rows: number,
  layouts: StateLayouts,
) {
  const everywhere = replicated(mesh);
  return {
    name,
    machine,
    ...inputLayouts(layouts, batchLayout(mesh, rows)),
    outputLayouts: () => everywhere,
    pipeline: pipeline && pipelineOptions(forwardOnly(pipeline, mesh), mesh, rows, parameterPaths(types)),
  };
}

const parameterPaths = (types: ModelTypes): string[] => flattenTree(types.state.params, isTensorType).paths;

/** A compiled step. */
export type CompiledStep = CompiledFunction<StepFunction>;

/** The types of a model for batches of so many rows of a dataset, or as the model gets them. */
export type SizedTypes = (dataset: Dataset | undefined, rows: number) => ModelTypes;

/** Compiles the programs of a run for a runtime, and caches them. */
export class Programs {
  private readonly settings: Settings;
  private readonly types: ModelTypes;
  private readonly sized: SizedTypes;
  /** Layouts of parameters, optimizer state and layer state. */
  readonly layouts: StateLayouts;
  private readonly runtime: Runtime;
  private first: CompiledFunction<Initialiser> | undefined;
  private readonly steps = new Map<string, CompiledStep>();
  private readonly sizes = new Map<string, ModelTypes["metricSizes"]>();
  private readonly evaluations = new Map<string, CompiledFunction<EvaluationFunction>>();
  private readonly predictions = new Map<string, CompiledFunction<PredictionFunction>>();

  /** @param sized the types where they depend on the rows of a batch: windows of tables do */
  constructor(settings: Settings, types: ModelTypes, runtime: Runtime, sized: SizedTypes = () => types) {
    this.settings = settings;
    this.types = types;
    this.sized = sized;
    this.runtime = runtime;
    this.layouts = stateLayouts(settings, types, meshOf(runtime));
  }

  /** The program that makes the initial values in their layouts. */
  initialise(): CompiledFunction<Initialiser> {
    const options = initialiserOptions(this.settings, this.layouts);
    this.first ??= compileFunction(initialiser(this.settings), [keyType], this.runtime, options);
    return this.first;
  }

  /** All programs of the training, compiled. */
  all() {
    const { evaluate } = this.settings;
    return {
      initialiser: this.initialise(),
      steps: stepKinds(this.settings).map((kind) => this.step(kind, kind.stage)),
      evaluations: evaluate?.batchForms.map((form) => this.evaluation(evaluate, form)) ?? [],
    };
  }

  /** The program of a step in an epoch, from 0; the default is any epoch after the warm-up of compression. */
  step({ rows, length }: BatchForm = wholeBatch(this.settings), epoch = Number.POSITIVE_INFINITY): CompiledStep {
    const { compression } = this.settings;
    const stage = compression === undefined ? 0 : stageOf(compression, epoch);
    return cached(this.steps, `${rows} ${length} ${stage}`, (): CompiledStep => {
      const { settings, runtime } = this;
      const types = this.sized(settings.data.ofLength(length), rows);
      const mesh = meshOf(runtime);
      const kind = { rows, length, stage };
      const options = stepOptions(settings, types, mesh, kind, this.layouts);
      const example = stepExample(settings, types, mesh, kind);
      if (options.plan !== undefined) checkFed(options.plan, options, flattenTree(example[0], isTensorType).paths);
      return compileFunction(stepFunction(settings, types, stage), example, runtime, options);
    });
  }

  /** How many values a metric has for an example of this dataset: a metric of each word has more in a longer batch. */
  metricSizes(of: Dataset, length: number | undefined): ModelTypes["metricSizes"] {
    const { settings } = this;
    if (wholeBatch(settings).length === undefined) return this.types.metricSizes;
    const data = of.ofLength(length);
    const key = columnsKey(data, columnNames(settings, data), 1);
    return cached(this.sizes, key, () => modelTypes({ ...settings, data }).metricSizes);
  }

  /** The program for loss and metrics of a batch. */
  evaluation(of: Dataset, { rows, length }: BatchForm): CompiledFunction<EvaluationFunction> {
    const { settings, runtime, layouts } = this;
    const dataset = of.ofLength(length);
    return cached(this.evaluations, columnsKey(dataset, columnNames(settings, dataset), rows), () => {
      const types = this.sized(dataset, rows);
      const fn = evaluationFunction(settings, dataset, types.metrics);
      const example = forwardExample(types, dataset, columnNames(settings, dataset), rows);
      const options = forwardOptions("evaluate", settings, types, meshOf(runtime), rows, layouts);
      return compileFunction(fn, example, runtime, options);
    });
  }

  /** The program for the model's outputs for a batch of a dataset, or for a batch as the model gets it. */
  prediction(dataset: Dataset | undefined, rows: number): CompiledFunction<PredictionFunction> {
    const { settings, runtime, layouts } = this;
    const names = namesIn(settings.input);
    const key = dataset === undefined ? `${rows}` : columnsKey(dataset, names, rows);
    return cached(this.predictions, key, () => {
      const types = this.sized(dataset, rows);
      const { params, state } = types.state;
      const { input, data, dtype } = settings;
      const example =
        dataset === undefined
          ? [{ params, state, batch: recordOf(input, seenTypes(input, data, rows, dtype)) }]
          : forwardExample(types, dataset, names, rows);
      const options = forwardOptions("predict", settings, types, meshOf(runtime), rows, layouts);
      return compileFunction(predictionFunction(settings, dataset), example, runtime, options);
    });
  }
}

/** The properties of a dataset on which a program depends; datasets with equal properties share a program. */
const columnsKey = (dataset: Dataset, names: readonly string[], rows: number): string =>
  JSON.stringify([
    rows,
    names.map((name) => {
      const { shape, dtype, transform } = dataset.columns.get(name) as Column;
      return [name, shape.slice(1), dtype, transform];
    }),
  ]);

function cached<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}
