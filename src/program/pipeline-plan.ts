/** @module The plan of a pipeline: from a graph, a mesh with an axis of stages and the stage of each parameter to programs. */
import type { Machine } from "../cost/index.ts";
import { inputSpecs } from "../ir/graph.ts";
import type { Graph } from "../ir/node.ts";
import { bytesOf, formatType, sizeOf, type TensorType } from "../ir/shape.ts";
import { type Layout, localType, only, replicate } from "../plan/layout.ts";
import { formatMesh, type Mesh, type MeshAxis } from "../plan/mesh.ts";
import {
  assignStages,
  type MicroPlan,
  planMicroBatches,
  printSchedule,
  rankOfStages,
  type Schedule,
  type ScheduleCosts,
  type ScheduleMaker,
  type Simulation,
  schedules,
  simulate,
} from "../plan/pipeline/index.ts";
import { HeddleError } from "../util/errors.ts";
import { formatBytes, listed } from "../util/text.ts";
import type { RankProgram } from "./builder.ts";
import { costOf } from "./cost.ts";
import { pipelinePrograms } from "./pipeline.ts";

/** The mesh axis of the stages. */
export const stageAxis = "stage";

/** What {@link planPipeline} is told besides graph and mesh. */
export interface PipelinePlanOptions {
  readonly microBatches: number;
  /** `"1f1b"` (default), `"gpipe"`, a function that makes one, or a schedule. */
  readonly schedule?: keyof typeof schedules | ScheduleMaker | Schedule | undefined;
  /** Times for the order of actions; default: a backward pass takes twice a forward pass. */
  readonly costs?: ScheduleCosts;
  /** For each input the stage that holds it; undefined: every stage does. */
  readonly stages: readonly (number | undefined)[];
  /** For each input whether its dim 0 is cut into micro-batches. */
  readonly batch: readonly boolean[];
  /** Layouts on the other axes of the mesh (one placement per axis of the mesh; that of the stage axis is ignored). */
  readonly inputs?: readonly (Layout | undefined)[];
  readonly outputs?: readonly (Layout | undefined)[];
  readonly outputNames?: readonly string[];
  /** For each output the index of the input whose next value it is; it is held where that one is. */
  readonly updates?: readonly (number | undefined)[];
  /** Inputs whose memory their next values take over. */
  readonly donate?: readonly number[];
  readonly machine?: Machine | undefined;
}

/** A value of a pipeline: its global type, its layout on the whole mesh, and the stage that holds it. */
export interface PipelineValue {
  readonly name: string;
  readonly type: TensorType;
  readonly layout: Layout;
  readonly stage: number | undefined;
}

/** A graph over stages and micro-batches. Pure: the same inputs give the same plan; no device is needed. */
export interface PipelinePlan {
  readonly name: string;
  readonly mesh: Mesh;
  readonly stages: number;
  readonly microBatches: number;
  readonly schedule: Schedule;
  readonly costs: ScheduleCosts | undefined;
  readonly simulation: Simulation;
  readonly inputs: readonly PipelineValue[];
  readonly outputs: readonly PipelineValue[];
  /** One per coordinate of the stage axis. */
  readonly ranks: readonly RankProgram[];
}

/**
 * Plans a graph as a pipeline. The mesh has an axis `stage`; its other axes are planned as usual within each stage.
 *
 * @throws HeddleError `pipeline` when rows, stages or the mesh do not fit, or a node has no place; `schedule` when the
 * schedule cannot run.
 */
export function planPipeline(graph: Graph, mesh: Mesh, options: PipelinePlanOptions): PipelinePlan {
  const place = mesh.axes.findIndex(({ name }) => name === stageAxis);
  if (place < 0)
    throw new HeddleError("pipeline", `mesh ${formatMesh(mesh)} has no axis '${stageAxis}'`, {
      hint: `name one, as in ${stageAxis}=2`,
    });
  const stages = countStages(graph, options.stages);
  const schedule = makeSchedule(stages, options);
  checkRanks(schedule, (mesh.axes[place] as MeshAxis).size);
  const simulation = simulate(schedule, options.costs);
  const within: Mesh = { axes: mesh.axes.filter((_axis, index) => index !== place) };
  const inner = (layout: Layout | undefined): Layout | undefined => layout?.filter((_one, index) => index !== place);
  const micro = planMicroBatches(graph, within, {
    ...options,
    inputs: graph.inputs.map((_input, index) => inner(options.inputs?.[index])),
    outputs: graph.outputs.map((_output, index) => inner(options.outputs?.[index])),
  });
  const updated = graph.outputs.map((_output, index) => options.updates?.[index]);
  const outputStages = updated.map((input) => (input === undefined ? undefined : options.stages[input]));
  const assigned = assignStages(micro.graph, {
    stages,
    batch: options.batch,
    inputs: options.stages,
    outputs: outputStages,
  });
  const ranks = rankOfStages(schedule);
  const held = (values: MicroPlan["inputs"], at: readonly (number | undefined)[]): PipelineValue[] =>
    values.map(({ name, type, layout }, index) => {
      const stage = at[index];
      const own = stage === undefined ? replicate : only(ranks[stage] as number);
      return { name, type, stage, layout: [...layout.slice(0, place), own, ...layout.slice(place)] };
    });
  const { microBatches, costs } = options;
  const programs = pipelinePrograms({
    name: graph.name,
    stages: assigned,
    schedule,
    ...(costs === undefined ? {} : { costs }),
    axes: mesh.axes,
    stageAxis,
    batch: options.batch,
    inputs: localOn(within, micro.inputs),
    outputs: localOn(within, micro.outputs),
    outputStages,
    donated: updated.map((input) =>
      input !== undefined && options.donate?.includes(input) === true ? input : undefined,
    ),
  });
  return {
    ...{ name: graph.name, mesh, stages, microBatches, schedule, costs, simulation },
    inputs: held(micro.inputs, options.stages),
    outputs: held(micro.outputs, outputStages),
    ranks: programs,
  };
}

/** Types on one device. */
const localOn = (mesh: Mesh, values: MicroPlan["inputs"]): { name: string; type: TensorType }[] =>
  values.map(({ name, type, layout }) => ({ name, type: localType(type, layout, mesh) }));

function countStages(graph: Graph, stages: readonly (number | undefined)[]): number {
  const named = stages.filter((stage) => stage !== undefined);
  if (named.length === 0) throw new HeddleError("pipeline", `'${graph.name}': no input is on any stage`);
  const count = Math.max(...named) + 1;
  for (let stage = 0; stage < count; stage++) {
    if (named.includes(stage)) continue;
    const least = inputSpecs(graph).find((_spec, index) => stages[index] === count - 1);
    throw new HeddleError(
      "pipeline",
      `'${graph.name}': no parameter is on stage ${stage}, but '${least?.name}' is on stage ${count - 1}`,
      { hint: "number the stages from 0 without gaps" },
    );
  }
  return count;
}

/**
 * The schedule that options name or make.
 *
 * @throws HeddleError `pipeline` when there is none of that name, or it is for other numbers.
 */
export function makeSchedule(
  stages: number,
  { schedule = "1f1b", microBatches }: Pick<PipelinePlanOptions, "schedule" | "microBatches">,
): Schedule {
  const make = typeof schedule === "string" ? schedules[schedule] : schedule;
  if (make === undefined)
    throw new HeddleError("pipeline", `there is no schedule '${String(schedule)}'`, {
      hint: `there are ${Object.keys(schedules).join(", ")}`,
    });
  const made = typeof make === "function" ? make(stages, microBatches) : make;
  if (made.stages !== stages || made.microBatches !== microBatches)
    throw new HeddleError(
      "pipeline",
      `schedule '${made.name}' is for ${made.stages} stages and ${made.microBatches} micro-batches; there are ${stages} and ${microBatches}`,
    );
  return made;
}

function checkRanks({ name, stages, ranks }: Schedule, size: number): void {
  if (ranks.length !== size)
    throw new HeddleError(
      "pipeline",
      `schedule '${name}' of ${stages} stages has ${ranks.length} ranks, axis '${stageAxis}' has ${size} devices`,
      { hint: `give the mesh ${stageAxis}=${ranks.length}, or the parameters other stages` },
    );
}

/** Bytes that each rank of the stage axis sends in one step, by the axis on which they travel. */
export function bytesSentByRank({ ranks }: PipelinePlan): { readonly stage: number; readonly others: number }[] {
  return ranks.map(({ program }) => {
    const { collectives } = costOf(program);
    const sum = (own: boolean): number =>
      collectives.filter(({ axis }) => (axis === stageAxis) === own).reduce((total, { sent }) => total + sent, 0);
    return { stage: sum(true), others: sum(false) };
  });
}

/**
 * The plan as text: the stage table, the schedule as a grid, how long it takes and what it keeps, what travels.
 * Ranks that make the same plan print the same text.
 */
export function printPipeline(plan: PipelinePlan): string {
  const { name, mesh, stages, microBatches, schedule, costs, simulation, inputs } = plan;
  const placed = rankOfStages(schedule);
  const table = Array.from({ length: stages }, (_unused, stage) => {
    const values = inputs.filter((input) => input.stage === stage);
    const bytes = values.reduce((total, { type, layout }) => total + bytesOf(localType(type, layout, mesh)), 0);
    const names = listed(values.map((value) => `${value.name} ${formatType(value.type)}`));
    return `stage ${stage} on rank ${placed[stage]}: ${formatBytes(bytes)}: ${names}`;
  });
  const rows = inputs
    .filter(({ stage, type }) => stage === undefined && sizeOf(type.shape) > 0)
    .map((value) => value.name);
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  const sent = bytesSentByRank(plan).map(
    ({ stage, others }, rank) =>
      `rank ${rank} ${formatBytes(stage)}${others === 0 ? "" : ` and ${formatBytes(others)} within its stage`}`,
  );
  return [
    `pipeline @${name} on ${formatMesh(mesh)}: ${stages} stages, ${microBatches} micro-batches`,
    ...table,
    `every stage: ${listed(rows)}`,
    "",
    printSchedule(schedule, costs).trimEnd(),
    `idle ${percent(simulation.bubble)}; micro-batches kept at most: ${listed(simulation.peakLive.map((live, rank) => `rank ${rank} ${live}`))}`,
    `sent per step: ${listed(sent)}`,
    "",
  ].join("\n");
}
