/** @module Text of plans, and reading it back. */
import { parseGraph } from "../ir/parse.ts";
import { printGraph } from "../ir/print.ts";
import { formatType, parseType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import type { DeviceClass } from "./classes.ts";
import type { ValueFormat } from "./formats.ts";
import { formatLayout, parseLayout } from "./layout.ts";
import { deviceCount, formatMesh, mesh, parseMesh } from "./mesh.ts";
import type { Plan, PlannedValue } from "./plan.ts";

/**
 * Prints a plan: its mesh, the layout of each input and output (one placement per axis), the graph of one device.
 *
 * ```text
 * plan @step on data=2
 * input x: f32[128,784] S(0)
 * output loss: f32[] R
 * ```
 *
 * Matrices given by entries have a line each: `format f32[400,300] of 900 entries: entries` (or `dense`).
 *
 * Where devices are not alike, the graph of each class follows the line `devices 0 2` that names them.
 */
export function printPlan(plan: Plan): string {
  const line = (kind: string) => (value: PlannedValue) =>
    `${kind} ${value.name}: ${formatType(value.type)} ${formatLayout(value.layout)}`.trimEnd();
  const head = [
    `plan @${plan.name} on ${formatMesh(plan.mesh)}`,
    ...plan.inputs.map(line("input")),
    ...plan.outputs.map(line("output")),
    ...plan.formats.map(({ type, capacity, format }) => `format ${formatType(type)} of ${capacity} entries: ${format}`),
  ];
  const graphs =
    plan.classes.length === 1
      ? [printGraph(plan.local)]
      : plan.classes.map(({ devices, local }) => `devices ${devices.join(" ")}\n${printGraph(local)}`);
  return `${head.join("\n")}\n\n${graphs.join("\n")}`;
}

/** The inverse of {@link printPlan}. @throws HeddleError `parse`. */
export function parsePlan(text: string): Plan {
  const end = text.indexOf("\n\n");
  const [first, ...lines] = text.slice(0, end).split("\n");
  const head = /^plan @(\S+) on (\S*)$/.exec(first ?? "");
  if (end < 0 || head === null) throw new HeddleError("parse", "line 1: expected 'plan @name on mesh'");
  const inputs: PlannedValue[] = [];
  const outputs: PlannedValue[] = [];
  const formats: ValueFormat[] = [];
  lines.forEach((line, index) => {
    const said = /^format (\S+) of (\d+) entries: (dense|entries)$/.exec(line);
    const matrix = said === null ? undefined : parseType(said[1] as string);
    if (said !== null && matrix !== undefined) {
      formats.push({ type: matrix, capacity: Number(said[2]), format: said[3] as ValueFormat["format"] });
      return;
    }
    const match = /^(input|output) (.*): (\S+)((?: \S+)*)$/.exec(line);
    const type = match === null ? undefined : parseType(match[3] as string);
    if (match === null || type === undefined)
      throw new HeddleError("parse", `line ${index + 2}: malformed value '${line}'`);
    (match[1] === "input" ? inputs : outputs).push({
      name: match[2] as string,
      type,
      layout: parseLayout(match[4] as string),
    });
  });
  const axes = head[2] === "" ? mesh({}) : parseMesh(head[2] as string);
  const classes = parseClasses(text.slice(end + 2), deviceCount(axes));
  return {
    name: head[1] as string,
    mesh: axes,
    inputs,
    outputs,
    formats,
    local: (classes[0] as DeviceClass).local,
    classes,
  };
}

function parseClasses(text: string, count: number): DeviceClass[] {
  const all = Array.from({ length: count }, (_unused, device) => device);
  if (!text.startsWith("devices ")) return [{ devices: all, local: parseGraph(text) }];
  return text.split(/\n(?=devices [\d ]+\n)/).map((section): DeviceClass => {
    const line = section.indexOf("\n");
    const devices = section.slice("devices ".length, line).split(" ").map(Number);
    return { devices, local: parseGraph(section.slice(line + 1)) };
  });
}
