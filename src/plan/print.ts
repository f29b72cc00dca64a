/** @module Text of plans, and reading it back. */
import { parseGraph } from "../ir/parse.ts";
import { printGraph, quoted, unquoted } from "../ir/print.ts";
import { formatType, parseType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { canonicalJson, type Plain, parseCanonicalJson } from "../util/text.ts";
import type { DeviceClass } from "./classes.ts";
import type { ValueFormat } from "./formats.ts";
import { formatLayout, parseLayout } from "./layout.ts";
import { deviceCount, formatMesh, mesh, parseMesh } from "./mesh.ts";
import { orderGrid, parseSchedule } from "./pipeline/schedule.ts";
import type { ScheduleCosts } from "./pipeline/simulate.ts";
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
 * An input that is used in another layout than it is stored in has `used` and that layout after its own. `of 1f2e3d` after
 * the name is the fingerprint of the planned graph, where it is known. Each matrix given by entries has a line:
 * `format f32[400,300] of 900 entries: entries` (or `dense`).
 *
 * Where devices differ, the graph of each class follows the line `devices 0 2` that lists them; `inputs 0 1` and `outputs
 * 2` list the plan's inputs and outputs that such a graph has, where they are not all.
 *
 * In a pipeline, values have their stage (`stage 1`), and `batch` where their rows are split into micro-batches. The
 * schedule stands as a grid before the graph, and the graph is that of one micro-batch.
 */
export function printPlan(plan: Plan): string {
  const graphs = plan.classes.map((deviceClass) => `${classText(deviceClass, plan)}${printGraph(deviceClass.local)}`);
  return `${printLayouts(plan)}\n${graphs.join("\n")}`;
}

/** {@link printPlan} without the graphs: the layouts that decide them, as text to edit. {@link parseLayouts} reads it back. */
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
  const cost = costs === undefined ? [] : [`costs ${canonicalJson(costs as unknown as Plain)}`];
  const { name, stages, microBatches } = schedule;
  return [...cost, `schedule ${name} stages=${stages} microBatches=${microBatches}`, orderGrid(schedule, () => false)];
}

function classText({ devices, inputs, outputs }: DeviceClass, { classes }: Plan): string {
  if (classes.length === 1) return "";
  const listed = (what: string, indices: readonly number[] | undefined): string =>
    indices === undefined ? "" : `${[what, ...indices].join(" ")}\n`;
  return `${listed("devices", devices)}${listed("inputs", inputs)}${listed("outputs", outputs)}`;
}

/** The inverse of {@link printPlan}. @throws HeddleError `parse`. */
export function parsePlan(text: string): Plan {
  const end = text.indexOf("\n\n");
  const layouts = parseLayouts(text);
  if (end < 0) throw new HeddleError("parse", "the plan has no graph", { hint: "parseLayouts reads one without" });
  const classes = parseClasses(text.slice(end + 2), deviceCount(layouts.mesh));
  return { ...layouts, local: (classes[0] as DeviceClass).local, classes };
}

/** Reads the text of a plan, with or without graphs. @throws HeddleError `parse`. */
export const parseAnyPlan = (text: string): Plan | PlanLayouts =>
  /\n\n(graph|devices) /.test(text) ? parsePlan(text) : parseLayouts(text);

/** The inverse of {@link printLayouts}; graphs after the head are ignored. @throws HeddleError `parse`. */
export function parseLayouts(text: string): PlanLayouts {
  const [first = "", ...lines] = (text.split("\n\n")[0] as string).trimEnd().split("\n");
  const head = /^plan @("(?:[^"\\]|\\.)*"|\S*)(?: of (\S+))? on (\S*)$/.exec(first);
  if (head === null) throw new HeddleError("parse", "line 1: expected 'plan @name on mesh'");
  const values: Values = { inputs: [], outputs: [], formats: [], batch: [] };
  const gridAt = lines.findIndex((line) => line.startsWith("schedule "));
  let costs: ScheduleCosts | undefined;
  lines.slice(0, gridAt < 0 ? lines.length : gridAt).forEach((line, index) => {
    if (line.startsWith("costs ")) costs = parseCanonicalJson(line.slice("costs ".length)) as unknown as ScheduleCosts;
    else if (!parseValue(line, values)) throw new HeddleError("parse", `line ${index + 2}: malformed value '${line}'`);
  });
  const { inputs, outputs, formats, batch } = values;
  return {
    name: unquoted(head[1] as string),
    ...(head[2] === undefined ? {} : { source: head[2] }),
    mesh: head[3] === "" ? mesh({}) : parseMesh(head[3] as string),
    ...{ inputs, outputs, formats },
    ...(gridAt < 0 ? {} : { pipeline: { schedule: parseSchedule(lines.slice(gridAt).join("\n")), costs, batch } }),
  };
}

/** The values in the lines of a plan's head. */
interface Values {
  readonly inputs: PlannedValue[];
  readonly outputs: PlannedValue[];
  readonly formats: ValueFormat[];
  readonly batch: boolean[];
}

function parseValue(line: string, { inputs, outputs, formats, batch }: Values): boolean {
  const formatMatch = /^format (\S+) of (\d+) entries: (dense|entries)$/.exec(line);
  const matrix = formatMatch === null ? undefined : parseType(formatMatch[1] as string);
  if (formatMatch !== null && matrix !== undefined) {
    formats.push({ type: matrix, capacity: Number(formatMatch[2]), format: formatMatch[3] as ValueFormat["format"] });
    return true;
  }
  const match =
    /^(input|output) (.*): (\S+)((?: [RSPO]\S*)*)(?: used((?: [RSPO]\S*)*))?(?: stage (\d+))?( batch)?$/.exec(line);
  const type = match === null ? undefined : parseType(match[3] as string);
  if (match === null || type === undefined) return false;
  const value = {
    ...{ name: match[2] as string, type, layout: parseLayout(match[4] as string) },
    ...(match[5] === undefined ? {} : { used: parseLayout(match[5]) }),
    ...(match[6] === undefined ? {} : { stage: Number(match[6]) }),
  };
  (match[1] === "input" ? inputs : outputs).push(value);
  if (match[1] === "input") batch.push(match[7] !== undefined);
  return true;
}

function parseClasses(text: string, count: number): DeviceClass[] {
  const all = Array.from({ length: count }, (_unused, device) => device);
  if (!text.startsWith("devices ")) return [{ devices: all, local: parseGraph(text) }];
  return text.split(/\n(?=devices [\d ]+\n)/).map((section): DeviceClass => {
    const graph = section.search(/^graph /m);
    const indices = new Map(
      section
        .slice(0, graph)
        .trimEnd()
        .split("\n")
        .map((line) => {
          const [what, ...numbers] = line.split(" ");
          return [what, numbers.map(Number)] as const;
        }),
    );
    const [inputs, outputs] = [indices.get("inputs"), indices.get("outputs")];
    return {
      devices: indices.get("devices") ?? [],
      local: parseGraph(section.slice(graph)),
      ...(inputs === undefined ? {} : { inputs }),
      ...(outputs === undefined ? {} : { outputs }),
    };
  });
}
