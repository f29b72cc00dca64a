/** @module Learning rate schedules that depend on results. */
import { schedules } from "../optim/index.ts";
import { HeddleError } from "../util/errors.ts";
import { listed } from "../util/text.ts";
import type { EpochRecord } from "./history.ts";
import type { Settings } from "./options.ts";

/** The schedules of an optimizer that depend on results. */
export function plateaus({ optimizer }: Settings): readonly schedules.PlateauSchedule[] {
  const rates = (optimizer.parts ?? [optimizer]).map(({ learningRate }) => learningRate);
  // Parameter groups may share a schedule.
  return [...new Set(rates.filter(schedules.isPlateau))];
}

/** Passes the results of an epoch to the schedules: those of the validation if there is one. */
export function observe(settings: Settings, record: EpochRecord): void {
  const { loss, metrics } = record.validation ?? record;
  for (const schedule of plateaus(settings)) {
    const value = schedule.monitor === "loss" ? loss : metrics[schedule.monitor];
    if (value === undefined)
      throw new HeddleError("option", `train: the learning rate follows '${schedule.monitor}', which is not a metric`, {
        hint: `metrics are ${listed(["loss", ...Object.keys(metrics)])}`,
      });
    schedule.observe(value);
  }
}
