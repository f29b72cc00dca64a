/** @module Ending a training that no longer gets better. */
import { checkInteger, checkNumber, checkOptions } from "../../util/options.ts";
import type { Callbacks, EpochRecord, Snapshot, TrainControl } from "../history.ts";
import { checkMonitor, logsOf, type MonitorOptions, type Watched, watched } from "../logs.ts";
import { formatMetric } from "../metrics.ts";

/** Options of {@link earlyStopping}. */
export interface EarlyStoppingOptions extends MonitorOptions {
  /** Number of epochs without progress after which the training ends; with 0 (default) and 1 the first such epoch ends it. */
  readonly patience?: number;
  /** By how much a value must be better than the best value; default 0. */
  readonly minDelta?: number;
  /**
   * Restore the values of the best epoch at the end, even if the training was not ended early; default false. The values are kept in
   * memory.
   */
  readonly restoreBest?: boolean;
  /** Only values better than this one count as progress; default none. */
  readonly baseline?: number;
  /** Number of first epochs that are ignored; default 0. */
  readonly startFromEpoch?: number;
}

/**
 * Ends the training if the monitored number has not become better for `patience` epochs, as Keras' `EarlyStopping`. NaN is never
 * better. A resumed run knows the numbers of earlier epochs from its history, but not their parameters: if no later epoch is better,
 * `restoreBest` keeps the last parameters. The callback prints which epoch was restored.
 *
 * @throws HeddleError `option`; when the training begins, for an unknown `monitor`
 */
export function earlyStopping(options: EarlyStoppingOptions = {}): Callbacks {
  const what = "earlyStopping";
  const names = ["monitor", "mode", "patience", "minDelta", "restoreBest", "baseline", "startFromEpoch"];
  checkOptions(what, options, names);
  checkMonitor(what, options);
  const { patience = 0, minDelta = 0, restoreBest = false, baseline, startFromEpoch = 0 } = options;
  checkInteger(what, "patience", patience);
  checkInteger(what, "startFromEpoch", startFromEpoch);
  checkNumber(what, "minDelta", minDelta, 0);
  if (baseline !== undefined) checkNumber(what, "baseline", baseline);
  let watch: Watched;
  let print: (text: string) => void;
  let best: { value: number; epoch: number } | undefined;
  let waited = 0;
  let snapshot: Snapshot | undefined;

  /** Counts an epoch; returns whether it is the best so far. */
  const count = (record: EpochRecord): boolean => {
    if (record.epoch <= startFromEpoch) return false;
    const value = logsOf(record)[watch.name] as number;
    waited++;
    if (!watch.better(value, best?.value, minDelta)) return false;
    best = { value, epoch: record.epoch };
    if (baseline === undefined || watch.better(value, baseline, 0)) waited = 0;
    return true;
  };
  const onEpoch = (record: EpochRecord, control: TrainControl): void => {
    if (count(record)) {
      snapshot?.dispose();
      snapshot = restoreBest ? control.snapshot() : undefined;
      return;
    }
    // As in Keras, the first epoch never ends a training.
    if (record.epoch === 1) return;
    if (record.epoch <= startFromEpoch || waited < Math.max(1, patience)) return;
    print(
      `no better ${watch.name} for ${waited} ${waited === 1 ? "epoch" : "epochs"}: ending after epoch ${record.epoch}`,
    );
    control.stop();
  };
  return {
    onBegin: (start) => {
      watch = watched(what, options, start);
      ({ print } = start);
      [best, waited, snapshot] = [undefined, 0, undefined];
      for (const record of start.history) count(record);
    },
    onEpoch,
    onEnd: (_end, control) => {
      if (!restoreBest || best === undefined) return;
      if (snapshot === undefined) {
        print(`earlyStopping: epoch ${best.epoch} was the best, before the training was resumed; its values are lost`);
        return;
      }
      control.restore(snapshot);
      print(`earlyStopping: restored the values of epoch ${best.epoch}, ${formatMetric(watch.name, best.value)}`);
      snapshot.dispose();
      snapshot = undefined;
    },
  };
}
