/** @module Reports of a training: the interface, and a reporter that writes lines and needs no terminal. */
import { formatCount } from "../util/text.ts";
import type { EpochRecord } from "./history.ts";
import { formatMetric, formatNumber } from "./metrics.ts";

/** The start of an epoch. */
export interface EpochStart {
  /** From 1. */
  readonly epoch: number;
  readonly epochs: number;
  readonly batches: number;
  /** Batches that were done before, in a resumed epoch. */
  readonly done: number;
}

/** The progress of an epoch. */
export interface StepProgress {
  /** Launched batches. */
  readonly done: number;
  /** Examples that all workers together have launched since the epoch began or resumed. */
  readonly examples: number;
  /** Mean loss of the last batches whose loss is known. */
  readonly loss: number | undefined;
}

/** Reports a training to the user. */
export interface Reporter {
  line(text: string): void;
  /** A line that stands out. */
  warn(text: string): void;
  startEpoch(start: EpochStart): void;
  step(progress: StepProgress): void;
  endEpoch(record: EpochRecord): void;
  /** Ends the report; restores the terminal. */
  stop(): void;
}

/** Reports nothing. */
export const silentReporter: Reporter = {
  line: () => {},
  warn: () => {},
  startEpoch: () => {},
  step: () => {},
  endEpoch: () => {},
  stop: () => {},
};

/** Where a reporter without a bar writes. */
export interface LineOutput {
  line(text: string): void;
  /** A line that stands out. */
  warn(text: string): void;
}

/** Measures an epoch: the examples per second, and the time that is left. */
export class Clock {
  private readonly started = performance.now();
  private readonly start: EpochStart;

  constructor(start: EpochStart) {
    this.start = start;
  }

  texts({ done, examples, loss }: StepProgress, unit: string): { loss: string; rate: string; left: string } {
    const seconds = (performance.now() - this.started) / 1000;
    const sinceStart = done - this.start.done;
    const left = sinceStart === 0 ? undefined : (seconds / sinceStart) * (this.start.batches - done);
    return {
      loss: loss === undefined ? "" : `loss ${formatNumber(loss)}`,
      rate: seconds === 0 ? "" : `${formatCount(examples / seconds)} ${unit}/s`,
      left: left === undefined ? "" : `${formatSeconds(left)} left`,
    };
  }
}

/** `75` → `"1:15 min"`. */
export function formatSeconds(seconds: number): string {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${String(Math.floor(seconds % 60)).padStart(2, "0")} min`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")} h`;
}

/** `"epoch 1/3"`. */
export const epochTitle = ({ epoch, epochs }: { epoch: number; epochs: number }): string => `epoch ${epoch}/${epochs}`;

/** The line that remains of an epoch. */
export function summary(start: EpochStart, record: EpochRecord, unit: string): string {
  const metrics = (values: { readonly [name: string]: number }, prefix: string): string[] =>
    Object.entries(values).map(([name, value]) => formatMetric(`${prefix}${name}`, value));
  const { validation } = record;
  const parts = [
    epochTitle(start),
    `loss ${formatNumber(record.loss)}`,
    ...metrics(record.metrics, ""),
    ...(validation === undefined ? [] : [`val_loss ${formatNumber(validation.loss)}`]),
    ...(validation === undefined ? [] : metrics(validation.metrics, "val_")),
    `${formatSeconds(record.seconds)}, ${formatCount(record.examplesPerSecond)} ${unit}/s`,
  ];
  return parts.join("  ");
}

const linesPerEpoch = 5;

/**
 * A reporter that writes a few lines per epoch.
 *
 * @param unit what an example is called
 * @param interval milliseconds between two lines of an epoch, at least; short epochs have one line each
 */
export function lineReporter(output: LineOutput, unit: string, interval = 1000): Reporter {
  let start: EpochStart = { epoch: 0, epochs: 0, batches: 0, done: 0 };
  let clock = new Clock(start);
  let written = performance.now();
  const write = (kind: keyof LineOutput, text: string): void => {
    written = performance.now();
    output[kind](text);
  };
  const line = (text: string): void => write("line", text);
  return {
    line,
    warn: (text) => write("warn", text),
    startEpoch(next) {
      start = next;
      clock = new Clock(next);
    },
    step(progress) {
      const { done } = progress;
      const part = (count: number): number => Math.floor((count * linesPerEpoch) / start.batches);
      // The line of the whole epoch replaces that of the last part.
      if (part(done) === part(done - 1) || done === start.batches) return;
      if (performance.now() - written < interval) return;
      const { loss, rate, left } = clock.texts(progress, unit);
      const parts = [epochTitle(start), `${done}/${start.batches}`, loss, rate, left];
      line(parts.filter((text) => text !== "").join("  "));
    },
    endEpoch: (record) => line(summary(start, record, unit)),
    stop: () => {},
  };
}
