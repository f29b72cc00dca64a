/** @module Ending a training early: by an AbortSignal, or by the signals that end a process. */
import { constants } from "node:os";

/** Thrown in a training that a process signal ended. */
export class Interrupted extends Error {
  readonly signal: "SIGINT" | "SIGTERM";

  constructor(signal: "SIGINT" | "SIGTERM") {
    super(`interrupted by ${signal}`);
    this.name = "Interrupted";
    this.signal = signal;
  }

  /** What shells give for a process that the signal ended: 130 for Ctrl-C. */
  get exitStatus(): number {
    return 128 + constants.signals[this.signal];
  }
}

/** Time for the current step to end after a signal; the launcher kills a second after it. */
const graceMilliseconds = 700;

/** A request to end, from whatever side. */
export interface StopRequest {
  /** Fires once; its reason is an {@link Interrupted}, or the reason of the caller's signal. */
  readonly signal: AbortSignal;
  /** Called before the process ends because a step did not end in time; must not wait. */
  onForced(callback: () => void): void;
  /** Stops listening. */
  dispose(): void;
}

/** Listens to SIGINT, SIGTERM and, where there is one, the caller's signal. */
export function listenForStop(caller: AbortSignal | undefined): StopRequest {
  const controller = new AbortController();
  const forced: (() => void)[] = [];
  const interrupt = (signal: "SIGINT" | "SIGTERM"): void => {
    if (controller.signal.aborted) return;
    const reason = new Interrupted(signal);
    controller.abort(reason);
    // A worker may wait for another one that is gone already.
    setTimeout(() => {
      for (const callback of forced) callback();
      process.exit(reason.exitStatus);
    }, graceMilliseconds).unref();
  };
  const onInterrupt = (): void => interrupt("SIGINT");
  const onTerminate = (): void => interrupt("SIGTERM");
  const onAbort = (): void => controller.abort(caller?.reason);
  process.on("SIGINT", onInterrupt);
  process.on("SIGTERM", onTerminate);
  if (caller?.aborted === true) onAbort();
  caller?.addEventListener("abort", onAbort);
  return {
    signal: controller.signal,
    onForced: (callback) => void forced.push(callback),
    dispose: () => {
      process.off("SIGINT", onInterrupt);
      process.off("SIGTERM", onTerminate);
      caller?.removeEventListener("abort", onAbort);
    },
  };
}
