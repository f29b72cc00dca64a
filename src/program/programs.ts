/** @module The programs of a plan: one for each class of devices, or, of a pipeline, for each place on its axis of stages. */
import { bytesOf, formatType, range, sizeOf } from "../ir/shape.ts";
import { localType } from "../plan/layout.ts";
import { coordinatesOf, formatMesh } from "../plan/mesh.ts";
import { printSchedule, rankOfStages, simulate, stageAxis } from "../plan/pipeline/index.ts";
import type { Plan, PlannedPipeline } from "../plan/plan.ts";
import { formatBytes, listed } from "../util/text.ts";
import type { PartProgram } from "./builder.ts";
import { costOf } from "./cost.ts";
import { pipelinePrograms } from "./pipeline.ts";
import { splitGraph } from "./split.ts";
import { verifyTogether } from "./verify.ts";

/** What some devices of a mesh run. */
export interface DeviceProgram extends PartProgram {
  /** Numbers of the devices, ascending. */
  readonly devices: readonly number[];
}

/**
 * Makes the programs of a plan, that of device 0 first. Equal plans give equal programs.
 *
 * @param donated for each output the index of the input whose buffer it takes over; default: none does
 * @throws HeddleError `schedule` or `pipeline` when a pipeline cannot run.
 */
export function cutPlan(plan: Plan, donated: readonly (number | undefined)[] = []): DeviceProgram[] {
  const { pipeline, mesh, classes } = plan;
  if (pipeline !== undefined) {
    const axis = mesh.axes.findIndex(({ name }) => name === stageAxis);
    const all = classes.flatMap(({ devices }) => devices);
    return pipelinePrograms(plan, pipeline, donated).map((part, rank) => ({
      ...part,
      devices: all.filter((device) => coordinatesOf(mesh, device)[axis] === rank),
    }));
  }
  const programs = classes.map(({ devices, local, ...own }): DeviceProgram => {
    const inputs = own.inputs ?? range(plan.inputs.length);
    const outputs = own.outputs ?? range(plan.outputs.length);
    const program = splitGraph(local, mesh.axes, {
      name: plan.name,
      outputNames: outputs.map((output) => (plan.outputs[output] as Plan["outputs"][number]).name),
      donated: outputs.map((output) => {
        const donor = inputs.indexOf(donated[output] ?? -1);
        return donor < 0 ? undefined : donor;
      }),
    });
    return { devices, program, inputs, outputs };
  });
  // Devices that make the same values meet in the same collectives.
  const made = ({ outputs }: DeviceProgram): string => outputs.join();
  for (const key of new Set(programs.map(made)))
    verifyTogether(programs.filter((one) => made(one) === key).map(({ program }) => program));
  return programs;
}

/** Bytes that each rank of the stage axis sends in one step, by the axis on which they travel. */
export function bytesSentByRank(
  programs: readonly DeviceProgram[],
): { readonly stage: number; readonly others: number }[] {
  return programs.map(({ program }) => {
    const { collectives } = costOf(program);
    const sum = (own: boolean): number =>
      collectives.filter(({ axis }) => (axis === stageAxis) === own).reduce((total, { sent }) => total + sent, 0);
    return { stage: sum(true), others: sum(false) };
  });
}

/**
 * A pipeline in short, as text: the stage table, the schedule as a grid, how long it takes and what it keeps, what travels.
 * Ranks that make the same plan print the same text.
 */
export function printPipeline({ name, mesh, inputs, pipeline }: Plan, programs: readonly DeviceProgram[]): string {
  const { schedule, costs } = pipeline as PlannedPipeline;
  const { stages, microBatches } = schedule;
  const simulation = simulate(schedule, costs);
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
  const sent = bytesSentByRank(programs).map(
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
