/** @module Text of plans; `parse.ts` reads it back. */
import { printGraph, quoted } from "../ir/print.ts";
import { formatType } from "../ir/shape.ts";
import { canonicalJson, type Plain } from "../util/text.ts";
import type { DeviceClass } from "./classes.ts";
import { formatLayout } from "./layout.ts";
import { formatMesh } from "./mesh.ts";
import { orderGrid, scheduleHead } from "./pipeline/grid.ts";
import type { Plan, PlanLayouts, PlannedPipeline, PlannedValue } from "./plan.ts";

/**
 * Prints a plan: its mesh, the layout of each input and output (one placement per axis), the graph of one device.
 *
 * ```text
 * plan @step on data=2
 * input x: f32[128,784] S(0)
 * output loss: f32[] R
 * ```
 *
 * If an input is used in a layout other than the one it is kept in, `used` and that layout follow. `of 1f2e3d` after the name is the fingerprint of the planned graph, if it is known. Each matrix given by its entries has a line:
 * `format f32[400,300] of 900 entries: entries` (or `dense`).
 *
 * Where devices are not alike, the graph of each class follows the line `devices 0 2` that names them; `inputs 0 1` and `outputs 2` name
 * what such a graph takes and makes, where that is not all.
 *
 * In a pipeline, values have their stage (`stage 1`) and `batch` where their rows are cut into micro-batches, the schedule stands as a
 * grid before the graph, and the graph is that of one micro-batch.
 */
export function printPlan(plan: Plan): string {
  const graphs = plan.classes.map((one) => `${classText(one, plan)}${printGraph(one.local)}`);
  return `${printLayouts(plan)}\n${graphs.join("\n")}`;
}

/** {@link printPlan} without graphs: what decides them, for people to edit. It is read back by {@link parseLayouts}. */
export function printLayouts({ name, source, mesh: axes, inputs, outputs, formats, pipeline }: PlanLayouts): string {
  const line = (kind: string) => (value: PlannedValue, index: number) => {
    const stage = value.stage === undefined ? "" : ` stage ${value.stage}`;
    const used = value.used === undefined ? "" : ` used ${formatLayout(value.used)}`;
    const batch = kind === "input" && pipeline?.batch[index] === true ? " batch" : "";
    return (
      `${kind} ${value.name}: ${formatType(value.type)} ${formatLayout(value.layout)}`.trimEnd() + used + stage + batch
    );
  };
  const head = [
    `plan @${quoted(name)}${source === undefined ? "" : ` of ${source}`} on ${formatMesh(axes)}`,
    ...inputs.map(line("input")),
    ...outputs.map(line("output")),
    ...formats.map(({ type, capacity, format }) => `format ${formatType(type)} of ${capacity} entries: ${format}`),
    ...(pipeline === undefined ? [] : pipelineLines(pipeline)),
  ];
  return `${head.join("\n")}\n`;
}

function pipelineLines({ schedule, costs }: PlannedPipeline): string[] {
  const said = costs === undefined ? [] : [`costs ${canonicalJson(costs as unknown as Plain)}`];
  return [...said, scheduleHead(schedule), orderGrid(schedule, () => false)];
}

function classText({ devices, inputs, outputs }: DeviceClass, { classes }: Plan): string {
  if (classes.length === 1) return "";
  const those = (what: string, indices: readonly number[] | undefined): string =>
    indices === undefined ? "" : `${[what, ...indices].join(" ")}\n`;
  return `${those("devices", devices)}${those("inputs", inputs)}${those("outputs", outputs)}`;
}
