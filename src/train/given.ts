/** @module The plan that `heddle run --plan` gives a training, in the place of what its options say. */
import { readPlan } from "../io/plan-file.ts";
import { reportToLauncher } from "../launcher-messages/launcher.ts";
import {
  formatLayout,
  formatMesh,
  type Layout,
  type PlanLayouts,
  type Schedule,
  sameLayout,
  schedules,
} from "../plan/index.ts";
import { planTitle } from "../plan/plan.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { listed } from "../util/text.ts";
import type { PipelineTraining, Settings } from "./options.ts";

/**
 * The settings of a training by the plan that the environment names, if it does.
 *
 * @throws HeddleError `file` or `parse` for a file that holds no plan; `option` where the training has another mesh.
 */
export function withGivenPlan(settings: Settings): Settings {
  const { planFile } = readEnvironment();
  if (planFile === undefined) return settings;
  const plan = readPlan(planFile);
  reportToLauncher({ type: "givenPlan" });
  const [own, planned] = [settings.mesh ?? plan.mesh, plan.mesh].map(formatMesh);
  if (own !== planned)
    throw new HeddleError(
      "option",
      `train: the plan in ${planFile} is for mesh ${planned}, the option mesh is ${own}`,
      {
        hint: "plan for that mesh, or leave the option out",
      },
    );
  const { pipeline: _own, ...rest } = settings;
  return { ...rest, plan, mesh: plan.mesh, ...stagesIn(plan) };
}

/** Stages and schedule of a plan, as an option of `train` says them. */
function stagesIn({ inputs, pipeline }: PlanLayouts): { readonly pipeline?: PipelineTraining } {
  if (pipeline === undefined) return {};
  const { schedule } = pipeline;
  const params = inputs.flatMap(({ name, stage }): [string, number][] =>
    stage !== undefined && name.startsWith("params.") ? [[name.slice("params.".length), stage]] : [],
  );
  const own: PipelineTraining = {
    stages: Object.fromEntries(params),
    microBatches: schedule.microBatches,
    // A short last batch has fewer micro-batches.
    schedule: (stages, microBatches): Schedule =>
      microBatches === schedule.microBatches ? schedule : schedules["1f1b"](stages, microBatches),
  };
  return { pipeline: own };
}

/**
 * Compares a plan with where a training keeps and feeds its values.
 *
 * @param fed names of all that the step takes
 * @throws HeddleError `plan` naming a value that the plan has elsewhere; `parse` for a printed plan that lacks some
 */
export function checkFed(
  plan: PlanLayouts,
  { layouts, outputLayouts }: Record<Sides, (path: string) => Layout>,
  fed: readonly string[],
): void {
  const named = new Set(plan.inputs.map(({ name }) => name));
  // What follows a parameter is not printed. A plan that was written by hand names what it likes.
  const lacking = fed.filter((name) => !named.has(name) && !name.startsWith("optimizer."));
  if (plan.source !== undefined && lacking.length > 0)
    throw new HeddleError("parse", `${planTitle(plan)} does not name ${listed(lacking)}: it was cut short`, {
      hint: "print it again; to name some values alone, leave out the fingerprint ('of …' in the first line)",
    });
  for (const [values, at] of [
    [plan.inputs, layouts],
    [plan.outputs, outputLayouts],
  ] as const)
    for (const { name, layout, line } of values) {
      const here = at(name);
      if (sameLayout(layout, here)) continue;
      throw new HeddleError(
        "plan",
        `${planTitle(plan, line)} has '${name}' as ${formatLayout(layout)}; train has it as ${formatLayout(here)}`,
        {
          hint: "a step takes the state as the last one left it, and batches split by rows: only parameters and what follows them move",
        },
      );
    }
}

type Sides = "layouts" | "outputLayouts";
