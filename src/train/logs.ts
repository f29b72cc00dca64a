/** @module An epoch's numbers by the names that Keras gives them, which callbacks watch and files have as columns. */

import { HeddleError } from "../util/errors.ts";
import { nearest } from "../util/options.ts";
import { listed } from "../util/text.ts";
import type { EpochRecord, TrainStart } from "./history.ts";

/** Numbers by name: `loss`, each metric, and with a dataset to evaluate on `val_loss` and `val_…` of each metric. */
export type Logs = { readonly [name: string]: number };

/** The numbers of an epoch. */
export function logsOf({ loss, metrics, validation }: EpochRecord): Logs {
  const own = { loss, ...metrics };
  if (validation === undefined) return own;
  const validated = Object.entries({ loss: validation.loss, ...validation.metrics });
  return { ...own, ...Object.fromEntries(validated.map(([name, value]) => [`val_${name}`, value])) };
}

/** The names that {@link logsOf} will give. */
export function logNames({ metrics, validates }: Pick<TrainStart, "metrics" | "validates">): string[] {
  const own = ["loss", ...metrics];
  return validates ? [...own, ...own.map((name) => `val_${name}`)] : own;
}

/** What a callback watches, and which way it is good. */
export interface Watched {
  readonly name: string;
  /** Whether a value is better than the best so far by more than `delta`; NaN never is. */
  better(value: number, best: number | undefined, delta: number): boolean;
}

/** Options of callbacks that watch a number. */
export interface MonitorOptions {
  /**
   * `"loss"`, the name of a metric, or one of the validation: `"val_loss"`, `"val_accuracy"`. Default `"val_loss"` where there is
   * a validation, else `"loss"`.
   */
  readonly monitor?: string;
  /**
   * Whether small or large values are good; default `"auto"`: large ones of accuracies, `auc`, `precision`, `recall`, `f1` and
   * `topK`, else small ones.
   */
  readonly mode?: "auto" | "min" | "max";
}

/** @throws HeddleError `option`. */
export function checkMonitor(what: string, { mode = "auto" }: MonitorOptions): void {
  if (["auto", "min", "max"].includes(mode)) return;
  throw new HeddleError("option", `${what}: mode must be auto, min or max, got ${String(mode)}`);
}

/** @throws HeddleError `option` when the training has no number of that name. */
export function watched(what: string, { monitor, mode = "auto" }: MonitorOptions, start: TrainStart): Watched {
  const name = monitor ?? (start.validates ? "val_loss" : "loss");
  const names = logNames(start);
  if (!names.includes(name)) {
    const near = nearest(name, names);
    throw new HeddleError("option", `${what}: monitor '${name}' is no number of this training`, {
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
