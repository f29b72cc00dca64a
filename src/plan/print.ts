/** @module Text of plans, and reading it back. */
import { parseGraph } from "../ir/parse.ts";
import { printGraph } from "../ir/print.ts";
import { formatType, parseType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { formatLayout, parseLayout } from "./layout.ts";
import { formatMesh, mesh, parseMesh } from "./mesh.ts";
import type { Plan, PlannedValue } from "./plan.ts";

/**
 * Prints a plan: its mesh, the layout of each input and output (one placement per axis), the graph of one device.
 *
 *     plan @step on data=2
 *     input x: f32[128,784] S(0)
 *     output loss: f32[] R
 */
export function printPlan(plan: Plan): string {
  const line = (kind: string) => (value: PlannedValue) =>
    `${kind} ${value.name}: ${formatType(value.type)} ${formatLayout(value.layout)}`.trimEnd();
  const head = [
    `plan @${plan.name} on ${formatMesh(plan.mesh)}`,
    ...plan.inputs.map(line("input")),
    ...plan.outputs.map(line("output")),
  ];
  return `${head.join("\n")}\n\n${printGraph(plan.local)}`;
}

/** The inverse of {@link printPlan}. @throws HeddleError `parse`. */
export function parsePlan(text: string): Plan {
  const end = text.indexOf("\n\n");
  const [first, ...lines] = text.slice(0, end).split("\n");
  const head = /^plan @(\S+) on (\S*)$/.exec(first ?? "");
  if (end < 0 || head === null) throw new HeddleError("parse", "line 1: expected 'plan @name on mesh'");
  const inputs: PlannedValue[] = [];
  const outputs: PlannedValue[] = [];
  lines.forEach((line, index) => {
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
  return { name: head[1] as string, mesh: axes, inputs, outputs, local: parseGraph(text.slice(end + 2)) };
}
