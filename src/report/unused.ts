/** @module Mesh axes that a training does not use, and why. */

import { formatType } from "../ir/shape.ts";
import type { Plan, PlannedValue } from "../plan/index.ts";
import { batchAxes } from "../plan/mesh.ts";
import { formatCount, listed } from "../util/text.ts";
import type { UnusedAxis } from "./plan.ts";

/** The inputs of a step that are split, without the `end.` flags, by which devices ask to end a run. */
export const splitInputs = (plan: Plan): PlannedValue[] =>
  plan.inputs.filter(
    ({ name, layout }) => !name.startsWith("end.") && layout.some((placement) => placement.kind === "shard"),
  );

/**
 * The axes of more than one device on which nothing is split, each with the reason.
 *
 * @param layoutAxes the axes that the rules for parameters split over, where the mesh has them
 */
export function unusedAxes(plan: Plan, layoutAxes: readonly string[] = []): UnusedAxis[] {
  const shared = splitInputs(plan);
  const batch = plan.inputs.filter(({ name }) => name.startsWith("batch."));
  const rows = batch[0]?.type.shape[0] ?? 0;
  const columns = listed(batch.map(({ name, type }) => `${name.slice("batch.".length)} ${formatType(type)}`));
  return plan.mesh.axes.flatMap(({ name, size }, axis) => {
    const split = shared.some(({ layout }) => layout[axis]?.kind === "shard");
    if (size === 1 || split) return [];
    const reason = batchAxes.includes(name)
      ? `it splits batches by rows, and the ${formatCount(rows)} rows of ${columns} are too few for ${size} devices`
      : `train splits batches over the axes 'data' and 'hosts', and nothing over '${name}'${missingAxes(layoutAxes, plan)}`;
    return [{ axis: name, size, reason }];
  });
}

/** The axes of the layout that the mesh does not have: one of them may be what was meant. */
function missingAxes(layoutAxes: readonly string[], { mesh }: Plan): string {
  const missing = layoutAxes.filter((axis) => !mesh.axes.some(({ name }) => name === axis));
  return missing.length === 0 ? "" : ` (the layout splits over ${[...new Set(missing)].join(", ")})`;
}

/** A line for each, in the form of the plan's other lines. */
export const unusedLines = (axes: readonly UnusedAxis[]): string[] =>
  axes.map(
    ({ axis, size, reason }) =>
      `${"unused".padEnd(11)}axis ${axis}=${size}: ${reason}; the ${size} devices along it each do all of the work`,
  );
