/** @module A given plan, compared with what a training feeds to its step. */
import { formatLayout, type Layout, type PlanLayouts, sameLayout } from "../plan/index.ts";
import { planTitle } from "../plan/plan.ts";
import { HeddleError } from "../util/errors.ts";
import { listed } from "../util/text.ts";

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
