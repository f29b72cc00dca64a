/** @module The plan of a training in five lines: where it runs, what is split, what travels, memory, work. */

import { formatType, sizeOf } from "../ir/shape.ts";
import { deviceCount, formatMesh, type Placement, type PlannedValue, trafficOf } from "../plan/index.ts";
import { batchParts } from "../plan/mesh.ts";
import { costOf } from "../program/index.ts";
import type { Executor } from "../runtime/executor.ts";
import { formatBytes, formatCount, listed } from "../util/text.ts";
import { deviceBytes } from "./memory.ts";
import { formatOperations, type ReportInput } from "./plan.ts";
import { splitInputs } from "./unused.ts";

/** The input of the summary. */
export interface SummaryInput extends Pick<ReportInput, "plan" | "program" | "memory"> {
  /** The processes and the executor of the run; absent where nothing is run. */
  readonly run?: {
    readonly processes: number;
    readonly executor: Pick<Executor, "name" | "threads" | "elsewhere">;
  };
}

/** The five lines. */
export function planSummary(input: SummaryInput): string[] {
  return [where(input), sharded(input), communicated(input), memory(input), work(input)].map(
    ([name, text]) => `${name.padEnd(11)}${text}`,
  );
}

type Line = readonly [name: string, text: string];

/** `1, "value"` → `"1 value"`; `2` → `"2 values"`. */
export const plural = (count: number, noun: string, many = `${noun}s`): string =>
  `${formatCount(count)} ${count === 1 ? noun : many}`;

function where({ plan, run }: SummaryInput): Line {
  const devices = deviceCount(plan.mesh);
  const mesh = `mesh ${formatMesh(plan.mesh)}`;
  if (run === undefined) return ["plan", `for ${plural(devices, "device")}, ${mesh}; nothing is run`];
  const { processes, executor } = run;
  const how = `${executor.name} executor, ${plural(executor.threads ?? 1, "thread")} each`;
  if (executor.elsewhere) return ["workers", `${plural(devices, "waiting worker")}, driven from here, ${mesh}`];
  if (processes === devices) return ["workers", `${plural(processes, "worker")}, ${mesh}; ${how}`];
  return ["workers", `${plural(devices, "virtual device")} in one process, ${mesh}; ${how}`];
}

/** `"batch.x"` is column x of the batch. */
const leafName = (path: string): string => path.split(".").slice(1).join(".");

function sharded({ plan }: SummaryInput): Line {
  const split = splitInputs(plan);
  const batch = plan.inputs.filter(({ name }) => name.startsWith("batch."));
  const rows = batch[0]?.type.shape[0] ?? 0;
  const names = (values: readonly PlannedValue[]): string =>
    listed(values.map(({ name, type }) => `${leafName(name)} ${formatType(type)}`));
  if (split.length === 0) return ["sharded", `nothing; a batch is ${names(batch)}`];
  const of = (group: string): PlannedValue[] => split.filter(({ name }) => name.startsWith(`${group}.`));
  const [columns, params, others] = [of("batch"), of("params"), [...of("optimizer"), ...of("state")]];
  const placement = columns[0]?.layout.find(({ kind }) => kind === "shard") as Placement & { kind: "shard" };
  const each = placement?.sizes?.join(" + ") ?? rows / batchParts(plan.mesh);
  const where = placement?.sizes === undefined ? "on each device" : "on the devices";
  const count = plural(others.length, "value");
  const held = params.length === 0 ? `${count} of the state` : names(params);
  const beside = params.length * others.length === 0 ? "" : `, and ${count} kept beside them`;
  const parts = [
    ...(columns.length === 0 ? [] : [`${names(columns)} by row, ${each} of ${rows} rows ${where}`]),
    ...(params.length + others.length === 0 ? [] : [`${held} in parts${beside}`]),
    "all else on every device",
  ];
  return ["sharded", parts.join("; ")];
}

function communicated({ plan }: SummaryInput): Line {
  const traffic = trafficOf(plan);
  if (traffic.length === 0) return ["all-reduce", "nothing"];
  const values = traffic.reduce((total, { values: count }) => total + count, 0);
  const sent = traffic.reduce((total, collective) => total + collective.sent, 0);
  const kinds = [...new Set(traffic.map(({ name }) => name))];
  const others = kinds.filter((name) => name !== "allReduce");
  const more = others.length === 0 ? "" : ` (also ${others.join(", ")})`;
  const buckets = plural(traffic.length, "bucket");
  return [
    "all-reduce",
    `gradients, loss and metrics: ${plural(values, "value")} in ${buckets}, ${formatBytes(sent)} sent by each device per step${more}`,
  ];
}

function memory({ plan, run, memory: held }: SummaryInput): Line {
  const devices = deviceCount(plan.mesh);
  // Devices of one process gather from one copy of the dataset.
  const shared = run?.processes === 1 && devices > 1;
  const total = deviceBytes(held) + (shared ? 0 : held.dataset);
  const parts = [
    `${formatBytes(held.parameters + held.optimizer + held.state)} parameters and optimizer state`,
    held.step === undefined ? "the step's own values" : `${formatBytes(held.step)} for the step`,
    `${formatBytes(held.batches)} for ${plural(held.batchCount, "batch", "batches")}`,
    ...(held.rounding > 0 ? [`${formatBytes(held.rounding)} that the allocator rounds up`] : []),
    ...(held.dataset > 0 && !shared ? [`${formatBytes(held.dataset)} dataset`] : []),
  ];
  const once = held.dataset > 0 && shared ? `; ${formatBytes(held.dataset)} dataset once for all` : "";
  const device = devices === 1 ? "" : " on each device";
  const amount = held.step === undefined ? `at least ${formatBytes(total)}` : `${formatBytes(total)} predicted`;
  return ["memory", `${amount}${device}: ${parts.join(", ")}${once}`];
}

function work({ plan, program }: SummaryInput): Line {
  const parameters = plan.inputs
    .filter(({ name }) => name.startsWith("params."))
    .reduce((total, { type }) => total + sizeOf(type.shape), 0);
  const { flops } = costOf(program);
  const each = deviceCount(plan.mesh) === 1 ? "" : " on each device";
  return ["model", `${formatCount(parameters)} parameters; ${formatOperations(flops)} per step${each}`];
}
