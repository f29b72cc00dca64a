/** @module Losses that are bad: not finite, or far above the last ones. */
import type { RowIndices } from "../data/browser.ts";
import { HeddleError } from "../util/errors.ts";
import { describeStep } from "../util/faults.ts";
import { badValue } from "./bad-values.ts";
import type { FedBatch } from "./feed.ts";
import type { StepRecord } from "./history.ts";
import { formatNumber } from "./metrics.ts";
import type { Settings } from "./options.ts";

/** Losses that are compared with, at most and at least. */
const most = 20;
const fewest = 10;

/** The step with a bad loss. */
export interface BadStep {
  readonly record: Omit<StepRecord, "loss" | "rejected">;
  readonly loss: number;
  /** The mean of the last losses, if the loss is too far above it. */
  readonly mean: number | undefined;
  /** The rows of the data in the batch. */
  readonly rows: RowIndices;
}

/** The last losses: their mean, so that the reported loss does not jump, and what is far above it. */
export class RecentLoss {
  private readonly values: number[] = [];

  add(loss: number): void {
    this.values.push(loss);
    if (this.values.length > most) this.values.shift();
  }

  get mean(): number | undefined {
    const { values } = this;
    return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
  }

  /** The mean of the last losses if a loss is more than so many times as much, otherwise undefined. */
  isAbove(loss: number, factor: number | undefined): number | undefined {
    const { mean, values } = this;
    return factor !== undefined && mean !== undefined && values.length >= fewest && loss > factor * mean
      ? mean
      : undefined;
  }
}

/** A step with a bad loss, as the beginning of a sentence. */
export function lossAt({ record, loss, mean }: BadStep, { epochs }: Settings): string {
  const than = mean === undefined ? "" : `, far above the mean of the last losses, ${formatNumber(mean)},`;
  return `the loss is ${formatNumber(loss)}${than} at ${describeStep({ ...record, epochs })}`;
}

/** The error for a bad loss; `batch` is looked at for values that explain the loss. */
export function badLoss(bad: BadStep, settings: Settings, batch: FedBatch): HeddleError {
  const value = badValue(batch, settings.data);
  if (value !== undefined) return nanError(bad, settings, `: ${value}`, "correct the data, or remove such rows");
  const { learningRate } = bad.record;
  return nanError(
    bad,
    settings,
    `, with learning rate ${learningRate}; the data of its batch are finite`,
    'lower the learning rate, look for overflow in the loss and the model, or pass nan: "continue"',
  );
}

/** The error for a bad loss after too many others. */
export const tooManyBad = (bad: BadStep, settings: Settings): HeddleError =>
  nanError(
    bad,
    settings,
    ", after as many batches were left out as an epoch may leave out",
    "lower the learning rate: it is not single batches that make the loss bad",
  );

function nanError(bad: BadStep, settings: Settings, more: string, hint: string): HeddleError {
  const { record, loss } = bad;
  const fault = { kind: "badLoss", loss, training: { ...record, epochs: settings.epochs } } as const;
  return new HeddleError("nan", `${lossAt(bad, settings)}${more}`, { hint, fault });
}
