/** @module A pipeline in short: its stages, its schedule as a grid, the bytes that are kept and sent, the time of a step. */
import type { Machine } from "../cost/index.ts";
import { bytesOf, formatType, sizeOf, type TensorType } from "../ir/shape.ts";
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
import { costOf, type DeviceProgram, type Program } from "../program/index.ts";
import { formatBytes, formatTime, listed } from "../util/text.ts";
import { deviceBytes, type TrainingMemory } from "./memory.ts";

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

/** The most bytes of intermediate values that a rank keeps at once for later backward passes, or for their second parts. */
export function bytesKept({ steps, values, inputs }: Program): number {
  const lastRead = new Map<number, number>();
  steps.forEach((step, index) => {
    if (step.kind !== "run" || !/^\d+[BW]/.test(step.region.name)) return;
    step.arguments.forEach((value, position) => {
      // Running sums of gradients are no values of a micro-batch.
      const isSum = /^sum\d+$/.test(String(step.region.inputs[position]?.attrs["name"]));
      if (value >= inputs.length && !isSum) lastRead.set(value, index);
    });
  });
  const sizeOfThose = (list: readonly number[], isThat: (value: number) => boolean): number =>
    [...new Set(list)].filter(isThat).reduce((sum, value) => sum + bytesOf(values[value] as TensorType), 0);
  let [kept, most] = [0, 0];
  steps.forEach((step, index) => {
    if (step.kind === "free") return;
    kept += sizeOfThose(step.results, (value) => (lastRead.get(value) ?? index) > index);
    most = Math.max(most, kept);
    kept -= sizeOfThose(step.arguments, (value) => lastRead.get(value) === index);
  });
  return most;
}

/** Seconds of a step, and of each rank the share in which it waits for others, by the cost model. */
export function predictedWaits(programs: readonly DeviceProgram[], machine?: Machine) {
  const all = programs.map(({ program }) => program);
  const { seconds } = costOf(all, machine);
  return { seconds, waits: all.map((program) => 1 - costOf(program, machine).seconds / seconds) };
}

/** The predicted time of a step as text. */
export function printPrediction(programs: readonly DeviceProgram[], machine?: Machine): string {
  const { seconds, waits } = predictedWaits(programs, machine);
  const shares = waits.map((share, rank) => `rank ${rank} ${percent(Math.max(0, share))}`);
  return `predicted: ${formatTime(seconds)} for a step, of which ranks wait for others: ${listed(shares)}`;
}

/** The memory of a rank as text. */
export function printRankMemory(held: TrainingMemory, rank: number): string {
  const { parameters, optimizer, state, step: arena = 0, batches, batchCount, dataset } = held;
  const parts = [
    `${formatBytes(parameters + optimizer + state)} parameters and optimizer state`,
    `${formatBytes(arena)} for the step`,
    `${formatBytes(batches)} for ${batchCount} ${batchCount === 1 ? "batch" : "batches"}`,
    ...(dataset === 0 ? [] : [`${formatBytes(dataset)} dataset`]),
  ];
  return `memory of rank ${rank}: ${formatBytes(deviceBytes(held) + dataset)}: ${parts.join(", ")}`;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/**
 * A pipeline in short, as text: the stage table, the schedule as a grid, its idle share, the micro-batches that ranks
 * keep, and the bytes that are sent and kept. Ranks that make the same plan print the same text.
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
    `kept for backward passes at most: ${listed(programs.map(({ program }, rank) => `rank ${rank} ${formatBytes(bytesKept(program))}`))}`,
    "",
  ].join("\n");
}
