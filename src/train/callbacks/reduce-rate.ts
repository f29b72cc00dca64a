/** @module A learning rate that falls when training no longer gets better: Keras' `ReduceLROnPlateau`. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import type { Callbacks, EpochRecord } from "../history.ts";
import { checkMonitor, logsOf, type MonitorOptions, type Watched, watched } from "../logs.ts";

/** Options of {@link reduceLROnPlateau}. */
export interface ReduceRateOptions extends MonitorOptions {
  /** What the rate is multiplied by, below 1; default 0.1. */
  readonly factor?: number;
  /** Epochs without progress after which it falls; default 10. */
  readonly patience?: number;
  /** By how much a value must be better than the best one; default 1e-4. */
  readonly minDelta?: number;
  /** Epochs after a fall in which nothing is counted; default 0. */
  readonly cooldown?: number;
  /** The rate does not fall below; default 0. */
  readonly minLearningRate?: number;
}

/**
 * Multiplies the learning rate of all later steps by `factor` when what it watches has not become better for `patience` epochs,
 * with Keras' counting. It works on top of a schedule, too. (`optim.schedules.plateau` is PyTorch's, a schedule of its own.)
 *
 * @throws HeddleError `option`; when the training begins, for a `monitor` that it does not have
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

  /** Counts an epoch; tells whether the rate is to fall. */
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
      // The falls of these epochs are in the checkpoint.
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
