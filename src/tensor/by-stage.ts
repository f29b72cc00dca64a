/** @module Functions whose results are each on one stage of a pipeline: every device runs what makes its own. */

import { type Planned, planProgram } from "../compile/compile.ts";
import { nothing, onRuntime, type Value } from "../compile/value.ts";
import type { Graph, Node } from "../ir/node.ts";
import { type Layout, type Mesh, type MeshAxis, type PlannedValue, replicate, withPlacement } from "../plan/index.ts";
import { checkMesh } from "../plan/mesh.ts";
import { stageAxis } from "../program/index.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { meshOf } from "../runtime/mesh.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { invariant } from "../util/errors.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { isTensor, Tensor } from "./tensor.ts";
import { type AnyFunction, type CompiledFunction, type Example, type FunctionOptions, prepare } from "./transforms.ts";

/** What the devices at one coordinate of the stage axis run. */
export interface StageFunction {
  readonly planned: Planned;
  /** Indices of the function's outputs that these devices hold. */
  readonly outputs: readonly number[];
}

/**
 * Plans a function for each coordinate of the axis `stage`: what is computed there are the outputs whose layout is `O` of
 * the coordinate, and those of every stage. Inputs are on every stage.
 */
export function planByStage(
  fn: AnyFunction,
  example: readonly Example[],
  mesh: Mesh,
  options: FunctionOptions,
): StageFunction[] {
  checkMesh(mesh);
  return stagesOf(prepare(fn, example, options), mesh);
}

function stagesOf({ traced, compile }: ReturnType<typeof prepare>, mesh: Mesh): StageFunction[] {
  const axis = mesh.axes.findIndex(({ name }) => name === stageAxis);
  invariant(axis >= 0, `the mesh has an axis '${stageAxis}'`);
  const { graph } = traced;
  return Array.from({ length: (mesh.axes[axis] as MeshAxis).size }, (_unused, coordinate) => {
    const outputs = compile.outputs.flatMap((layout, index) => {
      const placement = layout?.[axis];
      return placement?.kind === "only" && placement.coordinate !== coordinate ? [] : [index];
    });
    const part: Graph = { ...graph, outputs: outputs.map((index) => graph.outputs[index] as Node) };
    const planned = planProgram(part, mesh, {
      inputs: compile.inputs,
      outputs: outputs.map((index) => onEvery(compile.outputs[index], axis)),
      outputNames: outputs.map((index) => traced.names[index] as string),
      machine: compile.machine,
    });
    return { planned, outputs };
  });
}

/** The layout among the devices of one stage. */
const onEvery = (layout: Layout | undefined, axis: number): Layout | undefined =>
  layout === undefined ? undefined : withPlacement(layout, axis, replicate);

/** Compiles a function as {@link planByStage} plans it. */
export function compileByStage<F extends AnyFunction>(
  fn: F,
  example: readonly Example[],
  runtime: Runtime,
  options: FunctionOptions,
): Pick<CompiledFunction<F>, "run"> {
  const prepared = prepare(fn, example, options);
  const { traced, compile } = prepared;
  const mesh = meshOf(runtime);
  const stages = stagesOf(prepared, mesh);
  const axis = mesh.axes.findIndex(({ name }) => name === stageAxis);
  const own = runtime.local.map(({ coordinates }) => stages[coordinates[axis] as number] as StageFunction);
  const executable = runtime.executor.compile(own.map(({ planned }) => planned.program));
  return {
    run: (...inputs) => {
      const values = [...flattenTree(inputs, isTensor).leaves, ...traced.captured].map(({ value }) =>
        onRuntime(value, runtime),
      );
      const { outputs } = executable.run(
        runtime.local.map((_device, local) => values.map(({ shards }) => shards[local] as DeviceBuffer)),
      );
      const results = compile.outputs.map((wanted, output): Value => {
        const holder = stages.find((stage) => stage.outputs.includes(output)) as StageFunction;
        const { type, layout } = holder.planned.plan.outputs[holder.outputs.indexOf(output)] as PlannedValue;
        const placement = wanted?.[axis];
        const shards = own.map((stage, local) => {
          const place = stage.outputs.indexOf(output);
          return place < 0 ? nothing : (outputs[local]?.[place] as DeviceBuffer);
        });
        return {
          type,
          runtime,
          layout: placement === undefined ? layout : withPlacement(layout, axis, placement),
          shards,
        };
      });
      return unflattenTree(traced.output, results.map(Tensor.ofValue)) as ReturnType<F>;
    },
  };
}
