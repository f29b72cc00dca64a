/** @module The compiled programs of a run: one per size of batch, made when first needed. */
import type { Dataset } from "../data/index.ts";
import type { TensorType } from "../ir/shape.ts";
import type { Mesh } from "../plan/index.ts";
import { replicated } from "../plan/index.ts";
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
import { batchLayout } from "./feed.ts";
import {
  batchTypes,
  columnNames,
  evaluationFunction,
  initialiser,
  keyType,
  type ModelTypes,
  predictionFunction,
  stepFunction,
} from "./functions.ts";
import type { PipelineTraining, Settings } from "./options.ts";
import { pipelineOptions } from "./pipeline.ts";

type StepFunction = ReturnType<typeof stepFunction>;
type EvaluationFunction = ReturnType<typeof evaluationFunction>;
type PredictionFunction = ReturnType<typeof predictionFunction>;
type Initialiser = ReturnType<typeof initialiser>;

/** The arguments of a step, in order. */
const stepArguments = ["params", "optimizer", "state", "key", "step", "learningRate", "batch"];
const batchArgument = `${stepArguments.indexOf("batch")}.`;

/** What the planner is told of a step. */
function stepOptions(mesh: Mesh, rows: number) {
  const everywhere = replicated(mesh);
  const split = batchLayout(mesh, rows);
  return {
    name: "trainStep",
    layouts: (path: string) => (path.startsWith(batchArgument) ? split : everywhere),
    outputLayouts: () => everywhere,
    argumentNames: stepArguments,
    // Parameters, optimizer state and state are updated in place.
    donate: [0, 1, 2],
  };
}

function stepExample(settings: Settings, types: ModelTypes, rows: number): unknown[] {
  const { params, optimizer, state } = types.state;
  return [
    params,
    optimizer,
    state,
    keyType,
    { shape: [], dtype: "i32" },
    { shape: [], dtype: settings.dtype },
    batchTypes(settings.data, columnNames(settings), rows),
  ];
}

/** Plans a step for a mesh that need not exist. */
export function planStep(settings: Settings, types: ModelTypes, mesh: Mesh): PlannedFunction {
  const rows = settings.data.batchSizes[0] as number;
  const example = stepExample(settings, types, rows);
  return planFunction(stepFunction(settings, types.metrics), example, mesh, stepOptions(mesh, rows));
}

/** Plans a step as the pipeline that the settings ask for. */
export function planPipelineStep(
  settings: Settings,
  pipeline: PipelineTraining,
  types: ModelTypes,
  mesh: Mesh,
): PlannedPipeline {
  const rows = settings.data.batchSizes[0] as number;
  const options = { ...stepOptions(mesh, rows), ...pipelineOptions(pipeline, mesh, rows, parameterPaths(types)) };
  return planPipelineFunction(stepFunction(settings, types.metrics), stepExample(settings, types, rows), mesh, options);
}

const isType = (value: unknown): value is TensorType =>
  typeof value === "object" && value !== null && "dtype" in value && "shape" in value;

const parameterPaths = (types: ModelTypes): string[] => flattenTree(types.state.params, isType).paths;

/** A step that is compiled: by one program for all devices, or as a pipeline. */
export type CompiledStep = CompiledFunction<StepFunction> | CompiledPipeline<StepFunction>;

/** Compiles the programs of a run on a runtime and keeps them. */
export class Programs {
  private readonly settings: Settings;
  private readonly types: ModelTypes;
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
  }

  initialise(): CompiledFunction<Initialiser> {
    const everywhere = replicated(meshOf(this.runtime));
    return compileFunction(initialiser(this.settings), [keyType], this.runtime, {
      name: "initialise",
      argumentNames: ["seed"],
      outputLayouts: () => everywhere,
    });
  }

  step(rows: number): CompiledStep {
    return remembered(this.steps, rows, (): CompiledStep => {
      const { settings, types, runtime } = this;
      const mesh = meshOf(runtime);
      const step = stepFunction(settings, types.metrics);
      const example = stepExample(settings, types, rows);
      const options = stepOptions(mesh, rows);
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
    const split = batchLayout(mesh, rows);
    const { params, state } = this.types.state;
    return compileFunction(fn, [params, state, batchTypes(dataset, columns, rows)], this.runtime, {
      name,
      argumentNames: ["params", "state", "batch"],
      layouts: (path) => (path.startsWith("2.") ? split : everywhere),
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
