/** @module Tells of ranks that others wait for, while a run goes on: one that does not come to a collective, or that always comes last. */
import { readFileSync } from "node:fs";
import type { EventLog } from "./events.ts";
import { Lateness, type Ring, readRings, type Unfinished, unfinished } from "./rings.ts";
import type { WorkerProcess } from "./worker-process.ts";

const lookMilliseconds = 1000;
/** The shortest wait that is told of, and how many usual steps it must have taken. */
const leastWait = 10_000;
const usualSteps = 5;
/** How often it is looked which rank comes last, and from which share of the time on it is told. */
const slowMilliseconds = 20_000;
const slowShare = 0.25;
/** A run that is shorter is not summed up. */
const shortRun = 20_000;

/** The rank for which the others waited longest in a whole run. */
export interface Straggler {
  readonly rank: number;
  /** Share of the time of the run. */
  readonly share: number;
}

/** Watches the ranks of this host. */
export class StallWatch {
  private readonly folder: string;
  private readonly workers: readonly WorkerProcess[];
  private readonly say: (text: string) => void;
  private readonly events: EventLog;
  private readonly timer: NodeJS.Timeout;
  private readonly began = performance.now();
  private readonly whole = new Lateness();
  private readonly lately = new Lateness();
  private lookedLately = performance.now();
  /** When which step was the last, of late. */
  private readonly steps: { readonly step: number; readonly at: number }[] = [];
  /** The wait that was told of last, and after how many milliseconds it is told of again. */
  private told: { readonly what: string; readonly next: number; readonly missing: readonly number[] } | undefined;
  private toldSlow: number | undefined;

  constructor(folder: string, workers: readonly WorkerProcess[], events: EventLog, say: (text: string) => void) {
    this.folder = folder;
    this.workers = workers;
    this.events = events;
    this.say = say;
    this.timer = setInterval(() => this.look(), lookMilliseconds);
    this.timer.unref();
  }

  /** Ends the watch; gives the rank for which the others waited longest, if that is worth telling. */
  stop(): Straggler | undefined {
    clearInterval(this.timer);
    this.whole.add(readRings(this.folder));
    const { slowest } = this.whole;
    return performance.now() - this.began < shortRun || slowest === undefined || slowest.share < slowShare
      ? undefined
      : slowest;
  }

  private look(): void {
    const rings = readRings(this.folder);
    this.noteStep();
    this.whole.add(rings);
    this.lately.add(rings);
    this.lookForWait(rings);
    if (performance.now() - this.lookedLately < slowMilliseconds) return;
    this.lookedLately = performance.now();
    const { slowest } = this.lately;
    this.lately.restart();
    if (slowest === undefined || slowest.share < slowShare) this.toldSlow = undefined;
    else if (slowest.rank !== this.toldSlow) {
      this.toldSlow = slowest.rank;
      this.tell(
        "slow",
        `rank ${slowest.rank} is slow: for ${percent(slowest.share)} of the last ${slowMilliseconds / 1000} s the other ranks waited for it`,
        slowest,
      );
    }
  }

  private lookForWait(rings: readonly Ring[]): void {
    const [first] = unfinished(rings);
    const key = first && `${first.description} ${first.since}`;
    if (this.told !== undefined && this.told.what !== key) {
      const { missing } = this.told;
      this.told = undefined;
      // A wait may also end with the run.
      const failed = rings.some(({ entries }) => entries.at(-1)?.failed) || this.workers.some(({ gone }) => gone);
      if (!failed && (first === undefined || Date.now() - first.since < leastWait))
        this.tell("goes on", `${named(missing)} ${missing.length === 1 ? "goes" : "go"} on`, { missing });
    }
    if (first === undefined || key === undefined) return;
    const waited = Date.now() - first.since;
    if (waited < (this.told?.next ?? Math.max(leastWait, usualSteps * this.usualStep))) return;
    const missing = first.missing.length > 0 ? first.missing : this.stopped();
    this.told = { what: key, next: 2 * waited, missing };
    this.tell("waiting", waitingText(first, missing, waited, this.workers), { ...first, missing, waited });
  }

  private noteStep(): void {
    const step = this.workers.reduce((most, worker) => Math.max(most, worker.step ?? 0), 0);
    if (step === (this.steps.at(-1)?.step ?? 0)) return;
    this.steps.push({ step, at: performance.now() });
    // The first steps take longer than others.
    if (this.steps.length > 30) this.steps.shift();
  }

  /** Milliseconds of a step, of late. */
  private get usualStep(): number {
    const [first, last] = [this.steps[0], this.steps.at(-1)];
    return first === undefined || last === undefined || first === last
      ? 0
      : (last.at - first.at) / (last.step - first.step);
  }

  /** The ranks whose processes are stopped, as by SIGSTOP or a debugger. */
  private stopped(): number[] {
    return this.workers.filter(isStopped).map(({ rank }) => rank);
  }

  private tell(event: string, text: string, fields: object): void {
    this.events.add(event, { text, ...fields });
    this.say(text);
  }
}

const percent = (share: number): string => `${Math.round(100 * share)} %`;
const named = (ranks: readonly number[]): string =>
  ranks.length === 0 ? "the ranks" : ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${ranks.join(", ")}`;

/** The line for a wait. */
export function waitingText(
  { description, waiting }: Unfinished,
  missing: readonly number[],
  waited: number,
  workers: readonly WorkerProcess[],
): string {
  const seconds = `${Math.floor(waited / 1000)} s`;
  const stopped = workers
    .filter((worker) => missing.includes(worker.rank) && isStopped(worker))
    .map(({ rank }) => rank);
  const why = stopped.length === 0 ? "" : ` (the process of ${named(stopped)} is stopped)`;
  if (missing.length === 0) return `all ranks have been in ${description} for ${seconds}`;
  const others = waiting.filter((rank) => !missing.includes(rank));
  if (others.length === 0)
    return `${named(missing)} ${missing.length === 1 ? "has" : "have"} not finished ${description} for ${seconds}${why}`;
  return (
    `${named(missing)} ${missing.length === 1 ? "has" : "have"} not come to ${description} for ${seconds}${why}; ` +
    `${named(others)} ${others.length === 1 ? "waits" : "wait"}`
  );
}

/** Whether a process is stopped; false where the system does not tell. */
function isStopped({ pid }: WorkerProcess): boolean {
  try {
    return /^\d+ \(.*\) [Tt] /s.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

/** The line for the end of a run. */
export const stragglerText = ({ rank, share }: Straggler): string =>
  `rank ${rank} came last: the other ranks waited for it for ${percent(share)} of the time`;
