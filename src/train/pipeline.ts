/** @module Training as a pipeline: which parameters are where, and the step that is planned so. */
import { type Mesh, mesh as makeMesh, parseMesh } from "../plan/index.ts";
import { stageAxis } from "../program/index.ts";
import { isOnStage, isTensor, type PipelineOptions, replicate, type Tensor } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { mostParts } from "./accumulate.ts";
import { batchParts } from "./feed.ts";
import type { TrainState } from "./functions.ts";
import type { PipelineTraining } from "./options.ts";

/** One device per stage, and as many such pipelines as the workers make. */
export function pipelineMesh({ stages }: PipelineTraining, workers: number): Mesh {
  const count = Math.max(...Object.values(stages)) + 1;
  if (workers === 1 || workers === count) return makeMesh({ [stageAxis]: count });
  if (workers % count !== 0)
    throw new HeddleError("mesh", `train: ${workers} workers do not make pipelines of ${count} stages`, {
      hint: `start a multiple of ${count} workers, or one`,
    });
  return parseMesh(`${stageAxis}=${count},data=${workers / count}`);
}

/**
 * What the planner is told of a step as a pipeline.
 *
 * @throws HeddleError `pipeline` naming a parameter that no entry gives a stage, or an entry that names no parameter.
 */
export function pipelineOptions(
  { stages, microBatches, schedule }: PipelineTraining,
  mesh: Mesh,
  rows: number,
  paths: readonly string[],
): Pick<PipelineOptions, "stages" | "batch" | "microBatches" | "schedule"> {
  const entries = Object.entries(stages);
  const entryOf = (path: string) =>
    entries
      .filter(([layer]) => path === `params.${layer}` || path.startsWith(`params.${layer}.`))
      .sort(([one], [other]) => other.length - one.length)[0];
  const missing = paths.find((path) => entryOf(`params.${path}`) === undefined);
  if (missing !== undefined)
    throw new HeddleError("pipeline", `train: pipeline.stages gives parameter '${missing}' no stage`, {
      hint: `its entries are ${entries.map(([layer]) => `"${layer}"`).join(", ")}`,
    });
  const unused = entries.find((entry) => !paths.some((path) => entryOf(`params.${path}`)?.[0] === entry[0]));
  if (unused !== undefined)
    throw new HeddleError("pipeline", `train: pipeline.stages names '${unused[0]}', which has no parameters`, {
      hint: `the parameters are ${paths.join(", ")}`,
    });
  return {
    stages: (path) => entryOf(path)?.[1],
    batch: (path) => path.startsWith("batch."),
    microBatches: mostParts(rows / batchParts(mesh), microBatches),
    schedule,
  };
}

/** The values of a training on every device. Communicates where some are on one stage; every worker must call it. */
export function wholeState(values: TrainState): TrainState {
  const { leaves, shape } = flattenTree(values, isTensor);
  if (!leaves.some(isOnStage)) return values;
  const whole = leaves.map((leaf: Tensor) => (isOnStage(leaf) ? replicate(leaf) : leaf));
  return unflattenTree(shape, whole) as TrainState;
}
