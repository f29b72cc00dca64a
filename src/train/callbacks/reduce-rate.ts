/** @module Reduces the learning rate if training does not improve: Keras' `ReduceLROnPlateau`. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import type { Callbacks, EpochRecord } from "../history.ts";
import { checkMonitor, logsOf, type MonitorOptions, type Watched, watched } from "../logs.ts";

/** Options of {@link reduceLROnPlateau}. */
export interface ReduceRateOptions extends MonitorOptions {
  /** Factor of the learning rate, below 1; default 0.1. */
  readonly factor?: number;
  /** Number of epochs without progress after which the rate is reduced; default 10. */
  readonly patience?: number;
  /** By how much a value must be better than the best value; default 1e-4. */
  readonly minDelta?: number;
  /** Number of epochs after a reduction that do not count; default 0. */
  readonly cooldown?: number;
  /** Lower bound of the rate; default 0. */
  readonly minLearningRate?: number;
}

/**
 * Multiplies the learning rate of all later steps by `factor` if the monitored number has not become better for `patience` epochs,
 * which are counted as in Keras. It can be combined with a schedule. (`optim.schedules.plateau` is a schedule that follows PyTorch.)
 *
 * @throws HeddleError `option`; when the training begins, for an unknown `monitor`
 */
export function reduceLROnPlateau(options: ReduceRateOptions = {}): Callbacks {
  const what = "reduceLROnPlateau";
  checkOptions(what, options, ["monitor", "mode", "factor", "patience", "minDelta", "cooldown", "minLearningRate"]);
  checkMonitor(what, options);
  const { factor = 0.1, patience = 10, minDelta = 1e-4, cooldown = 0, minLearningRate = 0 } = options;
  checkNumber(what, "factor", factor, 0, 1);
  if (factor === 1) throw new HeddleError("option", `${what}: factor must be below 1`);
  for (const [name, value] of Object.entries({ patience, cooldown })) checkInteger(what, name, value);
  for (const [name, value] of Object.entries({ minDelta, minLearningRate })) checkNumber(what, name, value, 0);
  let watch: Watched;
  let best: number | undefined;
  let waited = 0;
  let resting = 0;

  /** Counts an epoch; returns whether to reduce the rate. */
  const count = (record: EpochRecord, rate: number): boolean => {
    if (resting > 0) {
      resting--;
      waited = 0;
    }
    const value = logsOf(record)[watch.name] as number;
    if (watch.better(value, best, minDelta)) {
      best = value;
      waited = 0;
      return false;
    }
    if (resting > 0) return false;
    waited++;
    if (waited < patience || rate <= minLearningRate) return false;
    [waited, resting] = [0, cooldown];
    return true;
  };
  let print: (text: string) => void;
  return {
    onBegin: (start) => {
      watch = watched(what, options, start);
      ({ print } = start);
      [best, waited, resting] = [undefined, 0, 0];
      // The checkpoint has the reductions of these epochs.
      for (const record of start.history) count(record, record.learningRate);
    },
    onEpoch: (record, control) => {
      const rate = control.learningRate;
      if (!count(record, rate)) return;
      const next = Math.max(rate * factor, minLearningRate);
      control.scaleLearningRate(next / rate);
      print(`no better ${watch.name}: learning rate ${Number(control.learningRate.toPrecision(6))}`);
    },
  };
}
