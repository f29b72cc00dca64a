/** @module The numbers of an epoch by Keras' names, which callbacks monitor and files have as columns. */

import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { listed } from "../util/text.ts";
import type { EpochRecord, TrainStart } from "./history.ts";

/** Numbers by name: `loss`, each metric, and with a validation `val_loss` and `val_…` for each metric. */
export type Logs = { readonly [name: string]: number };

/** The numbers of an epoch. */
export function logsOf({ loss, metrics, validation }: EpochRecord): Logs {
  const training = { loss, ...metrics };
  if (validation === undefined) return training;
  const validated = Object.entries({ loss: validation.loss, ...validation.metrics });
  return { ...training, ...Object.fromEntries(validated.map(([name, value]) => [`val_${name}`, value])) };
}

/** The names of the numbers in {@link logsOf}. */
export function logNames({ metrics, validates }: Pick<TrainStart, "metrics" | "validates">): string[] {
  const training = ["loss", ...metrics];
  return validates ? [...training, ...training.map((name) => `val_${name}`)] : training;
}

/** The number that a callback monitors, and the direction of progress. */
export interface Watched {
  readonly name: string;
  /** Whether a value is better than the best so far by more than `delta`; NaN is never better. */
  better(value: number, best: number | undefined, delta: number): boolean;
}

/** Options of callbacks that monitor a number. */
export interface MonitorOptions {
  /**
   * `"loss"`, the name of a metric, or a number of the validation: `"val_loss"`, `"val_accuracy"`. Default `"val_loss"` if there is
   * a validation, otherwise `"loss"`.
   */
  readonly monitor?: string;
  /**
   * Whether small or large values are better; default `"auto"`: large values for accuracies, `auc`, `precision`, `recall`, `f1` and
   * `topK`, otherwise small values.
   */
  readonly mode?: "auto" | "min" | "max";
}

/** @throws HeddleError `option`. */
export function checkMonitor(what: string, { mode = "auto" }: MonitorOptions): void {
  if (["auto", "min", "max"].includes(mode)) return;
  throw new HeddleError("option", `${what}: mode must be auto, min or max, got ${String(mode)}`);
}

/** The monitored number of a training. @throws HeddleError `option` if the training has no number of this name. */
export function watched(
  what: string,
  { monitor, mode = "auto" }: MonitorOptions,
  start: Pick<TrainStart, "metrics" | "validates">,
): Watched {
  const name = monitor ?? (start.validates ? "val_loss" : "loss");
  const names = logNames(start);
  if (!names.includes(name)) {
    const near = nearest(name, names);
    throw new HeddleError("option", `${what}: monitor '${name}' is not a number of this training`, {
      hint: near === undefined ? `it has ${listed(names, 24)}` : `did you mean '${near}'?`,
    });
  }
  const large = mode === "max" || (mode === "auto" && /acc|auc|precision|recall|f1|top_?k/i.test(name));
  return {
    name,
    better: (value, best, delta) => {
      if (Number.isNaN(value)) return false;
      if (best === undefined) return true;
      return large ? value > best + delta : value < best - delta;
    },
  };
}
