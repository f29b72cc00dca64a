/** @module A pipeline in short: its stages, its schedule as a grid, the bytes that are sent. */
import { bytesOf, formatType, sizeOf } from "../ir/shape.ts";
import {
  formatMesh,
  localType,
  type Plan,
  type PlannedPipeline,
  printSchedule,
  rankOfStages,
  simulate,
  stageAxis,
} from "../plan/index.ts";
import { costOf, type DeviceProgram } from "../program/index.ts";
import { formatBytes, listed } from "../util/text.ts";

/** Bytes that each rank of the stage axis sends in one step, by the axis on which they travel. */
export function bytesSentByRank(
  programs: readonly DeviceProgram[],
): { readonly stage: number; readonly others: number }[] {
  return programs.map(({ program }) => {
    const { collectives } = costOf(program);
    const sum = (alongStages: boolean): number =>
      collectives
        .filter(({ axis }) => (axis === stageAxis) === alongStages)
        .reduce((total, { sent }) => total + sent, 0);
    return { stage: sum(true), others: sum(false) };
  });
}

/**
 * A pipeline in short, as text: the stage table, the schedule as a grid, its idle share, the micro-batches that ranks
 * keep, and the bytes that are sent. Ranks that make the same plan print the same text.
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
