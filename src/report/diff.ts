/** @module How two plans differ, as text: layouts, schedule, collectives, predicted cost. */
import { type Cost, environmentMachine, type Traffic } from "../cost/index.ts";
import { formatType } from "../ir/shape.ts";
import {
  formatLayout,
  formatMesh,
  type Plan,
  type PlanLayouts,
  type PlannedValue,
  printSchedule,
} from "../plan/index.ts";
import { costOf, cutPlan, type Program } from "../program/index.ts";
import { formatBytes, formatCount, formatTable, formatTime } from "../util/text.ts";

type AnyPlan = Plan | PlanLayouts;

/**
 * The differences of two plans, `a` and `b`, with or without graphs, as text: the mesh, layouts of values by name, a
 * pipeline's schedule, and, where both have graphs, the collectives and the predicted cost of a step on the first
 * device, or on all stages of a pipeline together.
 */
export function diffPlans(a: AnyPlan, b: AnyPlan): string {
  const sections = [
    [`a: ${title(a)}`, `b: ${title(b)}`, ...sources(a, b)],
    layouts(a, b),
    schedules(a, b),
    ...("classes" in a && "classes" in b ? costs(a, b) : [[`Collectives and cost: ${withoutGraphs(a, b)}`]]),
  ];
  const shown = sections.filter((lines) => lines.length > 0);
  return `${shown.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

const title = ({ name, mesh }: AnyPlan): string => `plan @${name} on mesh ${formatMesh(mesh) || "of one device"}`;

const withoutGraphs = (a: AnyPlan, b: AnyPlan): string =>
  "classes" in a || "classes" in b
    ? `${"classes" in a ? "b" : "a"} has no graph to compare with`
    : "plans without graphs have none";

function sources(a: AnyPlan, b: AnyPlan): string[] {
  if (a.source === undefined || b.source === undefined || a.source === b.source) return [];
  const prints = `graph ${a.source}, and ${b.source}`;
  // The step of a training depends on the mesh.
  return formatMesh(a.mesh) === formatMesh(b.mesh)
    ? [`They are of different functions: ${prints}`]
    : [`They are of different graphs, as one training on two meshes is: ${prints}`];
}

function layouts(a: AnyPlan, b: AnyPlan): string[] {
  const [inputsOfA, inputsOfB] = [withSlots(a, b.inputs), withSlots(b, a.inputs)] as const;
  const inputs = compared(inputsOfA, inputsOfB);
  // The next value of an input is where the input is.
  const known = new Set(inputs.map((row) => row.join("\n")));
  const outputs = compared(withNext(a, inputsOfA, b.outputs), withNext(b, inputsOfB, a.outputs)).filter(
    (row) => !known.has(row.join("\n")),
  );
  const rows = [...inputs, ...outputs.map(([name, ...rest]) => [`output ${name}`, ...rest])];
  const different = rows.filter(([, , left, right]) => left !== right);
  const alike = rows.length - different.length;
  if (different.length === 0) return [`Layouts: all ${formatCount(alike)} values are alike`];
  return [
    "Layouts",
    ...formatTable([["value", "type", "a", "b"], ...different]),
    `  ${formatCount(alike)} ${alike === 1 ? "other is" : "others are"} alike`,
  ];
}

/** The inputs of a plan, with the optimizer's slots that only the other plan names: they are placed as their parameters. */
const withSlots = (plan: AnyPlan, others: readonly PlannedValue[]): readonly PlannedValue[] =>
  filled(plan, plan.inputs, others, (name) => name.replace(/^optimizer\.[^.]+\./, "params."));

/** The outputs of a plan, with the next values of inputs that only the other plan names: they are placed as the inputs. */
const withNext = (
  plan: AnyPlan,
  inputs: readonly PlannedValue[],
  others: readonly PlannedValue[],
): readonly PlannedValue[] => filled({ ...plan, inputs }, plan.outputs, others, (name) => name);

/** Values with those that a plan without graphs leaves out, each placed as the input that it follows. */
function filled(
  plan: AnyPlan,
  values: readonly PlannedValue[],
  others: readonly PlannedValue[],
  followed: (name: string) => string,
): readonly PlannedValue[] {
  if ("classes" in plan) return values;
  const named = new Set(values.map(({ name }) => name));
  const inputs = new Map(plan.inputs.map((value) => [value.name, value]));
  const left = others.flatMap(({ name, type }) => {
    const source = named.has(name) ? undefined : inputs.get(followed(name));
    const isAlike = source !== undefined && formatType(source.type) === formatType(type);
    return isAlike ? [{ name, type, layout: source.layout, stage: source.stage }] : [];
  });
  return [...values, ...left];
}

/** Name, type and both layouts of each value; `-` where a plan lacks the value. */
function compared(a: readonly PlannedValue[], b: readonly PlannedValue[]): string[][] {
  const [left, right] = [a, b].map((values) => new Map(values.map((value) => [value.name, value])));
  return [...new Set([...a, ...b].map(({ name }) => name))].map((name) => {
    const both = [left?.get(name), right?.get(name)];
    const types = [...new Set(both.flatMap((value) => (value === undefined ? [] : [formatType(value.type)])))];
    return [name, types.join(" | "), ...both.map((value) => layoutText(value, types.length > 1))];
  });
}

function layoutText(value: PlannedValue | undefined, withType: boolean): string {
  if (value === undefined) return "-";
  const { type, layout, used, stage } = value;
  return [
    ...(withType ? [formatType(type)] : []),
    formatLayout(layout) || "whole",
    ...(used === undefined ? [] : [`used ${formatLayout(used)}`]),
    ...(stage === undefined ? [] : [`stage ${stage}`]),
  ].join(" ");
}

function schedules({ pipeline: a }: AnyPlan, { pipeline: b }: AnyPlan): string[] {
  const [left, right] = [a, b].map((pipeline) =>
    pipeline === undefined ? ["no pipeline"] : printSchedule(pipeline.schedule, pipeline.costs).trimEnd().split("\n"),
  ) as [string[], string[]];
  if (left.join() === right.join()) return [];
  return ["Schedule", "  a", ...left.map((line) => `    ${line}`), "  b", ...right.map((line) => `    ${line}`)];
}

function costs(a: Plan, b: Plan): string[][] {
  const [left, right] = [predicted(a), predicted(b)] as const;
  const [sentByA, sentByB] = [sentOf(left), sentOf(right)] as const;
  const sent = [...new Set([...sentByA.keys(), ...sentByB.keys()])].map((kind) => [
    kind,
    sentByA.get(kind) ?? "-",
    sentByB.get(kind) ?? "-",
  ]);
  const amount = (what: string, of: (cost: Cost) => number, text: (value: number) => string): string[] => {
    const [valueA, valueB] = [of(left), of(right)];
    return [what, text(valueA), text(valueB), valueA === 0 ? "" : (valueB / valueA).toFixed(2)];
  };
  return [
    sent.length === 0
      ? ["Collectives: none"]
      : ["Collectives of a step", ...formatTable([["collective", "a", "b"], ...sent], [1, 2])],
    [
      "Predicted cost of a step",
      ...formatTable(
        [
          ["", "a", "b", "b / a"],
          amount("time", ({ seconds }) => seconds, formatTime),
          amount("compute", ({ computeSeconds }) => computeSeconds, formatTime),
          amount("communicate", ({ communicationSeconds }) => communicationSeconds, formatTime),
          amount("operations", ({ flops }) => flops, formatCount),
          amount("memory traffic", ({ bytes }) => bytes, formatBytes),
          amount("memory, at most", ({ peak }) => peak, formatBytes),
        ],
        [1, 2, 3],
      ),
    ],
  ];
}

/** The predicted cost of the first device, or of all stages of a pipeline. */
function predicted(plan: Plan): Cost {
  const programs = cutPlan(plan).map(({ program }) => program);
  return costOf(plan.pipeline === undefined ? (programs[0] as Program) : programs, environmentMachine());
}

/** How many collectives there are of each kind, and what they send. */
function sentOf({ collectives }: Cost): ReadonlyMap<string, string> {
  const kinds = new Set(collectives.map(({ name, axis }) => `${name} on ${axis}`));
  return new Map(
    [...kinds].map((kind) => {
      const ofKind = collectives.filter(({ name, axis }) => `${name} on ${axis}` === kind);
      const sum = (of: (traffic: Traffic) => number): number =>
        ofKind.reduce((total, traffic) => total + of(traffic), 0);
      return [kind, `${formatCount(sum(({ times }) => times))} sending ${formatBytes(sum(({ sent }) => sent))}`];
    }),
  );
}
