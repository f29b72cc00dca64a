/** @module The report of `heddle profile`: time by kernel and by call, compared with the machine's limits. */

import { workSeconds } from "../cost/index.ts";
import type { ProgramProfile, RankProfile } from "../executors/index.ts";
import { inMessageOrder, type Message } from "../program/messages.ts";
import { listed } from "../util/text.ts";
import { type InputReport, inputOf } from "./profile-input.ts";

/** Time of some calls per step of their program. */
export interface ProfileLine {
  /** The kernel, or the call with its operations and shapes. */
  readonly name: string;
  /** Executions per step. */
  readonly calls: number;
  readonly milliseconds: number;
  /** What the cost model predicts for them. */
  readonly predictedMilliseconds: number;
  /** The share of the step. */
  readonly share: number;
  /** Operations and bytes per second; 0 where there are none. */
  readonly flopsPerSecond: number;
  readonly bytesPerSecond: number;
  /**
   * The time that the calls would take at the machine's limits over the measured time: 1 is as fast as the machine
   * allows.
   */
  readonly efficiency: number;
  /** The limit that counts; undefined for a call that neither computes nor moves anything. */
  readonly bound: "arithmetic" | "memory" | undefined;
}

/** A program's part of the profile. */
export interface ProgramReport {
  readonly name: string;
  readonly runs: number;
  readonly warmUp: number;
  /** Time of a run: middle and least. */
  readonly medianMilliseconds: number;
  readonly minimumMilliseconds: number;
  readonly meanMilliseconds: number;
  /** What the cost model predicts for a run. */
  readonly predictedMilliseconds: number;
  /** Mean time between the end of a run and the beginning of the next one: the device had nothing to do. */
  readonly idleMilliseconds: number;
  /** The part of it in which the training waited for the next batch; undefined where the program takes no batches. */
  readonly input?: InputReport;
  /** Mean time in collectives and waiting for those under way, waiting for the others included. */
  readonly communicationMilliseconds: number;
  /** Mean time of collectives under way in which the device did something else. */
  readonly hiddenMilliseconds: number;
  /** Mean time of a run outside all calls. */
  readonly betweenMilliseconds: number;
  readonly byKernel: readonly ProfileLine[];
  readonly byCall: readonly ProfileLine[];
}

/** The report of rank 0, and how long each rank communicated. */
export interface ProfileReport {
  readonly threads: number;
  readonly isa: string;
  readonly limits: RankProfile["limits"];
  /** By their total time, the longest first. */
  readonly programs: readonly ProgramReport[];
  readonly ranks: readonly {
    readonly rank: number;
    readonly medianMilliseconds: number;
    readonly communicationMilliseconds: number;
    readonly hiddenMilliseconds: number;
    /** Mean time of a step in which the device waited for its batch. */
    readonly inputMilliseconds?: number;
    /** In a pipeline, the share of the step in which the rank waits for messages: measured, and predicted. */
    readonly waits?: { readonly measured: number; readonly predicted: number };
  }[];
}

/** Numbers of a run before those of its calls, and numbers of each call. */
const head = 2;
const perCall = 3;

/** The numbers of a call in a run: its start after that of the run and its time, in nanoseconds, and its executions. */
export const callNumbers = (run: readonly number[], index: number) =>
  run.slice(head + perCall * index, head + perCall * (index + 1)) as [start: number, time: number, executions: number];

/** Nanoseconds of a call in a run. */
export const callTime = (run: readonly number[], index: number): number => callNumbers(run, index)[1];

const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** Puts the ranks' profiles together. @param ranks at least one, rank 0 first */
export function reportOf(ranks: readonly RankProfile[]): ProfileReport {
  const first = ranks[0] as RankProfile;
  const programs = reportPrograms(first);
  programs.sort((a, b) => b.runs * b.meanMilliseconds - a.runs * a.meanMilliseconds);
  const main = programs[0]?.name;
  const waits = waitsOf(ranks.map(({ programs }) => programs.find(({ name }) => name === main)));
  return {
    threads: first.threads,
    isa: first.isa,
    limits: first.limits,
    programs,
    ranks: ranks.map((profile) => {
      const { rank } = profile;
      const report = reportPrograms(profile).find(({ name }) => name === main);
      const { medianMilliseconds = 0, communicationMilliseconds = 0, hiddenMilliseconds = 0, input } = report ?? {};
      const batches = input === undefined ? {} : { inputMilliseconds: input.milliseconds };
      return { rank, medianMilliseconds, communicationMilliseconds, hiddenMilliseconds, ...batches, ...waits?.[rank] };
    }),
  };
}

interface CallTime {
  readonly kernel: string;
  readonly peer: number | undefined;
  readonly beside: boolean;
  readonly text: string;
  readonly calls: number;
  readonly milliseconds: number;
  readonly predictedMilliseconds: number;
  readonly flops: number;
  readonly bytes: number;
}

function reportPrograms(profile: RankProfile): ProgramReport[] {
  const input = inputOf(profile);
  return profile.programs.map((program) => {
    const waited = input.get(program);
    return { ...reportProgram(program, profile.limits), ...(waited === undefined ? {} : { input: waited }) };
  });
}

function reportProgram(program: ProgramProfile, limits: RankProfile["limits"]): ProgramReport {
  const { name, runs, warmUp, seconds } = program;
  const lengths = runs.map((run) => (run[1] as number) / 1e6);
  const gaps = runs.slice(1).map((run, index) => {
    const [began, length] = runs[index] as [number, number];
    return Math.max(0, ((run[0] as number) - began) / 1e3 - length / 1e6);
  });
  const times = ownTimes(program);
  const sum = (of: (time: CallTime) => boolean): number =>
    times.filter(of).reduce((total, { milliseconds }) => total + milliseconds, 0);
  const inCalls = sum(({ beside }) => !beside);
  const step = mean(lengths);
  const waiting = sum(({ kernel }) => kernel === "wait");
  return {
    name,
    runs: runs.length,
    warmUp,
    medianMilliseconds: median(lengths),
    minimumMilliseconds: Math.min(...lengths),
    meanMilliseconds: step,
    predictedMilliseconds: 1e3 * seconds,
    idleMilliseconds: mean(gaps),
    communicationMilliseconds: waiting + sum(({ kernel, beside }) => communicates(kernel) && !beside),
    hiddenMilliseconds: Math.max(0, sum(({ beside }) => beside) - waiting),
    betweenMilliseconds: Math.max(0, step - inCalls),
    byKernel: linesOf(times, ({ kernel, beside }) => (beside ? `${kernel}, beside the rest` : kernel), step, limits),
    byCall: linesOf(times, ({ text }) => text, step, limits),
  };
}

const communicates = (kernel: string): boolean => /^(collective|send$|receive$)/.test(kernel);

/**
 * The share of a step in which each rank of a pipeline waits for messages. The predicted one follows from the predicted times of all calls, in
 * order: a receive ends when its message has been sent. Undefined where the ranks send no messages to each other.
 */
function waitsOf(programs: readonly (ProgramProfile | undefined)[]) {
  const known = programs.filter((program) => program !== undefined);
  if (known.length < programs.length || !known.some(({ calls }) => calls.some(({ kernel }) => kernel === "receive")))
    return undefined;
  const lists = known.map(ownTimes);
  const [clocks, waited] = [lists.map(() => 0), lists.map(() => 0)];
  const messages = lists.map((times) =>
    times.map(
      ({ kernel, peer }): Message =>
        (kernel === "send" || kernel === "receive") && peer !== undefined ? { [kernel]: peer } : {},
    ),
  );
  inMessageOrder<number>(messages, (rank, index, arrived = 0) => {
    const clock = clocks[rank] as number;
    const isReceive = messages[rank]?.[index]?.receive !== undefined;
    const end = isReceive ? Math.max(clock, arrived) : clock + (lists[rank]?.[index]?.predictedMilliseconds as number);
    if (isReceive) waited[rank] = (waited[rank] as number) + end - clock;
    clocks[rank] = end;
    return end;
  });
  const whole = Math.max(...clocks);
  return lists.map((times, rank) => {
    const step = mean((known[rank] as ProgramProfile).runs.map((run) => (run[1] as number) / 1e6));
    const received = times.filter(({ kernel }) => kernel === "receive");
    const measured = received.reduce((sum, { milliseconds }) => sum + milliseconds, 0) / step;
    return { waits: { measured, predicted: ((waited[rank] as number) + whole - (clocks[rank] as number)) / whole } };
  });
}

/** Means over the runs of each call's own time: the time of a loop or branch without the calls inside it. */
function ownTimes({ calls, runs }: ProgramProfile): CallTime[] {
  const total = calls.map((_call, index) => mean(runs.map((run) => callTime(run, index) / 1e6)));
  const counts = calls.map((_call, index) => mean(runs.map((run) => callNumbers(run, index)[2])));
  const times = [...total];
  const open: number[] = [];
  calls.forEach(({ depth }, index) => {
    open.length = depth;
    const outer = open[depth - 1];
    if (outer !== undefined) times[outer] = (times[outer] as number) - (total[index] as number);
    open.push(index);
  });
  return calls.map(({ kernel, text, flops, bytes, seconds, peer, beside = false }, index) => {
    const executions = counts[index] as number;
    const milliseconds = Math.max(0, times[index] as number);
    const predictedMilliseconds = 1e3 * seconds * executions;
    const work = { predictedMilliseconds, flops: flops * executions, bytes: bytes * executions };
    return { kernel, text, peer, beside, calls: executions, milliseconds, ...work };
  });
}

/** Adds up the calls of one name; the longest first. */
function linesOf(
  times: readonly CallTime[],
  nameOf: (time: CallTime) => string,
  step: number,
  limits: RankProfile["limits"],
): ProfileLine[] {
  const groups = new Map<string, CallTime[]>();
  for (const time of times) {
    if (time.calls > 0) groups.set(nameOf(time), [...(groups.get(nameOf(time)) ?? []), time]);
  }
  const lines = [...groups].map(([name, group]): ProfileLine => {
    const sum = (of: (time: CallTime) => number): number => group.reduce((total, time) => total + of(time), 0);
    const milliseconds = sum((time) => time.milliseconds);
    const [flops, bytes] = [sum((time) => time.flops), sum((time) => time.bytes)];
    const [arithmetic, memory] = [flops / limits.flops, bytes / limits.bytes];
    const seconds = Math.max(milliseconds, 1e-9) / 1e3;
    const works = flops + bytes > 0 && !group.some(({ kernel }) => communicates(kernel));
    return {
      name,
      calls: sum((time) => time.calls),
      milliseconds,
      predictedMilliseconds: sum((time) => time.predictedMilliseconds),
      share: step === 0 ? 0 : milliseconds / step,
      flopsPerSecond: flops / seconds,
      bytesPerSecond: bytes / seconds,
      // A sum of calls of both kinds is compared call by call.
      efficiency: works ? sum((time) => workSeconds(time, { flops: limits.flops, memory: limits.bytes })) / seconds : 0,
      bound: works ? (arithmetic >= memory ? "arithmetic" : "memory") : undefined,
    };
  });
  return lines.sort((a, b) => b.milliseconds - a.milliseconds);
}

/** Lines of the list of calls that are shown; the rest is one line. */
const shownCalls = 20;
/** Programs with a smaller part of the time are named only. */
const shownShare = 0.05;

/** The report for a terminal. */
export function formatReport(report: ProfileReport): string {
  const { limits, threads, isa, programs, ranks } = report;
  // Programs that ran once or twice, such as those of initial values, are left out, unless there are no others.
  const repeated = programs.filter(({ warmUp }) => warmUp > 0);
  const candidates = repeated.length > 0 ? repeated : programs;
  const total = candidates.reduce((sum, { runs, meanMilliseconds }) => sum + runs * meanMilliseconds, 0);
  const shown = candidates.filter(({ runs, meanMilliseconds }) => runs * meanMilliseconds >= shownShare * total);
  const machine =
    `machine: ${rate(limits.flops)}FLOP/s (multiply-adds in registers), ${rate(limits.bytes)}B/s (a = b + s c in memory), ` +
    `${threads} thread${threads === 1 ? "" : "s"}, ${isa}`;
  const others = programs.filter((program) => !shown.includes(program)).map(({ name }) => name);
  return [
    machine,
    ...shown.flatMap((program) => ["", ...formatProgram(program)]),
    ...(ranks.length > 1 ? ["", ...formatRanks(report)] : []),
    ...(others.length > 0 ? ["", `not shown, as they took little or ran only once: ${namesOf(others)}`] : []),
  ].join("\n");
}

const namesOf = (names: readonly string[]): string => listed([...new Set(names)]);

function formatProgram(program: ProgramReport): string[] {
  const { name, runs, warmUp, byKernel, byCall, meanMilliseconds } = program;
  const head =
    `${name}: ${runs} step${runs === 1 ? "" : "s"} after ${warmUp} to warm up, ` +
    `median ${ms(program.medianMilliseconds)} ms, least ${ms(program.minimumMilliseconds)} ms, ` +
    `predicted ${ms(program.predictedMilliseconds)} ms`;
  const part = (milliseconds: number): string => `${ms(milliseconds)} ms (${percent(milliseconds / meanMilliseconds)})`;
  const rest = byCall.slice(shownCalls);
  const left = rest.reduce((sum, { milliseconds }) => sum + milliseconds, 0);
  return [
    head,
    `communication ${part(program.communicationMilliseconds)}, ` +
      (program.hiddenMilliseconds === 0 ? "" : `hidden behind the rest ${part(program.hiddenMilliseconds)}, `) +
      `between calls ${part(program.betweenMilliseconds)}, ` +
      `idle between steps ${ms(program.idleMilliseconds)} ms`,
    ...(program.input === undefined ? [] : [formatInput(program.input)]),
    "",
    ...table("by kernel", byKernel),
    "",
    ...table("by call", byCall.slice(0, shownCalls)),
    ...(rest.length === 0 ? [] : [`  and ${rest.length} others: ${part(left)}`]),
  ];
}

const formatInput = ({ milliseconds, share, byStep }: InputReport): string =>
  `waiting for batches ${ms(milliseconds)} ms (${percent(share)}), at most ${ms(Math.max(...byStep))} ms before a step`;

function formatRanks({ ranks, programs }: ProfileReport): string[] {
  const lines = ranks.map(
    ({ rank, medianMilliseconds, communicationMilliseconds, hiddenMilliseconds, inputMilliseconds, waits }) =>
      `  rank ${rank}  median ${ms(medianMilliseconds)} ms, communication ${ms(communicationMilliseconds)} ms` +
      (hiddenMilliseconds === 0 ? "" : `, hidden ${ms(hiddenMilliseconds)} ms`) +
      (inputMilliseconds === undefined ? "" : `, waiting for batches ${ms(inputMilliseconds)} ms`) +
      (waits === undefined
        ? ""
        : `, waits for others ${percent(waits.measured)} (predicted ${percent(waits.predicted)})`),
  );
  return [`${programs[0]?.name ?? "nothing"} by rank`, ...lines];
}

function table(title: string, lines: readonly ProfileLine[]): string[] {
  const heads = ["ms/step", "predicted", "share", "calls", "FLOP/s", "B/s", "of limit", "bound by"];
  const cells = lines.map((line) => [
    ms(line.milliseconds),
    line.predictedMilliseconds === 0 ? "-" : ms(line.predictedMilliseconds),
    percent(line.share),
    String(Number(line.calls.toFixed(1))),
    line.flopsPerSecond === 0 ? "-" : rate(line.flopsPerSecond).trim(),
    line.bytesPerSecond === 0 ? "-" : rate(line.bytesPerSecond).trim(),
    line.bound === undefined ? "-" : percent(line.efficiency),
    line.bound ?? "-",
  ]);
  const widths = heads.map((text, column) =>
    Math.max(text.length, ...cells.map((row) => (row[column] as string).length)),
  );
  const row = (texts: readonly string[], name: string): string =>
    `  ${texts.map((text, column) => text.padStart(widths[column] as number)).join("  ")}  ${name}`;
  return [row(heads, title), ...lines.map((line, index) => row(cells[index] as string[], line.name))];
}

const ms = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));
const percent = (share: number): string => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

/** `2.5e9` → `"2.5 G"`. */
function rate(perSecond: number): string {
  const units = ["", "k", "M", "G", "T"];
  let value = perSecond;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value >= 100 ? value.toFixed(0) : value.toPrecision(3)} ${units[unit]}`;
}
