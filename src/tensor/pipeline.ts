/** @module Functions as pipelines: traced once, cut into stages and micro-batches, run by programs that differ by rank. */

import { runPasses } from "../compile/passes.ts";
import { nothing, onRuntime, type Value } from "../compile/value.ts";
import type { TensorType } from "../ir/shape.ts";
import { type Layout, type Mesh, sameLayout } from "../plan/index.ts";
import { checkMesh } from "../plan/mesh.ts";
import { type PipelinePlan, type PipelinePlanOptions, planPipeline, stageAxis } from "../program/index.ts";
import type { DeviceBuffer, Executable } from "../runtime/executor.ts";
import { meshOf } from "../runtime/mesh.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord } from "../util/options.ts";
import { flattenTree, treeKey, unflattenTree } from "../util/tree.ts";
import { isTensor, Tensor } from "./tensor.ts";
import { type AnyFunction, type FunctionOptions, prepare } from "./transforms.ts";

/** What a pipeline needs to know besides what every planned function does. */
export interface PipelineOptions
  extends FunctionOptions,
    Pick<PipelinePlanOptions, "microBatches" | "schedule" | "costs"> {
  /**
   * Stage of an input by its dotted path (`"params.0.weight"`); undefined: every stage holds it. What an optimizer keeps
   * for a parameter follows it: an input whose path ends in that of a parameter is where the parameter is.
   */
  readonly stages: (path: string) => number | undefined;
  /** Whether dim 0 of an input is cut into micro-batches. */
  readonly batch: (path: string) => boolean;
}

/** A function that is planned as a pipeline. */
export interface PlannedPipeline {
  readonly plan: PipelinePlan;
  readonly outputPaths: readonly string[];
}

/** A compiled pipeline on a runtime. */
export interface CompiledPipeline<F extends AnyFunction> extends PlannedPipeline {
  readonly executable: Executable;
  /** Enqueues a run; the results' contents come later. Donated arguments cannot be used afterwards. */
  run(...inputs: Parameters<F>): ReturnType<F>;
}

/**
 * Plans a function as a pipeline for a mesh that need not exist: the mesh has an axis `stage`.
 *
 * @param example the arguments of the whole batch, as tensors or types
 * @throws HeddleError `pipeline` or `schedule` when the stages or the schedule do not fit
 */
export function planPipelineFunction(
  fn: AnyFunction,
  example: readonly unknown[],
  mesh: Mesh,
  options: PipelineOptions,
): PlannedPipeline {
  return planPrepared(prepare(fn, example, options), mesh, options);
}

function planPrepared(
  { named, traced, compile }: ReturnType<typeof prepare>,
  mesh: Mesh,
  options: PipelineOptions,
): PlannedPipeline {
  checkMesh(mesh);
  asRecord("planPipelineFunction", options);
  const { graph } = traced;
  const types = graph.inputs.map((node) => node.types[0] as TensorType);
  const stages = [...stagesOf(named, options.stages), ...traced.captured.map(() => undefined)];
  const plan = planPipeline(runPasses(graph).graph, mesh, {
    microBatches: options.microBatches,
    schedule: options.schedule,
    ...(options.costs === undefined ? {} : { costs: options.costs }),
    stages,
    batch: [...named.map(options.batch), ...traced.captured.map(() => false)],
    inputs: compile.inputs,
    outputs: compile.outputs,
    outputNames: traced.names,
    updates: updatesOf(
      named,
      traced.names,
      types,
      graph.outputs.map((node) => node.types[0] as TensorType),
    ),
    donate: compile.donate,
    machine: compile.machine,
  });
  return { plan, outputPaths: traced.names };
}

/** The path without the argument that it is in. */
const tailOf = (path: string): string => path.split(".").slice(1).join(".");

/** A parameter's stage, and for what ends in a parameter's path (an optimizer's velocity) that of the parameter. */
function stagesOf(paths: readonly string[], given: (path: string) => number | undefined): (number | undefined)[] {
  const said = paths.map(given);
  const parameters = paths.flatMap((path, index) =>
    said[index] === undefined || tailOf(path) === "" ? [] : [{ tail: tailOf(path), stage: said[index] }],
  );
  return paths.map((path, index) => {
    const owner = parameters
      .filter(({ tail }) => path.endsWith(`.${tail}`))
      .sort((one, other) => other.tail.length - one.tail.length)[0];
    return said[index] ?? owner?.stage;
  });
}

/** For each output the input of the same path (whatever the argument is called) and type. */
function updatesOf(
  inputs: readonly string[],
  outputs: readonly string[],
  inputTypes: readonly TensorType[],
  outputTypes: readonly TensorType[],
): (number | undefined)[] {
  const free = new Set(inputs.keys());
  const fits = (input: number, output: number): boolean =>
    JSON.stringify(inputTypes[input]?.shape) === JSON.stringify(outputTypes[output]?.shape) &&
    inputTypes[input]?.dtype === outputTypes[output]?.dtype;
  const result = new Array<number | undefined>(outputs.length).fill(undefined);
  const same: ((input: string, output: string) => boolean)[] = [
    (input, output) => input === output,
    (input, output) => tailOf(output) !== "" && tailOf(input) === tailOf(output),
    (input, output) => tailOf(input) === output,
  ];
  for (const matches of same)
    outputs.forEach((path, output) => {
      if (result[output] !== undefined) return;
      const found = [...free].find((input) => matches(inputs[input] as string, path) && fits(input, output));
      if (found === undefined) return;
      result[output] = found;
      free.delete(found);
    });
  return result;
}

/**
 * Compiles a function as a pipeline for a runtime whose mesh has an axis `stage`. The result is that of the function on
 * the whole batch: means are over all rows, and dropout takes the bits of the row in the whole batch. A parameter and
 * what belongs to it stay on the devices of their stage; other results are on every stage.
 *
 * @throws HeddleError `pipeline` or `schedule` when the stages or the schedule do not fit.
 */
export function compilePipeline<F extends AnyFunction>(
  fn: F,
  example: readonly unknown[],
  runtime: Runtime,
  options: PipelineOptions,
): CompiledPipeline<F> {
  const prepared = prepare(fn, example, options);
  const { flat, traced, compile } = prepared;
  const planned = planPrepared(prepared, meshOf(runtime), options);
  const { plan } = planned;
  const axis = plan.mesh.axes.findIndex(({ name }) => name === stageAxis);
  const rankOf = ({ coordinates }: { readonly coordinates: readonly number[] }) =>
    plan.ranks[coordinates[axis] as number] as PipelinePlan["ranks"][number];
  const executable = runtime.executor.compile(runtime.local.map((device) => rankOf(device).program));
  const expected = treeKey(flat.shape);
  const donated = new Set(compile.donate);
  return {
    ...planned,
    executable,
    run: (...inputs) => {
      const given = flattenTree(inputs, isTensor);
      if (treeKey(given.shape) !== expected)
        throw new HeddleError("argument", `${plan.name}: arguments have another form than the example`);
      const values = [...given.leaves, ...traced.captured].map((leaf, index) =>
        placed(leaf.value, runtime, plan.inputs[index] as PipelinePlan["inputs"][number]),
      );
      const { outputs } = executable.run(
        runtime.local.map((device, local) =>
          rankOf(device).inputs.map((index) => (values[index] as Value).shards[local] as DeviceBuffer),
        ),
      );
      given.leaves.forEach((leaf, index) => {
        if (donated.has(index)) leaf.markDonated();
      });
      const results = plan.outputs.map(({ type, layout }, output): Value => {
        const shards = runtime.local.map((device, local) => {
          const place = rankOf(device).outputs.indexOf(output);
          return place < 0 ? nothing : (outputs[local]?.[place] as DeviceBuffer);
        });
        return { type, runtime, layout, shards };
      });
      return unflattenTree(traced.output, results.map(Tensor.ofValue)) as ReturnType<F>;
    },
  };
}

/** The value on the runtime; one that is everywhere is also on its stage. */
function placed(value: Value, runtime: Runtime, { name, type, layout }: PipelinePlan["inputs"][number]): Value {
  const here = onRuntime(value, runtime);
  const fits = (has: Layout[number], wanted: Layout[number]): boolean =>
    sameLayout([has], [wanted]) || (has.kind === "replicate" && wanted.kind === "only");
  if (here.layout.every((has, axis) => fits(has, layout[axis] as Layout[number]))) return here;
  throw new HeddleError(
    "layout",
    `'${name}' ${type.dtype}[${type.shape.join(",")}] is on other devices than the pipeline was planned for`,
    { hint: "pass what the step returned, or a value that is on every device" },
  );
}
