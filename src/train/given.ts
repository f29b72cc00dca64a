/** @module The plan of `heddle run --plan`, which replaces the options `mesh`, `layout` and `pipeline` of a training. */
import { formatMesh, oneFOneB, type PlanLayouts, type Schedule } from "../plan/index.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { host } from "./host.ts";
import { noFiles } from "./no-files.ts";
import type { PipelineTraining, Settings } from "./options.ts";

/**
 * The settings of a training with the plan that the environment names, if it names one.
 *
 * @throws HeddleError `file` or `parse` if the plan cannot be read; `option` if the training has another mesh.
 */
export function withGivenPlan(settings: Settings): Settings {
  const { planFile } = readEnvironment();
  if (planFile === undefined) return settings;
  if (host.files === undefined) throw noFiles("train: HEDDLE_PLAN_FILE names a file with a plan");
  const plan = host.files.readPlan(planFile);
  host.process?.report({ type: "givenPlan" });
  const [wanted, planned] = [settings.mesh ?? plan.mesh, plan.mesh].map(formatMesh);
  if (wanted !== planned)
    throw new HeddleError(
      "option",
      `train: the plan in ${planFile} is for mesh ${planned}, the option mesh is ${wanted}`,
      {
        hint: "plan for that mesh, or leave the option out",
      },
    );
  const { pipeline: replaced, ...rest } = settings;
  return { ...rest, plan, mesh: plan.mesh, ...stagesIn(plan, replaced?.gatherEach) };
}

/** Stages and schedule of a plan, in the form of the option `pipeline`. */
function stagesIn({ inputs, pipeline }: PlanLayouts, gatherEach?: boolean): { readonly pipeline?: PipelineTraining } {
  if (pipeline === undefined) return {};
  const { schedule } = pipeline;
  const params = inputs.flatMap(({ name, stage }): [string, number][] =>
    stage !== undefined && name.startsWith("params.") ? [[name.slice("params.".length), stage]] : [],
  );
  const training: PipelineTraining = {
    stages: Object.fromEntries(params),
    microBatches: schedule.microBatches,
    ...(gatherEach && { gatherEach }),
    // A short last batch has fewer micro-batches, for which the plan has no schedule.
    schedule: (stages, microBatches): Schedule =>
      microBatches === schedule.microBatches ? schedule : oneFOneB(stages, microBatches),
  };
  return { pipeline: training };
}
