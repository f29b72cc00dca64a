/** @module What `heddle plan` prints of a training step: layouts, collectives, memory and cost, for people and machines. */

import { type Cost, type Machine, machineFor } from "../cost/index.ts";
import { formatType } from "../ir/shape.ts";
import {
  deviceCount,
  formatPlacement,
  type MeshAxis,
  type Plan,
  type PlannedValue,
  type Traffic,
} from "../plan/index.ts";
import { costOf, type Program } from "../program/index.ts";
import { formatBytes, formatCount, formatTable, formatTime } from "../util/text.ts";
import { deviceBytes, localBytes, type TrainingMemory } from "./memory.ts";

/** An axis along which every device does the same work. */
export interface UnusedAxis {
  readonly axis: string;
  readonly size: number;
  readonly reason: string;
}

/** The input of a report. */
export interface ReportInput {
  readonly plan: Plan;
  readonly program: Program;
  readonly memory: TrainingMemory;
  readonly unusedAxes: readonly UnusedAxis[];
  /** The machine that the plan was made for; default: the machine that plans assume. */
  readonly machine?: Machine | undefined;
}

/** The plan of a training step as data: what `heddle plan --json` prints. Bytes and seconds are those of one device. */
export interface PlanReport {
  readonly mesh: { readonly [axis: string]: number };
  readonly devices: number;
  readonly unusedAxes: readonly UnusedAxis[];
  /** Inputs of a step: parameters, optimizer state, the batch. `layout` has one placement per axis, such as `"S(0)"`. */
  readonly values: readonly {
    readonly name: string;
    readonly type: string;
    readonly layout: readonly string[];
    readonly bytes: number;
  }[];
  readonly collectives: readonly Traffic[];
  readonly memory: TrainingMemory & {
    /** The sum of all parts but the host's copy of the dataset. */
    readonly total: number;
  };
  readonly cost: Omit<Cost, "collectives"> & {
    /** The rates that each device is assumed to have. */
    readonly machine: Machine;
  };
}

/** Makes the report of a step. */
export function planReport({ plan, program, memory, unusedAxes, machine: plannedFor }: ReportInput): PlanReport {
  const machine = machineFor(deviceCount(plan.mesh), plannedFor);
  const { collectives, ...cost } = costOf(program, machine);
  return {
    mesh: Object.fromEntries(plan.mesh.axes.map(({ name, size }) => [name, size])),
    devices: deviceCount(plan.mesh),
    unusedAxes,
    values: shownInputs(plan).map((value) => ({
      name: value.name,
      type: formatType(value.type),
      layout: value.layout.map(formatPlacement),
      bytes: localBytes(value, plan),
    })),
    collectives,
    memory: { ...memory, total: deviceBytes(memory) + memory.dataset },
    cost: { ...cost, machine },
  };
}

/** The report as text: lines that sum it up, then a paragraph each for layouts, collectives, memory and cost. */
export function formatPlanReport(report: PlanReport, plan: Plan, summary: readonly string[]): string {
  const sections = [summary, layouts(plan), collectives(report), memory(report), cost(report)];
  return `${sections.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

function layouts(plan: Plan): string[] {
  const { axes } = plan.mesh;
  const row = (value: PlannedValue): string[] => [
    value.name,
    formatType(value.type),
    ...value.layout.map(formatPlacement),
    formatBytes(localBytes(value, plan)),
  ];
  const named = (prefix: string): PlannedValue[] => plan.inputs.filter(({ name }) => name.startsWith(prefix));
  const rows = [
    ["value", "type", ...axes.map(({ name, size }: MeshAxis) => `${name}=${size}`), "each device"],
    ...named("params.").map(row),
    ...slots(plan).flatMap(({ name, values, alike }) =>
      alike && values.length > 1
        ? [
            [
              `${name}.*`,
              "as params",
              ...axes.map(() => "″"),
              formatBytes(sum(values.map((value) => localBytes(value, plan)))),
            ],
          ]
        : values.map(row),
    ),
    ...named("state.").map(row),
    ...named("batch.").map(row),
  ];
  return [
    "Layouts (S(d): dim d is split over the axis; R: whole on all of it)",
    ...formatTable(rows, [axes.length + 2]),
  ];
}

interface Slot {
  readonly name: string;
  readonly values: readonly PlannedValue[];
  /** Whether each value has type and layout of the parameter of its name. */
  readonly alike: boolean;
}

/** The optimizer's values by slot, such as `optimizer.momentumBuffer`. */
function slots(plan: Plan): Slot[] {
  const text = ({ type, layout }: PlannedValue): string => JSON.stringify([type, layout]);
  const params = new Map(plan.inputs.map((value) => [value.name, text(value)]));
  const found = new Map<string, PlannedValue[]>();
  for (const value of shownInputs(plan)) {
    const slot = /^optimizer\.[^.]+/.exec(value.name)?.[0];
    if (slot !== undefined) found.set(slot, [...(found.get(slot) ?? []), value]);
  }
  return [...found].map(([name, values]) => ({
    name,
    values,
    alike: values.every((value) => params.get(`params${value.name.slice(name.length)}`) === text(value)),
  }));
}

function collectives({ collectives: all }: PlanReport): string[] {
  if (all.length === 0) return ["Collectives: none"];
  const rows = all.map((collective) => [
    collective.label,
    collective.axis,
    formatCount(collective.values),
    formatBytes(collective.payload),
    formatBytes(collective.sent),
    formatTime(collective.seconds),
  ]);
  const total = [
    "all",
    "",
    formatCount(sum(all.map(({ values }) => values))),
    formatBytes(sum(all.map(({ payload }) => payload))),
    formatBytes(sum(all.map(({ sent }) => sent))),
    formatTime(sum(all.map(({ seconds }) => seconds))),
  ];
  const head = ["collective", "axis", "values", "bytes", "sent", "time"];
  return [
    "Collectives of a step, for each device",
    ...formatTable([head, ...rows, ...(all.length > 1 ? [total] : [])], [2, 3, 4, 5]),
  ];
}

function memory({ memory: held }: PlanReport): string[] {
  const rows: [string, number | undefined][] = [
    ["parameters", held.parameters],
    ["optimizer state", held.optimizer],
    ["state of layers", held.state],
    [`${held.batchCount} batches: under way, next, and read ahead`, held.batches],
    ["intermediate values of a run (arena)", held.step],
    ["loss, metrics, key", held.scalars],
    ["rounding up by the allocator", held.rounding],
    ["dataset, from which batches are gathered (once per process)", held.dataset],
    ["all", held.total],
  ];
  const shown = rows
    .filter(([, bytes]) => bytes !== 0)
    .map(([name, bytes]) => [name, bytes === undefined ? "?" : formatBytes(bytes)]);
  return [
    `Memory of each device (beside it, Node and the dataset as it was read: ${formatBytes(held.host)})`,
    ...formatTable(shown, [1]),
  ];
}

function cost({
  cost: { flops, bytes, sent, seconds, computeSeconds, communicationSeconds, depth, machine },
}: PlanReport): string[] {
  return [
    `Cost of a step: ${formatTime(seconds)}`,
    ...formatTable(
      [
        ["compute", formatTime(computeSeconds), `${formatOperations(flops)}, ${formatBytes(bytes)} moved`],
        ["communicate", formatTime(communicationSeconds), `${formatBytes(sent)} sent`],
        ["longest chain", formatTime(depth), "of what waits for one another"],
      ],
      [1],
    ),
    assumed(machine),
  ];
}

function assumed({ name, flops, memory, bandwidth, latency }: Machine): string {
  const links = `links ${formatBytes(bandwidth)}/s with ${formatTime(latency)} latency`;
  const rates = `${formatOperations(flops)}/s, memory ${formatBytes(memory)}/s, ${links}`;
  return `  assumed of a device${name === undefined ? "" : ` (${name})`}: ${rates}`;
}

/** Reports of several meshes as a table, in the order given. */
export function formatRanking(reports: readonly PlanReport[], machine: Machine): string {
  const rows = reports.map(({ mesh, cost, memory: { total } }) => [
    Object.entries(mesh)
      .map(([name, size]) => `${name}=${size}`)
      .join(","),
    formatTime(cost.seconds),
    formatTime(cost.computeSeconds),
    formatTime(cost.communicationSeconds),
    formatBytes(cost.sent),
    formatBytes(total),
  ]);
  const head = ["mesh", "step", "compute", "communicate", "sent", "memory"];
  return `${["Meshes by the predicted time of a step", ...formatTable([head, ...rows], [1, 2, 3, 4, 5]), assumed(machine)].join("\n")}\n`;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, value) => total + value, 0);

/** Inputs of interest to users: without the `end.` flags, by which devices ask to end a run. */
const shownInputs = (plan: Plan): PlannedValue[] => plan.inputs.filter(({ name }) => !name.startsWith("end."));

/** Decimal units, as for bytes: `7.25e9` → `"7.25 GFLOP"`. */
export function formatOperations(count: number): string {
  return formatBytes(count).replace(/B$/, "FLOP").replace("K", "k");
}
