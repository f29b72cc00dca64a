/** @module Reads the text that `print.ts` writes, also as people have edited it. */
import { parseGraph } from "../ir/parse.ts";
import { unquoted } from "../ir/print.ts";
import { parseType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { parseCanonicalJson } from "../util/text.ts";
import type { DeviceClass } from "./classes.ts";
import type { ValueFormat } from "./formats.ts";
import { formatPlacement, type Layout, localType, parseLayout, resolved } from "./layout.ts";
import { deviceCount, formatMesh, type Mesh, mesh, parseMesh } from "./mesh.ts";
import { parseSchedule } from "./pipeline/schedule.ts";
import type { ScheduleCosts } from "./pipeline/simulate.ts";
import type { Plan, PlanLayouts, PlannedValue } from "./plan.ts";

const printed = "heddle plan FILE --mesh AXES --layouts prints what can be read; --graph has the graphs, too";

/** A plan's lines: the head, and the graphs, from the number of their first line. */
interface Parts {
  readonly head: readonly string[];
  readonly graphs: readonly string[];
}

function partsOf(text: string): Parts {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  const first = lines.findIndex((line) => /^(graph|devices) /.test(line));
  const end = first < 0 ? lines.length : first;
  return { head: lines.slice(0, end).map((line) => line.trimEnd()), graphs: lines.slice(end) };
}

/** Reads a piece of the text; what is wrong with it is told with its line. */
function atLine<Result>(line: number, read: () => Result): Result {
  try {
    return read();
  } catch (cause) {
    const { message } = cause as Error;
    const { plain = message, hint } = cause instanceof HeddleError ? cause : {};
    throw new HeddleError("parse", `line ${line}: ${plain}`, { cause, ...(hint === undefined ? {} : { hint }) });
  }
}

const wrong = (what: string, hint?: string): HeddleError =>
  new HeddleError("parse", what, hint === undefined ? {} : { hint });

/** The inverse of `printPlan`. @throws HeddleError `parse` naming the line. */
export function parsePlan(text: string): Plan {
  const layouts = parseLayouts(text);
  const { head, graphs } = partsOf(text);
  if (graphs.length === 0)
    throw new HeddleError("parse", "the plan has no graph", { hint: "parseLayouts reads one without" });
  const classes = parseClasses(graphs, head.length, deviceCount(layouts.mesh));
  return { ...layouts, local: (classes[0] as DeviceClass).local, classes };
}

/** Reads the text of a plan, with graphs or without. @throws HeddleError `parse` naming the line. */
export const parseAnyPlan = (text: string): Plan | PlanLayouts =>
  partsOf(text).graphs.length > 0 ? parsePlan(text) : parseLayouts(text);

/** The inverse of `printLayouts`; graphs that follow are left out. @throws HeddleError `parse` naming the line. */
export function parseLayouts(text: string): PlanLayouts {
  const [first = "", ...lines] = partsOf(text).head;
  const head = /^plan @("(?:[^"\\]|\\.)*"|\S*)(?: of (\S+))? on(?: (\S+))?$/.exec(first);
  const axes = atLine(1, () => {
    if (head === null) throw wrong("expected 'plan @name on mesh'", printed);
    return head[3] === undefined ? mesh({}) : parseMesh(head[3]);
  });
  const values: Values = { mesh: axes, inputs: [], outputs: [], formats: [], batch: [] };
  const grid = lines.findIndex((line) => line.startsWith("schedule "));
  let costs: ScheduleCosts | undefined;
  lines.slice(0, grid < 0 ? lines.length : grid).forEach((text, index) => {
    const line = index + 2;
    atLine(line, () => {
      if (text.startsWith("costs "))
        costs = parseCanonicalJson(text.slice("costs ".length)) as unknown as ScheduleCosts;
      else if (text !== "") parseValue(text, line, values);
    });
  });
  const { inputs, outputs, formats, batch } = values;
  const schedule = grid < 0 ? undefined : parseSchedule(lines.slice(grid).join("\n"), grid + 2);
  return {
    name: atLine(1, () => unquoted((head as RegExpExecArray)[1] as string)),
    ...(head?.[2] === undefined ? {} : { source: head[2] }),
    ...{ mesh: axes, inputs, outputs, formats },
    ...(schedule === undefined ? {} : { pipeline: { schedule, costs, batch } }),
  };
}

/** What the lines of a plan's head say. */
interface Values {
  readonly mesh: Mesh;
  readonly inputs: PlannedValue[];
  readonly outputs: PlannedValue[];
  readonly formats: ValueFormat[];
  readonly batch: boolean[];
}

function typed(text: string): TensorType {
  const type = parseType(text);
  if (type === undefined) throw wrong(`'${text}' is not a type; write it as f32[4,6]`);
  return type;
}

function parseValue(text: string, line: number, { mesh, inputs, outputs, formats, batch }: Values): void {
  const format = /^format (\S+) of (\d+) entries: (dense|entries)$/.exec(text);
  if (format !== null) {
    const type = typed(format[1] as string);
    formats.push({ type, capacity: Number(format[2]), format: format[3] as ValueFormat["format"] });
    return;
  }
  const layout = "((?: +(?!used|stage|batch)\\S+)*)";
  const form = new RegExp(`^(input|output) (.*): (\\S+)${layout}(?: +used${layout})?(?: +stage (\\d+))?( +batch)?$`);
  const match = form.exec(text);
  if (match === null) {
    const hint = "a line is 'input name: f32[4,6] S(0) R', with a placement for each axis of the mesh";
    throw wrong(`malformed value '${text}'`, hint);
  }
  const [side, name, stored] = [match[1] as string, match[2] as string, match[4] as string];
  const values = side === "input" ? inputs : outputs;
  const known = values.find((value) => value.name === name);
  if (known !== undefined) throw wrong(`${side} '${name}' is given twice, first in line ${known.line}`);
  const type = typed(match[3] as string);
  const placed = (words: string): Layout => checked(type, parseLayout(words), mesh);
  values.push({
    ...{ name, type, layout: placed(stored), line },
    ...(match[5] === undefined ? {} : { used: placed(match[5]) }),
    ...(match[6] === undefined ? {} : { stage: Number(match[6]) }),
  });
  if (side === "input") batch.push(match[7] !== undefined);
}

/** The layout, where the mesh can have it. */
function checked(type: TensorType, layout: Layout, mesh: Mesh): Layout {
  const { axes } = mesh;
  if (layout.length !== axes.length)
    throw wrong(
      `placements: ${layout.length} are given, mesh ${formatMesh(mesh)} takes ${axes.length}`,
      "write one for each axis, in the mesh's order; R where the axis has the value whole",
    );
  layout.forEach((placement, index) => {
    const { name = "", size = 0 } = axes[index] ?? {};
    if (placement.kind === "only" && placement.coordinate >= size)
      throw wrong(`${formatPlacement(placement)} is no placement on axis '${name}', which has ${size} devices`);
  });
  localType(type, resolved(type, layout, mesh), mesh);
  return layout;
}

/** The graphs of the classes, whose first line has `before` lines before it: as many blank ones stand for those. */
function parseClasses(lines: readonly string[], before: number, count: number): DeviceClass[] {
  const blank = (lines: number): string => "\n".repeat(lines);
  const starts = lines.flatMap((line, index) => (line.startsWith("devices ") ? [index] : []));
  if (starts.length === 0) {
    const devices = Array.from({ length: count }, (_unused, device) => device);
    return [{ devices, local: parseGraph(blank(before) + lines.join("\n")) }];
  }
  return starts.map((start, index): DeviceClass => {
    const section = lines.slice(start, starts[index + 1]);
    const graph = section.findIndex((line) => line.startsWith("graph "));
    const indices = new Map(
      section.slice(0, graph).map((line) => {
        const [what, ...numbers] = line.split(" ");
        return [what, numbers.map(Number)] as const;
      }),
    );
    const [inputs, outputs] = [indices.get("inputs"), indices.get("outputs")];
    return {
      devices: indices.get("devices") ?? [],
      local: parseGraph(blank(before + start + graph) + section.slice(graph).join("\n")),
      ...(inputs === undefined ? {} : { inputs }),
      ...(outputs === undefined ? {} : { outputs }),
    };
  });
}
