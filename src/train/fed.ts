/** @module Checks a given plan against the inputs and outputs of a training step. */
import { formatLayout, type Layout, type PlanLayouts, sameLayout } from "../plan/index.ts";
import { planTitle } from "../plan/plan.ts";
import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { listed } from "../util/text.ts";

/**
 * Checks that a plan has the layouts in which a training keeps and feeds its values.
 *
 * @param fed names of all inputs of the step
 * @throws HeddleError `plan` naming a value with another layout, or with a misspelt name; `parse` for a printed plan that lacks inputs
 */
export function checkFed(
  plan: PlanLayouts,
  { layouts, outputLayouts }: { readonly [Side in "layouts" | "outputLayouts"]: (path: string) => Layout },
  fed: readonly string[],
): void {
  const named = new Set(plan.inputs.map(({ name }) => name));
  checkNames(plan, fed, named);
  // Optimizer state that has the layout of its parameter is not printed. A hand-written plan may name any inputs.
  const missing = fed.filter((name) => !named.has(name) && !name.startsWith("optimizer."));
  if (plan.source !== undefined && missing.length > 0)
    throw new HeddleError("parse", `${planTitle(plan)} does not name ${listed(missing)}: it was cut short`, {
      hint: "print it again; to name some values alone, leave out the fingerprint ('of …' in the first line)",
    });
  for (const [values, at] of [
    [plan.inputs, layouts],
    [plan.outputs, outputLayouts],
  ] as const)
    for (const { name, layout, line } of values) {
      const expected = at(name);
      if (sameLayout(layout, expected)) continue;
      throw new HeddleError(
        "plan",
        `${planTitle(plan, line)} has '${name}' as ${formatLayout(layout)}; train has it as ${formatLayout(expected)}`,
        {
          hint: "a step starts from the layouts of the step before it and takes batches sharded by rows: change only layouts of parameters and of their optimizer state",
        },
      );
    }
}

/** Former names of inputs, with the names of today. */
const renamed = new Map([["end.wish", "end.request"]]);

/** @throws HeddleError `plan` for a former name of an input, and for the name of no input that is similar to the name of an input that the plan lacks */
function checkNames(plan: PlanLayouts, fed: readonly string[], named: ReadonlySet<string>): void {
  const lacking = fed.filter((name) => !named.has(name));
  const inputs = new Set(fed);
  for (const { name, line } of plan.inputs) {
    const successor = renamed.get(name);
    if (successor !== undefined)
      throw new HeddleError("plan", `${planTitle(plan, line)} names '${name}', which is called '${successor}' now`, {
        hint: "print the plan again with heddle plan --layouts",
      });
    const near = inputs.has(name) ? undefined : nearest(name, lacking);
    if (near !== undefined)
      throw new HeddleError(
        "plan",
        `${planTitle(plan, line)} names '${name}', which the training does not have; did you mean '${near}'?`,
        { hint: "heddle plan --layouts prints the names" },
      );
  }
}
