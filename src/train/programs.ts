/** @module The compiled programs of a run: one per size of batch, made when first needed. */
import type { Dataset } from "../data/index.ts";
import { isTensorType } from "../ir/shape.ts";
import { type Layout, type Mesh, replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/runtime.ts";
import {
  type CompiledFunction,
  type CompiledPipeline,
  compileFunction,
  compilePipeline,
  meshOf,
  type PlannedFunction,
  type PlannedPipeline,
  planFunction,
  planPipelineFunction,
} from "../tensor/index.ts";
import { flattenTree } from "../util/tree.ts";
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
import { type StateLayouts, stateLayouts } from "./layouts.ts";
import type { PipelineTraining, Settings } from "./options.ts";
import { pipelineOptions } from "./pipeline.ts";
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
function stepOptions(mesh: Mesh, rows: number, state: StateLayouts) {
  return {
    name: "trainStep",
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
    { shape: [], dtype: settings.dtype },
    batchTypes(settings.data, columnNames(settings), rows),
    wishTypes(mesh, settings),
  ];
}

/** Plans a step for a mesh that need not exist. */
export function planStep(settings: Settings, types: ModelTypes, mesh: Mesh): PlannedFunction {
  const rows = settings.data.batchSizes[0] as number;
  const example = stepExample(settings, types, mesh, rows);
  const layouts = stateLayouts(settings.layoutRules, types, mesh);
  return planFunction(stepFunction(settings, types), example, mesh, stepOptions(mesh, rows, layouts));
}

/** Plans a step as the pipeline that the settings ask for. */
export function planPipelineStep(
  settings: Settings,
  pipeline: PipelineTraining,
  types: ModelTypes,
  mesh: Mesh,
): PlannedPipeline {
  const rows = settings.data.batchSizes[0] as number;
  const layouts = stateLayouts(settings.layoutRules, types, mesh);
  const options = {
    ...stepOptions(mesh, rows, layouts),
    ...pipelineOptions(pipeline, mesh, rows, parameterPaths(types)),
  };
  return planPipelineFunction(stepFunction(settings, types), stepExample(settings, types, mesh, rows), mesh, options);
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
  private readonly evaluations = new Map<string, CompiledFunction<EvaluationFunction>>();
  private readonly predictions = new Map<string, CompiledFunction<PredictionFunction>>();
  private readonly datasetNumbers = new WeakMap<Dataset, number>();
  private nextNumber = 0;

  constructor(settings: Settings, types: ModelTypes, runtime: Runtime) {
    this.settings = settings;
    this.types = types;
    this.runtime = runtime;
    this.layouts = stateLayouts(settings.layoutRules, types, meshOf(runtime));
  }

  initialise(): CompiledFunction<Initialiser> {
    return compileFunction(initialiser(this.settings), [keyType], this.runtime, {
      name: "initialise",
      argumentNames: ["seed"],
      outputLayouts: this.layouts.kept,
    });
  }

  step(rows: number): CompiledStep {
    return remembered(this.steps, rows, (): CompiledStep => {
      const { settings, types, runtime } = this;
      const mesh = meshOf(runtime);
      const step = stepFunction(settings, types);
      const example = stepExample(settings, types, mesh, rows);
      const options = stepOptions(mesh, rows, this.layouts);
      if (settings.pipeline === undefined) return compileFunction(step, example, runtime, options);
      const staged = pipelineOptions(settings.pipeline, mesh, rows, parameterPaths(types));
      return compilePipeline(step, example, runtime, { ...options, ...staged });
    });
  }

  evaluation(dataset: Dataset, rows: number): CompiledFunction<EvaluationFunction> {
    return remembered(this.evaluations, this.key(dataset, rows), () =>
      this.compileForward(
        "evaluate",
        evaluationFunction(this.settings, dataset, this.types.metrics),
        dataset,
        rows,
        columnNames(this.settings),
      ),
    );
  }

  prediction(dataset: Dataset, rows: number): CompiledFunction<PredictionFunction> {
    return remembered(this.predictions, this.key(dataset, rows), () =>
      this.compileForward("predict", predictionFunction(this.settings, dataset), dataset, rows, [this.settings.input]),
    );
  }

  private compileForward<F extends EvaluationFunction | PredictionFunction>(
    name: string,
    fn: F,
    dataset: Dataset,
    rows: number,
    columns: readonly string[],
  ): CompiledFunction<F> {
    const mesh = meshOf(this.runtime);
    const everywhere = replicated(mesh);
    const { params, state } = this.types.state;
    return compileFunction(fn, [params, state, batchTypes(dataset, columns, rows)], this.runtime, {
      name,
      argumentNames: forwardArguments,
      ...inputLayouts(forwardArguments, this.layouts, batchLayout(mesh, rows)),
      outputLayouts: () => everywhere,
    });
  }

  private key(dataset: Dataset, rows: number): string {
    const known = this.datasetNumbers.get(dataset);
    const number = known ?? this.nextNumber++;
    if (known === undefined) this.datasetNumbers.set(dataset, number);
    return `${number} ${rows}`;
  }
}

function remembered<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}
