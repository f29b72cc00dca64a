/** @module A profile as a trace that Chrome (`chrome://tracing`) and Perfetto show: one process per rank. */
import type { ProgramProfile, RankProfile } from "../executors/index.ts";
import { callNumbers } from "./profile-report.ts";

/** An event of the trace format; times in microseconds. */
export interface TraceEvent {
  readonly name: string;
  readonly cat?: string;
  /** `X`: something with a length; `M`: a name. */
  readonly ph: "X" | "M";
  readonly ts?: number;
  readonly dur?: number;
  readonly pid: number;
  readonly tid: number;
  readonly args?: Readonly<Record<string, unknown>>;
}

/** Lines of a process: what the device does, the communication beside it, and what the training waits for. */
const deviceLine = 0;
const besideLine = 1;
const inputLine = 2;

/** Runs and their calls in the order of time; the calls inside a loop or branch are in the arguments of its event. */
export function traceOf(ranks: readonly RankProfile[]): { readonly traceEvents: readonly TraceEvent[] } {
  const begins = ranks.flatMap(({ programs }) => programs.flatMap(({ runs }) => runs.map((run) => run[0] as number)));
  const origin = begins.reduce((least, begin) => Math.min(least, begin), Infinity);
  const nameOf = (pid: number, tid: number, name: string): TraceEvent => {
    return { name: "thread_name", ph: "M", pid, tid, args: { name } };
  };
  const traceEvents = ranks.flatMap(({ rank, programs, input }): TraceEvent[] => [
    { name: "process_name", ph: "M", pid: rank, tid: deviceLine, args: { name: `rank ${rank}` } },
    ...(programs.some(({ calls }) => calls.some((call) => call.beside))
      ? [nameOf(rank, deviceLine, "steps"), nameOf(rank, besideLine, "communication")]
      : []),
    ...(input === undefined ? [] : [nameOf(rank, inputLine, "input"), ...waitsOf(input, rank, origin)]),
    ...programs.flatMap((program) => program.runs.flatMap((run) => eventsOf(program, run, rank, origin))),
  ]);
  return { traceEvents };
}

/** The waits for batches, from the first step that counts on. */
const waitsOf = (input: NonNullable<RankProfile["input"]>, pid: number, origin: number): TraceEvent[] =>
  input
    .filter(([start]) => start >= origin)
    .map(([start, dur]) => {
      return { pid, tid: inputLine, name: "waiting for the batch", cat: "input", ph: "X", ts: start - origin, dur };
    });

function eventsOf({ name, calls }: ProgramProfile, run: readonly number[], pid: number, origin: number): TraceEvent[] {
  const begin = (run[0] as number) - origin;
  const events: TraceEvent[] = [
    { pid, tid: deviceLine, name, cat: "step", ph: "X", ts: begin, dur: (run[1] as number) / 1e3 },
  ];
  calls.forEach(({ kernel, text, depth, flops, bytes, beside: apart }, index) => {
    const [start, length, count] = callNumbers(run, index);
    if (depth > 0 || count === 0) return;
    const inner = innerTimes(calls, run, index);
    events.push({
      pid,
      tid: apart === true ? besideLine : deviceLine,
      name: kernel,
      cat: kernel.startsWith("collective") || kernel === "wait" ? "communication" : "kernel",
      ph: "X",
      ts: begin + start / 1e3,
      dur: length / 1e3,
      args: { call: text, flops, bytes, ...(inner.length === 0 ? {} : { inner }) },
    });
  });
  return events;
}

/** The calls that a loop or branch holds, with their time and how often they ran. */
function innerTimes(calls: ProgramProfile["calls"], run: readonly number[], outer: number): unknown[] {
  const found: unknown[] = [];
  for (let index = outer + 1; (calls[index]?.depth ?? 0) > 0; index++) {
    const [, length, count] = callNumbers(run, index);
    found.push({ call: calls[index]?.text, microseconds: length / 1e3, count });
  }
  return found;
}
