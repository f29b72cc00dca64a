/** @module Training as a pipeline: the stage of each parameter, and the planner's options for a step. */

import { parameterOfOwn } from "../compression/state.ts";
import { type FunctionPipeline, isOnStage, isTensor, replicate, type Tensor } from "../functions/index.ts";
import { range } from "../ir/shape.ts";
import { mostParts } from "../nn/parts.ts";
import {
  type Action,
  localType,
  type Mesh,
  mesh as makeMesh,
  makeSchedule,
  parseMesh,
  rankOfStages,
  type Schedule,
  type ScheduleMaker,
  stageAxis,
} from "../plan/index.ts";
import { HeddleError } from "../util/errors.ts";
import { listed } from "../util/text.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { batchLayout } from "./feed.ts";
import type { PipelineTraining } from "./options.ts";
import type { TrainState } from "./values.ts";

/** The default mesh: the ranks of the schedule, and the remaining workers as more such pipelines on the axis `data`. */
export function pipelineMesh(pipeline: PipelineTraining, workers: number): Mesh {
  const { stagesPerRank } = pipeline;
  const stages = countStages(pipeline);
  if (stages % (stagesPerRank ?? 1) !== 0)
    throw new HeddleError("pipeline", `train: ${stages} stages cannot be ${stagesPerRank} on each rank`, {
      hint: `give pipeline.stages a multiple of ${stagesPerRank} stages`,
    });
  const ranks = stagesPerRank === undefined ? undefined : stages / stagesPerRank;
  const schedule = makeSchedule(stages, pipeline, ranks);
  const count = schedule.ranks.length;
  if (count !== (ranks ?? count))
    throw new HeddleError(
      "pipeline",
      `train: schedule '${schedule.name}' of ${stages} stages has ${count} ranks, not ${ranks}`,
      {
        hint: 'pass schedule: "interleaved", or leave out stagesPerRank',
      },
    );
  if (workers === 1 || workers === count) return makeMesh({ [stageAxis]: count });
  if (workers % count !== 0)
    throw new HeddleError("mesh", `train: ${workers} workers do not make pipelines of ${count} ranks`, {
      hint: `start a multiple of ${count} workers, or one; fewer ranks have several stages each (pipeline.stagesPerRank, schedule "interleaved")`,
    });
  return parseMesh(`${stageAxis}=${count},data=${workers / count}`);
}

/**
 * The stage of each parameter, by its path.
 *
 * @throws HeddleError `pipeline` naming a parameter without a stage, or an entry without a parameter.
 */
export function stageOfParameters(
  { stages }: PipelineTraining,
  parameters: readonly string[],
): (parameter: string) => number | undefined {
  const entries = Object.entries(stages);
  const entryOf = (path: string) =>
    entries
      .filter(([layer]) => path === layer || path.startsWith(`${layer}.`))
      .sort(([left], [right]) => right.length - left.length)[0];
  const missing = parameters.find((path) => entryOf(path) === undefined);
  if (missing !== undefined)
    throw new HeddleError("pipeline", `train: pipeline.stages gives parameter '${missing}' no stage`, {
      hint: `its entries are ${listed(entries.map(([layer]) => `"${layer}"`))}`,
    });
  const unused = entries.find((entry) => !parameters.some((path) => entryOf(path)?.[0] === entry[0]));
  if (unused !== undefined)
    throw new HeddleError("pipeline", `train: pipeline.stages names '${unused[0]}', which has no parameters`, {
      hint: `the parameters are ${listed(parameters)}`,
    });
  return (parameter) => entryOf(parameter)?.[1];
}

/** The coordinate on the stage axis that holds each parameter. */
export function stageHolder(
  pipeline: PipelineTraining,
  parameters: readonly string[],
  mesh: Mesh,
): (parameter: string) => number {
  const stageOf = stageOfParameters(pipeline, parameters);
  const ranks = stageRanks(pipeline, mesh);
  return (parameter) => ranks[stageOf(parameter) as number] ?? 0;
}

/** The stage of a request to end, `end.request0`; undefined for another path. */
export function stageOfRequest(path: string): number | undefined {
  const match = /^end\.request(\d+)$/.exec(path);
  return match === null ? undefined : Number(match[1]);
}

/** The coordinate on the stage axis of each stage. */
export const stageRanks = (pipeline: PipelineTraining, mesh: Mesh): number[] =>
  rankOfStages(scheduleOf(pipeline, mesh)).map((rank) => rank ?? 0);

const keptBy = "optimizer.compression.";

/** The planner's options for a step as a pipeline. */
export function pipelineOptions(
  pipeline: PipelineTraining,
  mesh: Mesh,
  rows: number,
  parameters: readonly string[],
): FunctionPipeline {
  const stageOf = stageOfParameters(pipeline, parameters);
  const [each] = localType({ dtype: "i32", shape: [rows] }, batchLayout(mesh, rows), mesh).shape;
  return {
    stages: (path) => {
      const own = path.startsWith(keptBy) ? parameterOfOwn(path.slice(keptBy.length)) : undefined;
      const parameter = path.startsWith("params.") ? path.slice("params.".length) : own;
      return parameter === undefined ? stageOfRequest(path) : stageOf(parameter);
    },
    batch: (path) => path.startsWith("batch."),
    microBatches: mostParts(each as number, pipeline.microBatches),
    schedule: pipeline.schedule,
    gatherEach: pipeline.gatherEach,
  };
}

/** A pipeline with the same stages on the same ranks, but no backward passes: for an evaluation, with any number of micro-batches. */
export function forwardOnly(pipeline: PipelineTraining, mesh: Mesh): PipelineTraining {
  const homes = stageRanks(pipeline, mesh);
  const count = Math.max(...homes) + 1;
  const schedule: ScheduleMaker = (stages, microBatches) => {
    // In groups of as many micro-batches as there are ranks, so that every rank has work while a group goes through its stages.
    const groups = range(Math.ceil(microBatches / count)).map((group) =>
      range(Math.min(count, microBatches - group * count)).map((index) => group * count + index),
    );
    const ranks = range(count).map((rank): Action[] => {
      const stagesHere = homes.flatMap((home, stage) => (home === rank ? [stage] : []));
      const pass = (kind: Action["kind"], order: readonly number[]): Action[] =>
        groups.flatMap((group) => order.flatMap((stage) => group.map((microBatch) => ({ stage, kind, microBatch }))));
      // A schedule needs backward passes; here they have no work.
      return [...pass("F", stagesHere), ...pass("B", stagesHere.toReversed())];
    });
    return { name: "forward", stages, microBatches, ranks };
  };
  return { ...pipeline, schedule };
}

const countStages = ({ stages }: PipelineTraining): number => Math.max(...Object.values(stages)) + 1;

const scheduleOf = (pipeline: PipelineTraining, { axes }: Mesh): Schedule =>
  makeSchedule(countStages(pipeline), pipeline, axes.find(({ name }) => name === stageAxis)?.size);

/** Copies the values of a pipeline stage to every device. It communicates, so every worker must call it. */
export function wholeState<Values extends Partial<TrainState>>(values: Values): Values {
  const { leaves, shape } = flattenTree(values, isTensor);
  if (!leaves.some(isOnStage)) return values;
  const whole = leaves.map((leaf: Tensor) => (isOnStage(leaf) ? replicate(leaf) : leaf));
  return unflattenTree(shape, whole) as Values;
}
