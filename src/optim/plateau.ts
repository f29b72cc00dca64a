/** @module A learning rate that falls when training no longer improves: PyTorch's `ReduceLROnPlateau`. */
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import type { Schedule } from "./optimizer.ts";

/** Options of {@link plateau}. */
export interface PlateauOptions {
  /** The first rate. */
  readonly learningRate: number;
  /** The value to monitor after every epoch: `"loss"` (default) or the name of a metric; of the evaluation if `train` has one. */
  readonly monitor?: string;
  /** Whether small or large values are good; default `"min"`. */
  readonly mode?: "min" | "max";
  /** Factor of the rate; default 0.1. */
  readonly factor?: number;
  /** Number of epochs without progress before the rate falls; default 10. */
  readonly patience?: number;
  /** Smallest change that counts as progress; default 1e-4. */
  readonly threshold?: number;
  /** Whether `threshold` is a share of the best value (default) or a difference from it. */
  readonly thresholdMode?: "relative" | "absolute";
  /** Number of epochs after a fall that are not counted; default 0. */
  readonly cooldown?: number;
  /** The lowest rate; default 0. */
  readonly minimum?: number;
  /** The rate does not fall by less than this; default 1e-8. */
  readonly epsilon?: number;
}

/** A schedule that follows a monitored value. `train` calls `observe` after every epoch, and for the history when it resumes. */
export interface PlateauSchedule extends Schedule {
  readonly monitor: string;
  /** Takes the value of one epoch. */
  observe(value: number): void;
  /** Forgets all observed values. */
  restart(): void;
}

/** Whether a learning rate is a plateau schedule. */
export const isPlateau = (schedule: unknown): schedule is PlateauSchedule =>
  typeof schedule === "function" && "observe" in schedule && "restart" in schedule;

/**
 * Multiplies the learning rate by `factor` when `monitor` has not become better for more than `patience` epochs. NaN is not
 * progress. Without `train`, call `observe(value)` after each epoch.
 *
 * @throws HeddleError `option`
 */
export function plateau(options: PlateauOptions): PlateauSchedule {
  const settings = checked(options);
  const { learningRate, monitor, factor, patience, cooldown, minimum, epsilon } = settings;
  const worst = settings.mode === "min" ? Infinity : -Infinity;
  let state = { rate: learningRate, best: worst, bad: 0, resting: 0 };
  const observe = (value: number): void => {
    const better = isBetter(settings, value, state.best);
    const resting = Math.max(0, state.resting - 1);
    // During the cooldown, bad epochs do not count; it begins with the epoch after the fall.
    const bad = better || state.resting > 0 ? 0 : state.bad + 1;
    const best = better ? value : state.best;
    if (bad <= patience) {
      state = { ...state, best, bad, resting };
      return;
    }
    const next = Math.max(state.rate * factor, minimum);
    state = { best, rate: state.rate - next > epsilon ? next : state.rate, bad: 0, resting: cooldown };
  };
  const restart = (): void => {
    state = { rate: learningRate, best: worst, bad: 0, resting: 0 };
  };
  return Object.assign((): number => state.rate, { monitor, observe, restart });
}

function isBetter({ mode, threshold, thresholdMode }: Required<PlateauOptions>, value: number, best: number): boolean {
  const sign = mode === "min" ? -1 : 1;
  const bar = thresholdMode === "absolute" ? best + sign * threshold : best * (1 + sign * threshold);
  return sign * value > sign * bar;
}

function checked(options: PlateauOptions): Required<PlateauOptions> {
  const what = "schedules.plateau";
  const {
    learningRate,
    monitor = "loss",
    mode = "min",
    factor = 0.1,
    patience = 10,
    threshold = 1e-4,
  } = asRecord(what, options);
  const { thresholdMode = "relative", cooldown = 0, minimum = 0, epsilon = 1e-8 } = options;
  const judged = { monitor, mode, patience, threshold, thresholdMode };
  const settings: Required<PlateauOptions> = { learningRate, ...judged, factor, cooldown, minimum, epsilon };
  checkOptions(what, options, Object.keys(settings));
  for (const name of ["learningRate", "threshold", "minimum", "epsilon"] as const)
    checkNumber(what, name, settings[name], 0);
  checkNumber(what, "factor", settings.factor, 0, 1);
  for (const name of ["patience", "cooldown"] as const) checkInteger(what, name, settings[name], 0);
  const oneOf = (name: "mode" | "thresholdMode", values: readonly string[]): void => {
    if (!values.includes(settings[name]))
      throw new HeddleError("option", `${what}: ${name} must be ${values.join(" or ")}, got ${String(settings[name])}`);
  };
  oneOf("mode", ["min", "max"]);
  oneOf("thresholdMode", ["relative", "absolute"]);
  if (settings.factor === 1) throw new HeddleError("option", `${what}: factor must be below 1`);
  return settings;
}
