/** @module The last whole run as a part of docs/benchmarks.md: tables, and what Heddle is behind in and why. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./commands.ts";
import { type PeerName, peerNames } from "./options.ts";
import type { PlanRow } from "./plans/compare.ts";
import { reasonFor } from "./reasons.ts";
import { digits, formatMachine, type Results, type Row } from "./report.ts";

/** The last whole run, from which the page is made. */
export const lastRun: string = join(root, "bench", "last-run.json");
const page = join(root, "docs", "benchmarks.md");
const marks = /(<!-- made of bench\/last-run\.json -->\n)[\s\S]*(\n<!-- end of the run -->)/;

/** Peers that are Heddle: each has a ratio of its own. */
const own: readonly string[] = ["heddle", "heddle-sync"];

/** All rows of a workload at a number of threads. */
interface Group {
  readonly workload: string;
  readonly threads: string;
  readonly rows: readonly Row[];
}

/** One of Heddle's ways beside the fastest of the others. */
export interface Comparison {
  readonly workload: string;
  readonly threads: string;
  readonly heddle: Row;
  readonly best: Row;
  /** The best peer's median over Heddle's: above 1 Heddle is ahead. */
  readonly ratio: number;
}

function groupsOf(rows: readonly Row[]): Group[] {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const key = `${row.workload} ${threadsOf(row)}`;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return [...groups.values()].map((list) => {
    const [first] = list as [Row];
    return { workload: first.workload, threads: threadsOf(first), rows: list };
  });
}

const threadsOf = ({ processes, threads }: Row): string => (processes === 1 ? `${threads}` : `${processes}x${threads}`);

/** Every row of Heddle that has a peer. */
export function comparisons(rows: readonly Row[]): Comparison[] {
  return groupsOf(rows).flatMap(({ workload, threads, rows }) => {
    const peers = rows.filter(({ peer }) => !own.includes(peer));
    const [first, ...others] = peers;
    if (first === undefined) return [];
    const faster = (a: Row, b: Row): Row => (b.medianMilliseconds < a.medianMilliseconds ? b : a);
    const best = others.reduce(faster, first);
    return rows
      .filter(({ peer }) => own.includes(peer))
      .map((heddle) => ({
        workload,
        threads,
        heddle,
        best,
        ratio: best.medianMilliseconds / heddle.medianMilliseconds,
      }));
  });
}

export const geometricMean = (values: readonly number[]): number =>
  Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const rule = heads.map((_head, place) => (place === 0 ? "---" : "---:"));
  return [line(heads), line(rule), ...rows.map(line)].join("\n");
}

const percent = (share: number | undefined): string => (share === undefined ? "-" : `${(100 * share).toFixed(0)} %`);

function comparisonTable(compared: readonly Comparison[]): string {
  const heads = ["row", "threads", "Heddle ms", "best peer", "ms", "ratio", "peak MB", "of PyTorch's", "of the limit"];
  const rows = compared.map(({ workload, threads, heddle, best, ratio }) => [
    `\`${workload}\`${heddle.peer === "heddle" ? "" : ", `heddle-sync`"}`,
    threads,
    digits(heddle.medianMilliseconds),
    best.peer,
    digits(best.medianMilliseconds),
    ratio < 1 ? `**${ratio.toFixed(2)}**` : ratio.toFixed(2),
    heddle.peakBytes === undefined ? "-" : (heddle.peakBytes / 1e6).toFixed(0),
    percent(heddle.memoryShare),
    percent(heddle.limitShare),
  ]);
  return table(heads, rows);
}

const peersOf = (rows: readonly Row[]): PeerName[] =>
  peerNames.filter((name) => rows.some(({ peer }) => peer === name));

function peerTable(rows: readonly Row[]): string {
  const measured = peersOf(rows);
  const timeOf = (group: Group, name: PeerName): string => {
    const row = group.rows.find(({ peer }) => peer === name);
    return row === undefined ? "" : digits(row.medianMilliseconds);
  };
  const lines = groupsOf(rows).map((group) => [
    `\`${group.workload}\``,
    group.threads,
    ...measured.map((name) => timeOf(group, name)),
  ]);
  return table(["row, ms", "threads", ...measured], lines);
}

/** Predicted beside measured steps, a line for each training and number of threads of the machine's devices. */
function planTable(plans: readonly PlanRow[]): string {
  const names = [...new Set(plans.map(({ mesh }) => mesh))];
  const groups = [...new Set(plans.map(({ training, threads }) => `${training} ${threads}`))];
  const rows = groups.map((group) => {
    const own = plans.filter(({ training, threads }) => `${training} ${threads}` === group);
    const cells = names.map((name) => {
      const plan = own.find(({ mesh }) => mesh === name);
      if (plan === undefined) return "";
      const { predicted, measured } = plan;
      return `${digits(predicted)}, ${digits(measured)}, ${(measured / predicted).toFixed(2)}`;
    });
    const [training, threads] = group.split(" ") as [string, string];
    return [`\`${training}\``, threads, ...cells];
  });
  return table(["plan: ms predicted, measured, ratio", "threads", ...names], rows);
}

/** Rows under 1, with the reason; a row that has none says so. */
export function behind(compared: readonly Comparison[]): string[] {
  const slower = compared.filter(({ ratio }) => ratio < 1);
  return [...new Set(slower.map(({ workload }) => workload))].map((workload) => {
    const places = slower
      .filter((comparison) => comparison.workload === workload)
      .map(({ threads, heddle, best, ratio }) => {
        const how = heddle.peer === "heddle" ? "" : ", read at once";
        return `${ratio.toFixed(2)} of ${best.peer} (threads: ${threads}${how})`;
      });
    return `- \`${workload}\`: ${places.join(", ")}. Why: ${reasonFor(workload) ?? "not known yet"}.`;
  });
}

/** What is aimed at, and what the run has. */
function targets(compared: readonly Comparison[]): string {
  const mean = (list: readonly Comparison[]): string => geometricMean(list.map(({ ratio }) => ratio)).toFixed(2);
  const isEager = ({ workload }: Comparison): boolean => workload.startsWith("eager-");
  const under = (list: readonly Comparison[]): number => list.filter(({ ratio }) => ratio < 1).length;
  const parts: [string, Comparison[]][] = [
    ["all", [...compared]],
    ["compiled", compared.filter((comparison) => !isEager(comparison))],
    ["not compiled (`eager-…`)", compared.filter(isEager)],
    ["one thread", compared.filter(({ threads }) => threads === "1")],
    ["two threads", compared.filter(({ threads }) => threads !== "1")],
  ];
  const rows = parts
    .filter(([, list]) => list.length > 0)
    .map(([name, list]) => [name, `${list.length}`, `${under(list)}`, mean(list)]);
  return table(["rows", "count", "under 1.0", "geometric mean of the ratios"], rows);
}

/** The part of the page that a run makes. */
export function pagePart(results: Results): string {
  const compared = comparisons(results.rows);
  const limits = Object.entries(results.limits ?? {}).map(
    ([threads, { flops, bytes }]) =>
      `${(flops / 1e9).toFixed(0)} GFLOP/s and ${(bytes / 1e9).toFixed(1)} GB/s by ${threads} ${threads === "1" ? "thread" : "threads"}`,
  );
  const slower = behind(compared);
  return [
    `${formatMachine(results).replaceAll("\n", "; ")}; ${results.seconds} s of steps for each peer and row.`,
    `Peers of the run: ${peersOf(results.rows)
      .filter((name) => !own.includes(name))
      .join(", ")}.`,
    ...(limits.length === 0 ? [] : [`The limits of the machine: ${limits.join(", ")}.`]),
    comparisonTable(compared),
    "Median times of all peers:",
    peerTable(results.rows),
    ...(slower.length === 0 ? [] : ["Heddle is behind in these rows:", slower.join("\n")]),
    ...(results.problems.length === 0
      ? []
      : [
          "Problems of the run:",
          results.problems
            .map(({ workload, peer, message }) => `- \`${workload}\`, ${peer}: ${message.split("\n")[0]}`)
            .join("\n"),
        ]),
    ...(results.plans.length === 0
      ? []
      : [
          "Steps of plans, predicted for the machine as `heddle machine` measured it in the run:",
          planTable(results.plans),
        ]),
    "The target is no row under 1.0, and a geometric mean of at least 1.25:",
    targets(compared),
  ].join("\n\n");
}

/** The page with the part of a run made anew. */
export const pageWith = (results: Results): string =>
  readFileSync(page, "utf8").replace(
    marks,
    (_all, begin: string, end: string) => `${begin}\n${pagePart(results)}\n${end}`,
  );

/** Keeps a run as the last whole one, and writes the page. */
export function keepRun(results: Results): void {
  const kept = (_key: string, value: unknown): unknown =>
    typeof value === "number" ? Number(value.toPrecision(5)) : value;
  const { rows, ...rest } = JSON.parse(JSON.stringify(results, kept)) as Results;
  const head = JSON.stringify(rest).slice(0, -1);
  writeFileSync(lastRun, `${head}, "rows": [\n${rows.map((row) => JSON.stringify(row)).join(",\n")}\n]}\n`);
  writeFileSync(page, pageWith(readRun()));
}

export const readRun = (): Results => JSON.parse(readFileSync(lastRun, "utf8")) as Results;
