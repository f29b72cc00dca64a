/** @module Watches the workers of a run until all have ended, and stops them when one fails or a signal arrives. */

import { constants } from "node:os";
import type { Crew } from "./crew.ts";
import type { WorkerProcess } from "./worker-process.ts";

/** Time for the other workers to report in which collective they waited for a worker that died. */
const graceMilliseconds = 1000;

/** Seconds between asking a worker to stop and killing it, where nobody says how many. */
export const defaultGrace = 5;

/** Time in which a second signal counts as the same press of Ctrl-C. */
const repeatMilliseconds = 300;

/** Signals that end a run. SIGUSR2 announces an end, as before a pre-emption: trainings save a checkpoint first, and nothing hurries them. */
export type StopSignal = "SIGINT" | "SIGTERM" | "SIGHUP" | "SIGUSR2";

/** The status that shells give for a process that a signal ended. */
export const statusOf = (signal: string): number => 128 + constants.signals[signal as NodeJS.Signals];

/** A request to stop, from a signal or from code. */
export interface StopRequest {
  /** Resolves with the signal; never settles without one. */
  readonly requested: Promise<StopSignal>;
  /** Asks for an end as the signal does. */
  request(signal: StopSignal): void;
  /** Calls back for each later signal, which means: stop at once. */
  onRepeat(callback: () => void): void;
  dispose(): void;
}

/** Listens for the signals that end a run, and for an `AbortSignal`. */
export function listenForStop(abort: AbortSignal | undefined): StopRequest {
  const repeats: (() => void)[] = [];
  let first: number | undefined;
  let resolve: (signal: StopSignal) => void = () => {};
  const requested = new Promise<StopSignal>((done) => {
    resolve = done;
  });
  const onSignal = (signal: NodeJS.Signals) => {
    const now = performance.now();
    if (first === undefined) {
      first = now;
      resolve(signal as StopSignal);
    } else if (now - first > repeatMilliseconds) {
      for (const callback of repeats) callback();
    }
  };
  const onAbort = () => onSignal("SIGTERM");
  const signals: StopSignal[] = ["SIGINT", "SIGTERM", "SIGHUP"];
  // Windows has no such signal.
  if (process.platform !== "win32") signals.push("SIGUSR2");
  for (const signal of signals) process.on(signal, onSignal);
  if (abort?.aborted === true) onAbort();
  abort?.addEventListener("abort", onAbort);
  return {
    requested,
    request: (signal) => onSignal(signal),
    onRepeat: (callback) => void repeats.push(callback),
    dispose: () => {
      for (const signal of signals) process.off(signal, onSignal);
      abort?.removeEventListener("abort", onAbort);
    },
  };
}

/**
 * Waits for the end of a run. Resolves with the signal that stopped it, if one did.
 *
 * @param grace milliseconds of {@link stopAll}
 * @param saves whether trainings get that time to save a checkpoint when SIGTERM comes
 */
export async function supervise(
  workers: readonly WorkerProcess[],
  stop: StopRequest,
  grace: number,
  saves = false,
  fails: (worker: WorkerProcess) => boolean = () => true,
): Promise<StopSignal | undefined> {
  const allEnded = Promise.all(workers.map((worker) => worker.ended)).then(() => undefined);
  const outcome = await Promise.race([allEnded, firstFailure(workers, fails), stop.requested]);
  if (outcome === "failure") {
    // A signal in this time means that the failure was the same Ctrl-C, which the worker saw before the launcher.
    const signal = await Promise.race([allEnded, sleep(graceMilliseconds), stop.requested]);
    await stopAll(workers, signal ?? "SIGTERM", stop, grace);
    return signal;
  }
  if (outcome !== undefined) await stopAll(workers, outcome, stop, grace, saves);
  return outcome;
}

/**
 * Waits for the end of a run as {@link supervise} does. On parameter servers, a worker that is killed leaves, and the others go on: all but rank
 * 0, which reports and writes checkpoints. `forgiven` has those workers.
 */
export async function superviseServed(
  { processes, servers }: Crew,
  stop: StopRequest,
  { grace, saves, say }: { readonly grace: number; readonly saves: boolean; readonly say: (text: string) => void },
): Promise<{ readonly stoppedBy: StopSignal | undefined; readonly forgiven: ReadonlySet<number> }> {
  const forgiven = new Set<number>();
  const fails = ({ rank, exit }: WorkerProcess): boolean => {
    if (servers === undefined || rank === 0 || exit?.signal == null) return true;
    forgiven.add(rank);
    say(`worker ${rank} was ended by ${exit.signal}: the others go on`);
    return false;
  };
  return { stoppedBy: await supervise(processes, stop, grace, saves, fails), forgiven };
}

/** Time for workers to end by SIGTERM after they had their time to save. */
const hurriedMilliseconds = 1000;

/**
 * Ends all workers: by the signal, and by SIGKILL if they are still running after so many milliseconds. With `saves`, SIGTERM is announced
 * first: a training saves a checkpoint after its current step.
 */
export async function stopAll(
  workers: readonly WorkerProcess[],
  signal: StopSignal,
  stop: StopRequest,
  grace: number,
  saves = false,
): Promise<void> {
  const alive = workers.filter((worker) => worker.exit === undefined);
  const allEnded = Promise.all(alive.map((worker) => worker.ended));
  // A worker that is gone has ended by itself, even if its last messages have not been read yet.
  for (const worker of alive) worker.stopping = !worker.gone;
  const send = (killSignal: NodeJS.Signals) => {
    for (const worker of alive) if (!worker.gone) worker.kill(killSignal);
  };
  stop.onRepeat(() => send("SIGKILL"));
  // A terminal sends Ctrl-C to the whole group: workers get a moment to end, so that none gets the signal twice.
  if (signal === "SIGINT" && process.stdin.isTTY) await Promise.race([allEnded, sleep(150)]);
  const announced = saves && signal === "SIGTERM" && process.platform !== "win32" ? grace - hurriedMilliseconds : 0;
  if (announced > 0) {
    send("SIGUSR2");
    await Promise.race([allEnded, sleep(announced)]);
  }
  send(signal);
  const left = announced > 0 ? hurriedMilliseconds : grace;
  await (signal === "SIGUSR2" ? allEnded : Promise.race([allEnded, sleep(left)]));
  send("SIGKILL");
  await allEnded;
}

/** The status of a run that a signal stopped: that of SIGUSR2 if every training could save a checkpoint before its end, so that it can be resumed. */
export function stoppedStatus(workers: readonly WorkerProcess[], signal: StopSignal): number {
  const left = statusOf("SIGUSR2");
  // A worker that has not come to a training yet is ended by the announcement itself.
  const leaves = ({ exit }: WorkerProcess): boolean => exit?.code === left || exit?.signal === "SIGUSR2";
  const saved = workers.some(({ exit }) => exit?.code === left) && workers.every(leaves);
  return signal === "SIGTERM" && saved ? left : statusOf(signal);
}

function firstFailure(
  workers: readonly WorkerProcess[],
  fails: (worker: WorkerProcess) => boolean,
): Promise<"failure"> {
  return new Promise((resolve) => {
    for (const worker of workers) {
      void worker.ended.then(({ code }) => {
        if (code !== 0 && !worker.stopping && fails(worker)) resolve("failure");
      });
    }
  });
}

// Unreferenced: a timer that has lost its race must not keep the process alive.
function sleep(milliseconds: number): Promise<undefined> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds, undefined).unref();
  });
}
