/** @module What a consistency policy is: who may begin a clock, what arrived updates become, and what a worker does locally. */
import type { ClockTable, WorkerClock } from "./clocks.ts";

/** What is known of an event besides its worker. */
export interface Told<Payload = undefined> {
  /** Seconds on a steady clock. Default: the number of events so far. */
  readonly at?: number;
  /** The largest magnitude in the update, for policies that bound values. */
  readonly size?: number;
  /** Samples behind the update: its weight in a mean. Default 1. */
  readonly samples?: number;
  /** The update itself: handed back in the step that applies it. */
  readonly payload?: Payload;
  /** Of a pull: it begins no clock, and is answered at once. For workers whose rule fetches apart from pushes. */
  readonly refresh?: boolean;
}

/** An update that arrived. */
export interface Update<Payload = unknown> {
  readonly worker: number;
  /** The worker's clock, counted from 0. */
  readonly clock: number;
  readonly samples: number;
  /** The largest magnitude in the update; NaN if it was not told. */
  readonly size: number;
  readonly payload: Payload | undefined;
}

/** Updates that the server applies as one step of its update rule: their weighted sum. */
export interface Step<Payload = unknown> {
  readonly parts: readonly { readonly update: Update<Payload>; readonly weight: number }[];
  /**
   * For a running mean: the server keeps one sum per `group`, adds the weighted parts to it, and applies `scale` times the new sum
   * less what the group's steps have applied so far.
   */
  readonly mean?: { readonly group: number; readonly scale: number };
}

/** What a policy makes of arrived updates. What is in neither list stays and is asked for again after the next event. */
export interface Settled<Payload = unknown> {
  readonly steps: readonly Step<Payload>[];
  /** Updates that are not applied. */
  readonly dropped?: readonly Update<Payload>[];
  /** Groups of running means to which no update comes any more. */
  readonly closed?: readonly number[];
}

/** What a worker does between a pull and a push, as data. */
export interface WorkerRule {
  /** Local steps between two pulls. Where it differs from {@link WorkerRule.pushEvery}, pulls after the first are refreshes. */
  readonly fetchEvery: number;
  /** Local steps between two pushes: a clock is that many steps. */
  readonly pushEvery: number;
  /** Whether the worker applies its own updates to its copy until it pulls the next one. */
  readonly local: boolean;
  /** `"gradient"`: the sum of the gradients since the last push, for the server's update rule; `"difference"`: values that the server adds. */
  readonly carries: "gradient" | "difference";
  /** For `"difference"`: the share of the distance between worker and server that moves; see `elasticExchange`. */
  readonly elasticity: number;
  /** Clocks that a worker may have begun and not finished. */
  readonly outstanding: number;
}

/** How updates are weighted: as a mean over workers, or summed. */
export type Merging = "sum" | "mean";

/**
 * A consistency policy. It has no time, no network and no randomness: what it decides follows from the order of the events. One object
 * serves one training.
 */
export interface Policy {
  /** The spec that gives this policy: `ssp:3`. */
  readonly spec: string;
  readonly worker: WorkerRule;
  /** Workers of a step that are not waited for: there must be more workers than that. Default 0. */
  readonly backups?: number;
  /** Whether the policy looks at the sizes of updates, which workers then tell. Default false. */
  readonly sized?: boolean;
  /** Whether updates are averaged or summed unless the user says otherwise. */
  readonly merging: Merging;
  /** Whether a worker that waits may begin clock `worker.begun`. */
  mayBegin(worker: WorkerClock, clocks: ClockTable): boolean;
  /** The last clock that a worker which begins now may begin with the same copy. Default: the clock that it begins. */
  until?(worker: WorkerClock, clocks: ClockTable): number;
  /** The clock that a worker begins if it is behind it: what it has missed is left out. Default: the one after its last. */
  skipsTo?(clocks: ClockTable): number;
  /** Steps of the updates that have arrived and wait, oldest first. Default: {@link eachAlone}. */
  settle?<Payload>(arrived: readonly Update<Payload>[], clocks: ClockTable, merging: Merging): Settled<Payload>;
  /** Workers that are sent new parameters without a pull when the slowest clock advances. Default: none. */
  sends?(clocks: ClockTable): readonly number[];
  /** Called after a worker's update arrived, before {@link Policy.settle}. */
  arrived?(update: Update, clocks: ClockTable): void;
  /** Called after a worker began a clock, before the parameters leave. */
  began?(worker: WorkerClock, clocks: ClockTable): void;
  /** Called after a worker left. */
  left?(worker: number): void;
}

/** A worker that pulls, computes one gradient and pushes it. */
export const plainWorker: WorkerRule = {
  fetchEvery: 1,
  pushEvery: 1,
  local: false,
  carries: "gradient",
  elasticity: 0,
  outstanding: 1,
};

/** Each update is a step of its own; in a mean it counts as one of all workers. */
export function eachAlone<Payload>(
  arrived: readonly Update<Payload>[],
  clocks: ClockTable,
  merging: Merging,
): Settled<Payload> {
  const weight = merging === "sum" ? 1 : 1 / Math.max(1, clocks.size);
  return { steps: arrived.map((update) => ({ parts: [{ update, weight }] })) };
}

/** One step of all updates: their sum, or their mean weighted by samples. */
export function together<Payload>(updates: readonly Update<Payload>[], merging: Merging): Step<Payload> {
  const total = updates.reduce((sum, { samples }) => sum + samples, 0);
  return { parts: updates.map((update) => ({ update, weight: merging === "sum" ? 1 : update.samples / total })) };
}

/** One step for each clock that all live workers have finished, of all updates of that clock. */
export function byClock<Payload>(
  arrived: readonly Update<Payload>[],
  clocks: ClockTable,
  merging: Merging,
): Settled<Payload> {
  const whole = arrived.filter(({ clock }) => clock < clocks.slowest);
  const order = [...new Set(whole.map(({ clock }) => clock))].sort((left, right) => left - right);
  const steps = order.map((clock) =>
    together(
      // By worker, so that the sum's bits do not depend on the order of arrival.
      whole.filter((update) => update.clock === clock).sort((left, right) => left.worker - right.worker),
      merging,
    ),
  );
  return { steps };
}
