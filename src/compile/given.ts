/**
 * @module Plans that the caller provides: read back from a file, or edited by hand. They must be of the graph that is to
 * be run.
 */
import { graphFingerprint, inputSpecs } from "../ir/graph.ts";
import type { Graph } from "../ir/node.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { formatMesh, type Mesh } from "../plan/mesh.ts";
import { type PlanLayouts, type PlannedValue, planTitle } from "../plan/plan.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { listed } from "../util/text.ts";
import type { CompileOptions } from "./options.ts";

/** The plan with the fingerprint of its graph, for texts that are read back. */
export const withSource = <Layouts extends PlanLayouts>(plan: Layouts, graph: Graph): Layouts => ({
  ...plan,
  source: graphFingerprint(graph),
});

/** @throws HeddleError `plan` unless the plan is for the mesh. */
export function checkMeshOf(plan: PlanLayouts, mesh: Mesh): void {
  const [planned, actual] = [formatMesh(plan.mesh), formatMesh(mesh)];
  if (planned === actual) return;
  throw new HeddleError("plan", `${planTitle(plan)} is for mesh ${planned}, the devices are ${actual}`, {
    hint: "plan again for this mesh: layouts have a placement for each of its axes",
  });
}

/**
 * Compares a plan with the graph that is to be run by it, after the passes before planning. A plan without graphs need not
 * name all values.
 *
 * @throws HeddleError `plan` naming what differs, on both sides
 */
export function checkPlanOf(
  plan: PlanLayouts & { readonly local?: Graph },
  graph: Graph,
  mesh: Mesh,
  outputNames: readonly string[] = [],
): void {
  checkMeshOf(plan, mesh);
  const outputs = graph.outputs.map(({ types }, index) => ({
    name: outputNames[index] ?? `out${index}`,
    type: types[0] as TensorType,
  }));
  const isWhole = plan.local !== undefined;
  const different = [
    ...differences("input", plan.inputs, inputSpecs(graph), isWhole),
    ...differences("output", plan.outputs, outputs, isWhole),
  ];
  const [planned, actual] = [plan.source, graphFingerprint(graph)];
  if (different.length === 0 && (planned === undefined || planned === actual)) return;
  const what = different.length > 0 ? listed(different) : "the values are the same, the computation differs";
  const prints = planned === undefined || planned === actual ? "" : ` (graph ${planned} there, ${actual} here)`;
  throw new HeddleError("plan", `${planTitle(plan)} is of another function than '${graph.name}'${prints}: ${what}`, {
    hint: "correct the lines that differ; if the function has changed since, print the plan again",
  });
}

/**
 * The values of a plan that the function lacks or that have another type; for a whole plan, also the values that the plan
 * lacks.
 */
function differences(
  what: string,
  planned: readonly PlannedValue[],
  actual: readonly { readonly name: string; readonly type: TensorType }[],
  isWhole: boolean,
): string[] {
  const types = new Map(actual.map(({ name, type }) => [name, formatType(type)]));
  const known = new Set(planned.map(({ name }) => name));
  return [
    ...planned.flatMap(({ name, type, line }) => {
      const actualType = types.get(name);
      const value = `${what} '${name}'${line === undefined ? "" : ` (line ${line})`}`;
      if (actualType === undefined) {
        const near = nearest(name, [...types.keys()]);
        return [`${value} is in the plan only${near === undefined ? "" : `; did you mean '${near}'?`}`];
      }
      return actualType === formatType(type)
        ? []
        : [`${value} is ${formatType(type)} in the plan and ${actualType} here`];
    }),
    ...actual.flatMap(({ name }) => (isWhole && !known.has(name) ? [`${what} '${name}' is not in the plan`] : [])),
  ];
}

/** The options of a compile, with the layouts and the schedule of a plan. */
export function withLayouts(options: CompileOptions, plan: PlanLayouts, graph: Graph): CompileOptions {
  const [inputs, outputs] = [plan.inputs, plan.outputs].map(
    (values) => new Map(values.map((value) => [value.name, value])),
  ) as [Map<string, PlannedValue>, Map<string, PlannedValue>];
  const names = inputSpecs(graph).map(({ name }) => name);
  const { outputNames = [], pipeline } = options;
  return {
    ...options,
    inputs: names.map((name, index) => inputs.get(name)?.layout ?? options.inputs?.[index]),
    uses: names.map((name, index) => (inputs.has(name) ? inputs.get(name)?.used : options.uses?.[index])),
    outputs: outputNames.map((name, index) => outputs.get(name)?.layout ?? options.outputs?.[index]),
    pipeline: plan.pipeline && {
      microBatches: plan.pipeline.schedule.microBatches,
      schedule: plan.pipeline.schedule,
      costs: plan.pipeline.costs,
      gatherEach: pipeline?.gatherEach,
      stages: names.map((name, index) => (inputs.has(name) ? inputs.get(name)?.stage : pipeline?.stages[index])),
      batch: names.map((name) => plan.pipeline?.batch[plan.inputs.findIndex((value) => value.name === name)] === true),
      updates: pipeline?.updates ?? outputNames.map((name) => (names.includes(name) ? names.indexOf(name) : undefined)),
    },
  };
}
