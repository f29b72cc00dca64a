/** @module Finds the worker whose failure explains the others', and describes the failures. */

import { consequences } from "../elastic/losses.ts";
import type { ErrorMessage } from "../launcher-messages/launcher.ts";
import { listed } from "../util/text.ts";

/** How a failed worker ended. */
export interface WorkerFailure {
  readonly rank: number;
  /** Exit status; null when a signal ended it. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Milliseconds since the start of the run. */
  readonly at: number;
  readonly step?: number | undefined;
  /** What the worker did before its first step. */
  readonly doing?: string | undefined;
  /** The unfinished collective. */
  readonly during?: string | undefined;
  /** The error that the worker reported. */
  readonly error?: ErrorMessage | undefined;
  /** Why the process could not be started. */
  readonly startError?: string | undefined;
}

/** Node's status for a script that has nothing left to do but an unfinished top-level `await`. */
const unsettled = 13;

/** Failures with the root cause first: workers killed by a signal, then errors of a worker's own, then errors about other workers. */
export function orderFailures(failures: readonly WorkerFailure[]): WorkerFailure[] {
  return [...failures].sort((a, b) => severity(a) - severity(b) || a.at - b.at || a.rank - b.rank);
}

function severity({ signal, error }: WorkerFailure): number {
  if (signal !== null) return 0;
  return error?.code !== undefined && consequences.has(error.code) ? 2 : 1;
}

/** The report of a failed run: the root cause with its full error, then a line for each other failure. */
export function describeFailures(failures: readonly WorkerFailure[], workers: number): string {
  const [first, ...others] = failures;
  if (first === undefined) return "";
  // The worker reported nothing: the survivors know which collective it was missing from.
  const silent = first.error === undefined && first.startError === undefined;
  const survivorCollective = silent
    ? failures.find((failure) => failure.error?.during !== undefined)?.error?.during
    : undefined;
  const during = first.during ?? survivorCollective;
  const lines = [describe({ ...first, during }, workers)];
  const stack = first.error?.stack;
  if (stack !== undefined) lines.push(indent(stack));
  if (first.signal === "SIGKILL") lines.push("  (if nobody killed it: the system does so when memory runs out)");
  // The error names the step; the recorded step would be a second number for it.
  const hasStep = first.error?.step !== undefined;
  const alike = others.filter(({ error }) => error !== undefined && error.message === first.error?.message);
  if (alike.length > 0)
    lines.push(`  the same on rank${alike.length > 1 ? "s" : ""} ${listed(alike.map(({ rank }) => String(rank)))}`);
  for (const other of others) {
    if (alike.includes(other)) continue;
    const shownWorker = hasStep ? { ...other, step: undefined } : other;
    lines.push(`  then ${stoppedWith(other, first) ?? firstLine(describe(shownWorker, workers))}`);
  }
  return lines.join("\n");
}

/** The line for a rank that waited for the first failed rank; the error of the first rank is not repeated. */
function stoppedWith({ rank, error }: WorkerFailure, first: WorkerFailure): string | undefined {
  const waited = error?.code === "peerAborted" && error.during !== undefined && error.peer === first.rank;
  return waited && first.error !== undefined ? `rank ${rank} ended with it, in ${error.during}` : undefined;
}

function describe(failure: WorkerFailure, workers: number): string {
  const { signal, exitCode, error, startError } = failure;
  const who = workers === 1 ? "the script" : `rank ${failure.rank}`;
  const where = location(failure);
  if (startError !== undefined) return `${who} could not be started: ${startError}`;
  if (signal !== null) return `${who} was killed by ${signal}${where}`;
  if (error === undefined) {
    const why =
      exitCode === unsettled
        ? " (a top-level await never settles)"
        : exitCode === 0
          ? " while others still worked with it"
          : "";
    return `${who} ended with exit status ${exitCode}${where}${why}`;
  }
  // If the error names its step, the recorded step is left out: later steps may have begun since.
  const locationOfError = error.step === undefined ? where : location({ ...failure, step: undefined });
  if (workers > 1) return `${who} failed${locationOfError}: ${error.message}`;
  // The error of a single script needs no introduction; if it is shown in full, it is not repeated.
  // A worker that it drove has ended: the step is this script's.
  if (error.code === "link") return `${error.message}${locationOfError}`;
  return error.stack === undefined ? error.message : "the script failed";
}

function location({ step, during, doing }: WorkerFailure): string {
  // A step is launched before it runs: workers may be at other collectives of the same step, or at an earlier step.
  const parts = [
    step !== undefined ? ` after the launch of step ${step}` : doing === undefined ? "" : ` while it was ${doing}`,
    during === undefined ? "" : `, during ${during}`,
  ];
  return parts.join("");
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}

function indent(text: string): string {
  return text.replace(/^(?=.)/gm, "  ");
}
