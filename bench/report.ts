/** @module Results as data and as a table. */

import type { Limits } from "./limits.ts";
import type { MachineInfo } from "./machine.ts";
import type { PlanRow } from "./plans/compare.ts";

/** One line of the table. */
export interface Row {
  readonly workload: string;
  readonly peer: string;
  readonly processes: number;
  /** Threads of each process. */
  readonly threads: number;
  /** The median time of a step; for `start`, of the time to the first step. */
  readonly medianMilliseconds: number;
  /** Mean of the fastest few steps in a row. */
  readonly minimumMilliseconds: number;
  /** The 99th percentile of the times of a step, where answers are waited for; else undefined. */
  readonly slowMilliseconds: number | undefined;
  readonly steps: number;
  /** Median over Heddle's; below 1 the peer is faster. Undefined when Heddle was not measured. */
  readonly ratio: number | undefined;
  /** The rate of matrix products and convolutions; undefined where there are none. */
  readonly gflops: number | undefined;
  /** Compulsory memory traffic over time; undefined for workloads bound by arithmetic. */
  readonly gigabytesPerSecond: number | undefined;
  /** The largest memory of a process of the peer; undefined where it was not measured. */
  readonly peakBytes: number | undefined;
  /** That memory over PyTorch's (tuned, or else eager) in the same row; undefined where one of both was not measured. */
  readonly memoryShare?: number | undefined;
  /** What the step would take at the machine's limit over its median; undefined where its work is not counted. */
  readonly limitShare?: number | undefined;
  readonly firstMilliseconds: number | undefined;
  readonly firstLoss: number | undefined;
  readonly lastLoss: number | undefined;
}

/** A problem of a run: a loss that did not fall, peers that disagree, a peer that failed. */
export interface Problem {
  readonly workload: string;
  readonly peer: string;
  readonly message: string;
}

export interface Results {
  readonly date: string;
  readonly machine: MachineInfo;
  readonly versions: Readonly<Record<string, string>>;
  /** Load average at the beginning and at the end. */
  readonly load: readonly [number, number];
  readonly seconds: number;
  /** The machine's limits, by the number of threads. */
  readonly limits?: Readonly<Record<string, Limits>>;
  readonly rows: readonly Row[];
  readonly problems: readonly Problem[];
  /** Predicted beside measured steps. */
  readonly plans: readonly PlanRow[];
}

export const digits = (value: number): string =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toPrecision(3);

const orDash = (value: number | undefined): string => (value === undefined ? "-" : digits(value));

type Columns = readonly (readonly [title: string, text: (row: Row) => string])[];

const first: Columns = [
  ["workload", ({ workload }) => workload],
  ["threads", ({ processes, threads }) => (processes === 1 ? `${threads}` : `${processes}x${threads}`)],
  ["peer", ({ peer }) => peer],
];
const ratioColumn: Columns[number] = ["ratio", ({ ratio }) => (ratio === undefined ? "-" : ratio.toFixed(2))];
const share = (value: number | undefined): string => (value === undefined ? "-" : value.toFixed(2));
const last: Columns = [
  ["of limit", ({ limitShare }) => share(limitShare)],
  ["peak MB", ({ peakBytes }) => (peakBytes === undefined ? "-" : (peakBytes / 1e6).toFixed(0))],
  ["of torch", ({ memoryShare }) => share(memoryShare)],
  ["steps", ({ steps }) => `${steps}`],
];

const columns: Columns = [
  ...first,
  ["median ms", ({ medianMilliseconds }) => digits(medianMilliseconds)],
  ["min ms", ({ minimumMilliseconds }) => digits(minimumMilliseconds)],
  ratioColumn,
  ["GFLOP/s", ({ gflops }) => orDash(gflops)],
  ["GB/s", ({ gigabytesPerSecond }) => orDash(gigabytesPerSecond)],
  ...last,
];

/** The columns of rows whose answers are waited for. */
const waitingColumns: Columns = [
  ...first,
  ["median us", ({ medianMilliseconds }) => digits(1000 * medianMilliseconds)],
  ["p99 us", ({ slowMilliseconds }) => orDash(slowMilliseconds && 1000 * slowMilliseconds)],
  ["min us", ({ minimumMilliseconds }) => digits(1000 * minimumMilliseconds)],
  ratioColumn,
  ...last,
];

/**
 * The rows as a Markdown table, padded for a terminal; those with a 99th percentile as a table of microseconds below. `ratio`: how
 * many times Heddle's median this one is.
 */
export function formatTable(rows: readonly Row[]): string {
  const waiting = rows.filter(({ slowMilliseconds }) => slowMilliseconds !== undefined);
  const others = rows.filter(({ slowMilliseconds }) => slowMilliseconds === undefined);
  return [formatRows(others, columns), formatRows(waiting, waitingColumns)].filter((text) => text !== "").join("\n\n");
}

function formatRows(rows: readonly Row[], columns: Columns): string {
  if (rows.length === 0) return "";
  const cells = [columns.map(([title]) => title), ...rows.map((row) => columns.map(([, text]) => text(row)))];
  const widths = columns.map((_column, place) => Math.max(...cells.map((line) => (line[place] as string).length)));
  const pad = (text: string, place: number): string =>
    place === 0 || place === 2 ? text.padEnd(widths[place] as number) : text.padStart(widths[place] as number);
  const lines = cells.map((line) => `| ${line.map(pad).join(" | ")} |`);
  const rule = `| ${widths.map((width, place) => (place === 0 || place === 2 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`)).join(" | ")} |`;
  return [lines[0], rule, ...lines.slice(1)].join("\n");
}

/** Machine, versions and load in a few lines. */
export function formatMachine({ machine, versions, load, date }: Results): string {
  const { cpu, cores, memoryBytes, system, heddle, commit } = machine;
  const packages = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    `${cpu}, ${cores} cores, ${Math.round(memoryBytes / 2 ** 30)} GiB, ${system}`,
    `heddle ${heddle}${commit === undefined ? "" : ` (${commit})`}, ${packages.join(", ")}`,
    `${date}, load average ${load[0].toFixed(1)} before, ${load[1].toFixed(1)} after`,
  ].join("\n");
}
