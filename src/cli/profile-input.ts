/** @module How long a device had nothing to do because its next batch was not there: the exposed time of input. */
import type { ProgramProfile, RankProfile } from "../executors/index.ts";

/** What a program waited for its batches. */
export interface InputReport {
  /** Mean of a step. */
  readonly milliseconds: number;
  /** The share of the time from the start of the first step to the end of the last. */
  readonly share: number;
  /** Before each step but the first. */
  readonly byStep: readonly number[];
}

/** From and to, in microseconds. */
type Interval = readonly [from: number, to: number];

interface Run {
  readonly program: ProgramProfile;
  readonly index: number;
  readonly interval: Interval;
}

/**
 * For each program of a rank how long its steps waited for batches while the device ran nothing. A wait counts for the run that
 * comes after it. What the processor did ahead of a step, beside another one, is no wait.
 */
export function inputOf({ programs, input }: RankProfile): Map<ProgramProfile, InputReport> {
  if (input === undefined) return new Map();
  const runs = programs
    .flatMap((program) => program.runs.map((run, index): Run => ({ program, index, interval: intervalOf(run) })))
    .sort((a, b) => a.interval[0] - b.interval[0]);
  const exposed = new Map(programs.map((program) => [program, new Float64Array(program.runs.length)]));
  const waiting = new Set<ProgramProfile>();
  for (const [from, length] of input) {
    const to = from + length;
    const next = runs.findIndex(({ interval }) => interval[1] > to);
    const { program, index } = runs[next] ?? {};
    // A wait before the first run that counts belongs to the warm-up.
    if (program === undefined || index === undefined || index === 0) continue;
    const busy = runs.slice(0, next + 1).map(({ interval }) => interval);
    const idle = to - from - busy.reduce((sum, other) => sum + overlap([from, to], other), 0);
    const ofSteps = exposed.get(program) as Float64Array;
    ofSteps[index] = (ofSteps[index] as number) + Math.max(0, idle) / 1e3;
    waiting.add(program);
  }
  return new Map([...waiting].map((program) => [program, reportOf(program, exposed.get(program) as Float64Array)]));
}

function reportOf({ runs }: ProgramProfile, exposed: Float64Array): InputReport {
  const byStep = [...exposed].slice(1);
  const sum = byStep.reduce((total, milliseconds) => total + milliseconds, 0);
  const [begin] = intervalOf(runs[0] as readonly number[]);
  const [, end] = intervalOf(runs.at(-1) as readonly number[]);
  return { milliseconds: sum / byStep.length, share: (1e3 * sum) / (end - begin), byStep };
}

const intervalOf = ([begin = 0, nanoseconds = 0]: readonly number[]): Interval => [begin, begin + nanoseconds / 1e3];

const overlap = (a: Interval, b: Interval): number => Math.max(0, Math.min(a[1], b[1]) - Math.max(a[0], b[0]));
