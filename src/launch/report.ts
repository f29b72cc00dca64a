/** @module Which worker's failure explains the others', and how it is told. */

import type { ErrorMessage } from "../launcher-messages/launcher.ts";
import { listed } from "../util/text.ts";

/** How a worker that failed has ended. */
export interface WorkerFailure {
  readonly rank: number;
  /** Exit status; null when a signal ended it. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Milliseconds since the start of the run. */
  readonly at: number;
  readonly step?: number | undefined;
  /** The collective that was under way. */
  readonly during?: string | undefined;
  /** What the worker itself said. */
  readonly error?: ErrorMessage | undefined;
  /** The process could not even be started. */
  readonly startError?: string | undefined;
}

/** Error codes that say only that another worker is gone, or late. */
const consequences: ReadonlySet<string> = new Set(["peer", "peerClosed", "peerAborted", "aborted", "timeout"]);

/** Node's status for a script that has nothing left to do but an unfinished top-level `await`. */
const unsettled = 13;

/** Failures with the root cause first: killed by a signal, then errors of its own, then errors about other workers. */
export function orderFailures(failures: readonly WorkerFailure[]): WorkerFailure[] {
  return [...failures].sort((a, b) => severity(a) - severity(b) || a.at - b.at || a.rank - b.rank);
}

function severity({ signal, error }: WorkerFailure): number {
  if (signal !== null) return 0;
  return error?.code !== undefined && consequences.has(error.code) ? 2 : 1;
}

/** The text about a failed run, root cause first; the full error of that one, a line for each of the others. */
export function describeFailures(failures: readonly WorkerFailure[], workers: number): string {
  const [first, ...others] = failures;
  if (first === undefined) return "";
  // A worker that went without a word: the survivors know which collective it was missing from.
  const silent = first.error === undefined && first.startError === undefined;
  const known = silent ? failures.find((one) => one.error?.during !== undefined)?.error?.during : undefined;
  const during = first.during ?? known;
  const lines = [describe({ ...first, during }, workers)];
  const stack = first.error?.stack;
  if (stack !== undefined) lines.push(indent(stack));
  if (first.signal === "SIGKILL") lines.push("  (if nobody killed it: the system does so when memory runs out)");
  // Which step they had begun by then would be a second number for the same one.
  const told = first.error?.step !== undefined;
  const alike = others.filter(({ error }) => error !== undefined && error.message === first.error?.message);
  if (alike.length > 0)
    lines.push(`  the same on rank${alike.length > 1 ? "s" : ""} ${listed(alike.map(({ rank }) => String(rank)))}`);
  for (const other of others) {
    if (alike.includes(other)) continue;
    const known = told ? { ...other, step: undefined } : other;
    lines.push(`  then ${stoppedWith(other, first) ?? firstLine(describe(known, workers))}`);
  }
  return lines.join("\n");
}

/** Of a rank that waited for the first one: what that said is told already. */
function stoppedWith({ rank, error }: WorkerFailure, first: WorkerFailure): string | undefined {
  const waited = error?.code === "peerAborted" && error.during !== undefined && error.peer === first.rank;
  return waited && first.error !== undefined ? `rank ${rank} ended with it, in ${error.during}` : undefined;
}

function describe(failure: WorkerFailure, workers: number): string {
  const { signal, exitCode, error, startError } = failure;
  const who = workers === 1 ? "the script" : `rank ${failure.rank}`;
  const where = place(failure);
  if (startError !== undefined) return `${who} could not be started: ${startError}`;
  if (signal !== null) return `${who} was killed by ${signal}${where}`;
  if (error === undefined) {
    const why =
      exitCode === unsettled
        ? " (it awaits at top level something that never comes)"
        : exitCode === 0
          ? " while others still worked with it"
          : "";
    return `${who} ended with exit status ${exitCode}${where}${why}`;
  }
  // An error that names its step is of that one; others may have been begun since.
  const own = error.step === undefined ? where : place({ ...failure, step: undefined });
  if (workers > 1) return `${who} failed${own}: ${error.message}`;
  // The error of a single script speaks for itself; one that is shown in full is not said twice.
  return error.stack === undefined ? error.message : "the script failed";
}

function place({ step, during }: WorkerFailure): string {
  const parts = [step === undefined ? "" : ` at step ${step}`, during === undefined ? "" : `, during ${during}`];
  return parts.join("");
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}

function indent(text: string): string {
  return text.replace(/^(?=.)/gm, "  ");
}
