/** @module Watches the workers of a run until all have ended, and ends them when one fails or a signal comes. */

import type { WorkerProcess } from "./worker-process.ts";

/** Time for the others to say in what they waited for a worker that died. */
const graceMilliseconds = 1000;

/** Time between asking a worker to stop and killing it. */
const stopMilliseconds = 1000;

/** Time in which a second signal is taken for the same press of Ctrl-C. */
const repeatMilliseconds = 300;

/** Signals that end a run. */
export type StopSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

/** A request to stop, from a signal or from code. */
export interface StopRequest {
  /** Resolves with the signal; stays open when none comes. */
  readonly requested: Promise<StopSignal>;
  /** Calls back for each later signal, which means: at once. */
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
  const signals: readonly StopSignal[] = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) process.on(signal, onSignal);
  if (abort?.aborted === true) onAbort();
  abort?.addEventListener("abort", onAbort);
  return {
    requested,
    onRepeat: (callback) => void repeats.push(callback),
    dispose: () => {
      for (const signal of signals) process.off(signal, onSignal);
      abort?.removeEventListener("abort", onAbort);
    },
  };
}

/** Waits for the end of a run. Resolves with the signal that stopped it, if one did. */
export async function supervise(workers: readonly WorkerProcess[], stop: StopRequest): Promise<StopSignal | undefined> {
  const all = Promise.all(workers.map((worker) => worker.ended)).then(() => undefined);
  const outcome = await Promise.race([all, firstFailure(workers), stop.requested]);
  if (outcome === "failure") {
    // A signal in this time means that the failure was the same Ctrl-C, seen earlier by the worker than by us.
    const signal = await Promise.race([all, sleep(graceMilliseconds), stop.requested]);
    await stopAll(workers, signal ?? "SIGTERM", stop);
    return signal;
  }
  if (outcome !== undefined) await stopAll(workers, outcome, stop);
  return outcome;
}

/** Ends all workers: the signal first, SIGKILL for those that are still there after a while. */
export async function stopAll(workers: readonly WorkerProcess[], signal: StopSignal, stop: StopRequest): Promise<void> {
  const alive = workers.filter((worker) => worker.exit === undefined);
  const all = Promise.all(alive.map((worker) => worker.ended));
  // One that is gone already has ended by itself, even if we have not heard all of it yet.
  for (const worker of alive) worker.stopping = !worker.gone;
  const send = (one: NodeJS.Signals) => {
    for (const worker of alive) if (!worker.gone) worker.kill(one);
  };
  stop.onRepeat(() => send("SIGKILL"));
  // A terminal sends Ctrl-C to the whole group: workers that heed it are given a moment, so that none gets it twice.
  if (signal === "SIGINT" && process.stdin.isTTY) await Promise.race([all, sleep(150)]);
  send(signal);
  await Promise.race([all, sleep(stopMilliseconds)]);
  send("SIGKILL");
  await all;
}

function firstFailure(workers: readonly WorkerProcess[]): Promise<"failure"> {
  return new Promise((resolve) => {
    for (const worker of workers) {
      void worker.ended.then(({ code }) => {
        if (code !== 0 && !worker.stopping) resolve("failure");
      });
    }
  });
}

// Unreferenced: a timer that has lost its race must not hold the process.
function sleep(milliseconds: number): Promise<undefined> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds, undefined).unref();
  });
}
