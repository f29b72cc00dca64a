/** @module The plan of a pipeline: made from a graph, a mesh with an axis of stages and the stage of each parameter. */
import { inputSpecs } from "../../ir/graph.ts";
import type { Graph } from "../../ir/node.ts";
import { range } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import { type Layout, only, replicate } from "../layout.ts";
import { deviceCount, formatMesh, type Mesh, type MeshAxis } from "../mesh.ts";
import type { Plan, PlannedValue, PlanOptions } from "../plan.ts";
import { planMicroBatches } from "./micro.ts";
import { rankOfStages, type Schedule, type ScheduleMaker, schedules } from "./schedule.ts";
import { type ScheduleCosts, simulate } from "./simulate.ts";

/** The mesh axis of the stages. */
export const stageAxis = "stage";

/** Options that make a plan a pipeline. */
export interface PipelineOptions {
  readonly microBatches: number;
  /**
   * `"1f1b"` (default), `"gpipe"`, `"interleaved"`, `"zb-h1"`, `"zb-h2"`, `"pipedream"`, `"pipedream-vertical"`, `"pipedream-2bw"`, the name of a registered
   * schedule, a function that makes a schedule, or a schedule.
   */
  readonly schedule?: string | ScheduleMaker | Schedule | undefined;
  /** Times for the order of actions; default: a backward pass takes twice a forward pass. */
  readonly costs?: ScheduleCosts | undefined;
  /** For each input the stage that holds it; undefined: all stages. */
  readonly stages: readonly (number | undefined)[];
  /** For each input whether its dim 0 is split into micro-batches. */
  readonly batch: readonly boolean[];
  /** Whether each action gathers the values that are stored in parts; default: each stage gathers them once for all micro-batches. */
  readonly gatherEach?: boolean | undefined;
  /** For each output the index of the input that it updates; the output lives on that input's stage. */
  readonly updates?: readonly (number | undefined)[];
}

/**
 * Plans a graph as a pipeline. The mesh has an axis `stage`; its other axes are planned as usual within each stage.
 *
 * @throws HeddleError `pipeline` when rows, stages or the mesh do not fit, or no stage can run a node; `schedule` when the
 * schedule cannot run.
 */
export function planPipeline(graph: Graph, mesh: Mesh, pipeline: PipelineOptions, options: PlanOptions = {}): Plan {
  const stagePosition = mesh.axes.findIndex(({ name }) => name === stageAxis);
  if (stagePosition < 0)
    throw new HeddleError("pipeline", `mesh ${formatMesh(mesh)} has no axis '${stageAxis}'`, {
      hint: `name one, as in ${stageAxis}=2`,
    });
  const { microBatches, costs, stages, batch, updates, gatherEach } = pipeline;
  const { size } = mesh.axes[stagePosition] as MeshAxis;
  const schedule = makeSchedule(countStages(graph, stages), pipeline, size);
  if (schedule.ranks.length !== size)
    throw new HeddleError(
      "pipeline",
      `schedule '${schedule.name}' of ${schedule.stages} stages has ${schedule.ranks.length} ranks, axis '${stageAxis}' has ${size} devices`,
      { hint: `give the mesh ${stageAxis}=${schedule.ranks.length}, or the parameters other stages` },
    );
  simulate(schedule, costs);
  const innerMesh: Mesh = { axes: mesh.axes.filter((_axis, index) => index !== stagePosition) };
  const innerLayout = (layout?: Layout): Layout | undefined => layout?.toSpliced(stagePosition, 1);
  const micro = planMicroBatches(graph, innerMesh, {
    ...options,
    ...{ microBatches, batch, gatherEach },
    uses: options.uses?.map(innerLayout),
    inputs: graph.inputs.map((_input, index) => innerLayout(options.inputs?.[index])),
    outputs: graph.outputs.map((_output, index) => innerLayout(options.outputs?.[index])),
  });
  const ranks = rankOfStages(schedule);
  const placed = (values: readonly PlannedValue[], stagesOfValues: readonly (number | undefined)[]): PlannedValue[] =>
    values.map(({ layout, used, ...value }, index) => {
      const stage = stagesOfValues[index];
      const placement = stage === undefined ? replicate : only(ranks[stage] as number);
      const onStage = (inner: Layout): Layout => inner.toSpliced(stagePosition, 0, placement);
      return { ...value, stage, layout: onStage(layout), ...(used && { used: onStage(used) }) };
    });
  const outputStages = graph.outputs.map((_output, index) => stages[updates?.[index] ?? -1]);
  return {
    ...{ name: graph.name, mesh, formats: micro.formats, local: micro.graph },
    inputs: placed(micro.inputs, stages),
    outputs: placed(micro.outputs, outputStages),
    classes: [{ devices: range(deviceCount(mesh)), local: micro.graph }],
    pipeline: { schedule, costs, batch },
  };
}

function countStages(graph: Graph, stages: readonly (number | undefined)[]): number {
  const assigned = stages.filter((stage) => stage !== undefined);
  if (assigned.length === 0) throw new HeddleError("pipeline", `'${graph.name}': no input is on any stage`);
  const count = Math.max(...assigned) + 1;
  const missing = range(count).find((stage) => !assigned.includes(stage));
  if (missing === undefined) return count;
  const example = inputSpecs(graph)[stages.indexOf(count - 1)];
  throw new HeddleError(
    "pipeline",
    `'${graph.name}': no parameter is on stage ${missing}, but '${example?.name}' is on stage ${count - 1}`,
    { hint: "number the stages from 0 without gaps" },
  );
}

/**
 * The schedule that the options name, make or contain.
 *
 * @throws HeddleError `pipeline` when the name is unknown, or the schedule is for other numbers of stages or micro-batches.
 */
export function makeSchedule(
  stages: number,
  { schedule = "1f1b", microBatches }: Pick<PipelineOptions, "schedule" | "microBatches">,
  ranks?: number,
): Schedule {
  const make = typeof schedule === "string" ? schedules.get(schedule) : schedule;
  if (make === undefined)
    throw new HeddleError("pipeline", `there is no schedule '${String(schedule)}'`, {
      hint: `there are ${[...schedules.keys()].join(", ")}`,
    });
  const result = typeof make === "function" ? make(stages, microBatches, ranks) : make;
  if (result.stages !== stages || result.microBatches !== microBatches)
    throw new HeddleError(
      "pipeline",
      `schedule '${result.name}' is for ${result.stages} stages and ${result.microBatches} micro-batches; there are ${stages} and ${microBatches}`,
    );
  return result;
}
