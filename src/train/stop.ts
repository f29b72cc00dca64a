/** @module Ending a training early: by an AbortSignal, or by a signal to the process. */
import { host } from "./host.ts";
import type { EndSignal } from "./host-interface.ts";

/** Thrown in a training that a signal to the process ended. */
export class Interrupted extends Error {
  readonly signal: EndSignal;

  constructor(signal: EndSignal) {
    super(`interrupted by ${signal}`);
    this.name = "Interrupted";
    this.signal = signal;
  }
}

/** Time for the current step to end after a signal; the launcher kills its workers later (--grace). */
const graceMilliseconds = 700;

/** A request to end, by the caller's AbortSignal or by a signal to the process. */
export interface StopRequest {
  /** Fires once; its reason is an {@link Interrupted}, or the reason of the caller's signal. */
  readonly signal: AbortSignal;
  /** Called before the process ends because a step did not end in time; the callback must not wait. */
  onForced(callback: () => void): void;
  /** Called when the process is told that it will be ended: a training then saves a checkpoint and ends by itself. */
  onNotice(callback: () => void): void;
  /** Stops listening. */
  dispose(): void;
}

/** Listens to SIGINT and SIGTERM, if there is a process, and to the caller's signal, if there is one. */
export function listenForStop(caller: AbortSignal | undefined): StopRequest {
  const controller = new AbortController();
  const forced: (() => void)[] = [];
  const onAbort = (): void => controller.abort(caller?.reason);
  const stopListening = host.process?.onSignal((signal) => {
    if (controller.signal.aborted) return;
    controller.abort(new Interrupted(signal));
    // A worker may wait for a worker that is gone already.
    setTimeout(() => {
      for (const callback of forced) callback();
      host.process?.endBy(signal);
    }, graceMilliseconds).unref();
  });
  let noticed = false;
  let notice = (): void => {};
  const stopNotices = host.process?.onNotice(() => {
    noticed = true;
    notice();
  });
  if (caller?.aborted === true) onAbort();
  caller?.addEventListener("abort", onAbort);
  return {
    signal: controller.signal,
    onForced: (callback) => void forced.push(callback),
    onNotice: (callback) => {
      notice = callback;
      if (noticed) notice();
    },
    dispose: () => {
      stopListening?.();
      stopNotices?.();
      caller?.removeEventListener("abort", onAbort);
    },
  };
}
