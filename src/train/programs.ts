/** @module The compiled programs of a run: one per size of batch, made when first needed. */
import type { Column, Dataset } from "../data/index.ts";
import { isTensorType } from "../ir/shape.ts";
import { learningRatesAt } from "../optim/optimizer.ts";
import { type Layout, type Mesh, replicated } from "../plan/index.ts";
import type { Program } from "../program/index.ts";
import type { Runtime } from "../runtime/runtime.ts";
import {
  type CompiledFunction,
  type CompiledPipeline,
  compileByStage,
  compileFunction,
  compilePipeline,
  meshOf,
  type PlannedFunction,
  type PlannedPipeline,
  planByStage,
  planFunction,
  planPipelineFunction,
} from "../tensor/index.ts";
import { flattenTree } from "../util/tree.ts";
import { namesIn } from "./columns.ts";
import { wishLayout, wishTypes } from "./ending.ts";
import { batchLayout } from "./feed.ts";
import {
  batchTypes,
  columnNames,
  evaluationFunction,
  initialiser,
  keyType,
  type ModelTypes,
  predictionFunction,
} from "./functions.ts";
import { type StateLayouts, stateLayouts, wholeLayouts } from "./layouts.ts";
import type { PipelineTraining, Settings } from "./options.ts";
import { forwardOnly, pipelineOptions } from "./pipeline.ts";
import { stepFunction } from "./step.ts";

type StepFunction = ReturnType<typeof stepFunction>;
type EvaluationFunction = ReturnType<typeof evaluationFunction>;
type PredictionFunction = ReturnType<typeof predictionFunction>;
type Initialiser = ReturnType<typeof initialiser>;

/** The arguments of a step, in order. */
const stepArguments = ["params", "optimizer", "state", "key", "step", "learningRate", "batch", "end"];
const forwardArguments = ["params", "state", "batch"];

/** Layouts of inputs by their paths: batches by row, all else as the state is kept. */
function inputLayouts(names: readonly string[], state: StateLayouts, batch: Layout, wish?: Layout) {
  const stateOf = <Of>(path: string, of: (path: string) => Of): Of => {
    const [index, ...rest] = path.split(".");
    return of([names[Number(index)], ...rest].join("."));
  };
  return {
    layouts: (path: string) => {
      if (path.startsWith(`${names.indexOf("batch")}.`)) return batch;
      return wish !== undefined && path.startsWith(`${names.indexOf("end")}.`) ? wish : stateOf(path, state.kept);
    },
    uses: (path: string) => stateOf(path, state.used),
  };
}

/** What the planner is told of a step. */
function stepOptions({ machine }: Settings, mesh: Mesh, rows: number, state: StateLayouts) {
  return {
    name: "trainStep",
    machine,
    ...inputLayouts(stepArguments, state, batchLayout(mesh, rows), wishLayout(mesh)),
    outputLayouts: state.kept,
    argumentNames: stepArguments,
    // Parameters, optimizer state and state are updated in place.
    donate: [0, 1, 2],
  };
}

function stepExample(settings: Settings, types: ModelTypes, mesh: Mesh, rows: number): unknown[] {
  const { params, optimizer, state } = types.state;
  return [
    params,
    optimizer,
    state,
    keyType,
    { shape: [], dtype: "i32" },
    { shape: learningRatesAt(settings.optimizer, 0).shape, dtype: settings.dtype },
    batchTypes(settings.data, columnNames(settings, settings.data), rows),
    wishTypes(mesh, settings, types),
  ];
}

/** Plans a step for a mesh that need not exist; by default for a whole batch. */
export function planStep(
  settings: Settings,
  types: ModelTypes,
  mesh: Mesh,
  rows = wholeRows(settings),
): PlannedFunction {
  const example = stepExample(settings, types, mesh, rows);
  const layouts = stateLayouts(settings, types, mesh);
  return planFunction(stepFunction(settings, types), example, mesh, stepOptions(settings, mesh, rows, layouts));
}

const wholeRows = ({ data }: Settings): number => data.batchSizes[0] as number;

/** Plans a step as the pipeline that the settings ask for. */
export function planPipelineStep(
  settings: Settings,
  pipeline: PipelineTraining,
  types: ModelTypes,
  mesh: Mesh,
  rows = wholeRows(settings),
): PlannedPipeline {
  const layouts = stateLayouts(settings, types, mesh);
  const options = {
    ...stepOptions(settings, mesh, rows, layouts),
    ...pipelineOptions(pipeline, mesh, rows, parameterPaths(types)),
  };
  return planPipelineFunction(stepFunction(settings, types), stepExample(settings, types, mesh, rows), mesh, options);
}

/** Plans the making of the first values. */
export function planInitialiser(settings: Settings, types: ModelTypes, mesh: Mesh): readonly Program[] {
  const options = initialiserOptions(settings, stateLayouts(settings, types, mesh));
  if (settings.pipeline !== undefined)
    return planByStage(initialiser(settings), [keyType], mesh, options).map(({ planned }) => planned.program);
  return planFunction(initialiser(settings), [keyType], mesh, options).programs;
}

/** Plans the evaluation of so many rows. */
export function planEvaluation(
  settings: Settings,
  dataset: Dataset,
  types: ModelTypes,
  mesh: Mesh,
  rows: number,
): PlannedFunction | PlannedPipeline {
  const fn = evaluationFunction(settings, dataset, types.metrics);
  const layouts = stateLayouts(settings, types, mesh);
  const example = forwardExample(types, dataset, columnNames(settings, dataset), rows);
  const options = forwardOptions("evaluate", settings, mesh, rows, layouts);
  if (settings.pipeline === undefined) return planFunction(fn, example, mesh, options);
  const staged = pipelineOptions(forwardOnly(settings.pipeline), mesh, rows, parameterPaths(types));
  return planPipelineFunction(fn, example, mesh, { ...options, ...staged });
}

/** The first values where they are kept. */
const initialiserOptions = ({ machine }: Settings, layouts: StateLayouts) => ({
  name: "initialise",
  machine,
  argumentNames: ["seed"],
  outputLayouts: layouts.kept,
});

function forwardExample(types: ModelTypes, dataset: Dataset, columns: readonly string[], rows: number): unknown[] {
  const { params, state } = types.state;
  return [params, state, batchTypes(dataset, columns, rows)];
}

/** What the planner is told of an evaluation or a prediction. */
function forwardOptions(name: string, { machine }: Settings, mesh: Mesh, rows: number, layouts: StateLayouts) {
  const everywhere = replicated(mesh);
  return {
    name,
    machine,
    argumentNames: forwardArguments,
    ...inputLayouts(forwardArguments, layouts, batchLayout(mesh, rows)),
    outputLayouts: () => everywhere,
  };
}

const parameterPaths = (types: ModelTypes): string[] => flattenTree(types.state.params, isTensorType).paths;

/** A step that is compiled: by one program for all devices, or as a pipeline. */
export type CompiledStep = CompiledFunction<StepFunction> | CompiledPipeline<StepFunction>;

/** Compiles the programs of a run on a runtime and keeps them. */
export class Programs {
  private readonly settings: Settings;
  private readonly types: ModelTypes;
  /** Where all that the run changes is kept. */
  readonly layouts: StateLayouts;
  private readonly runtime: Runtime;
  private readonly steps = new Map<number, CompiledStep>();
  private readonly evaluations = new Map<string, Pick<CompiledFunction<EvaluationFunction>, "run">>();
  private readonly predictions = new Map<string, CompiledFunction<PredictionFunction>>();

  constructor(settings: Settings, types: ModelTypes, runtime: Runtime) {
    this.settings = settings;
    this.types = types;
    this.runtime = runtime;
    this.layouts = stateLayouts(settings, types, meshOf(runtime));
  }

  /** Makes the first values, each where it is kept. */
  initialise(): Pick<CompiledFunction<Initialiser>, "run"> {
    const fn = initialiser(this.settings);
    const options = initialiserOptions(this.settings, this.layouts);
    if (this.settings.pipeline === undefined) return compileFunction(fn, [keyType], this.runtime, options);
    return compileByStage(fn, [keyType], this.runtime, options);
  }

  step(rows: number): CompiledStep {
    return remembered(this.steps, rows, (): CompiledStep => {
      const { settings, types, runtime } = this;
      const mesh = meshOf(runtime);
      const step = stepFunction(settings, types);
      const example = stepExample(settings, types, mesh, rows);
      const options = stepOptions(settings, mesh, rows, this.layouts);
      if (settings.pipeline === undefined) return compileFunction(step, example, runtime, options);
      const staged = pipelineOptions(settings.pipeline, mesh, rows, parameterPaths(types));
      return compilePipeline(step, example, runtime, { ...options, ...staged });
    });
  }

  /** Loss and metrics of a batch; of a pipeline through its stages. */
  evaluation(dataset: Dataset, rows: number): Pick<CompiledFunction<EvaluationFunction>, "run"> {
    const { settings, types, runtime, layouts } = this;
    return remembered(this.evaluations, columnsKey(dataset, columnNames(settings, dataset), rows), () => {
      const fn = evaluationFunction(settings, dataset, types.metrics);
      const mesh = meshOf(runtime);
      const example = forwardExample(types, dataset, columnNames(settings, dataset), rows);
      const options = forwardOptions("evaluate", settings, mesh, rows, layouts);
      if (settings.pipeline === undefined) return compileFunction(fn, example, runtime, options);
      const staged = pipelineOptions(forwardOnly(settings.pipeline), mesh, rows, parameterPaths(types));
      return compilePipeline(fn, example, runtime, { ...options, ...staged });
    });
  }

  /** The model's outputs for a batch. Of a pipeline from values that are whole on every device. */
  prediction(dataset: Dataset, rows: number): CompiledFunction<PredictionFunction> {
    const { settings, types, runtime } = this;
    return remembered(this.predictions, columnsKey(dataset, namesIn(settings.input), rows), () => {
      const mesh = meshOf(runtime);
      const layouts = settings.pipeline === undefined ? this.layouts : wholeLayouts(mesh);
      const fn = predictionFunction(settings, dataset);
      const example = forwardExample(types, dataset, namesIn(settings.input), rows);
      return compileFunction(fn, example, runtime, forwardOptions("predict", settings, mesh, rows, layouts));
    });
  }
}

/** What a program knows of a dataset: datasets that are alike in it share one. */
const columnsKey = (dataset: Dataset, names: readonly string[], rows: number): string =>
  JSON.stringify([
    rows,
    names.map((name) => {
      const { shape, dtype, transform } = dataset.columns.get(name) as Column;
      return [name, shape.slice(1), dtype, transform];
    }),
  ]);

function remembered<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}
