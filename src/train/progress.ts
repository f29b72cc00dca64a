/** @module What a training shows on screen: a bar per epoch on a terminal, a few lines per epoch elsewhere. */
import type { SingleBar } from "cli-progress";
import type picocolors from "picocolors";
import { formatCount } from "../util/text.ts";
import type { EpochRecord } from "./history.ts";
import { formatMetric, formatNumber } from "./metrics.ts";

/** An epoch that begins. */
export interface EpochStart {
  /** From 1. */
  readonly epoch: number;
  readonly epochs: number;
  readonly batches: number;
  /** Batches done already, in an epoch that is resumed. */
  readonly done: number;
}

/** How far an epoch is. */
export interface StepProgress {
  /** Batches launched. */
  readonly done: number;
  /** Examples launched since the epoch began or was resumed, all workers together. */
  readonly examples: number;
  /** Mean over the last batches whose loss is known. */
  readonly loss: number | undefined;
}

type Colors = typeof picocolors;

/** Shows a training. */
export interface Reporter {
  line(text: string): void;
  /** A line that stands out. */
  warn(text: string): void;
  startEpoch(start: EpochStart): void;
  step(progress: StepProgress): void;
  endEpoch(record: EpochRecord): void;
  /** Leaves the terminal as it was. */
  stop(): void;
}

/** Shows nothing. */
export const silentReporter: Reporter = {
  line: () => {},
  warn: () => {},
  startEpoch: () => {},
  step: () => {},
  endEpoch: () => {},
  stop: () => {},
};

/** Where lines go: `process.stdout`, or whatever has its `write`. A bar is drawn only on a terminal. */
export interface LineStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** What a reporter writes to. */
export interface ReporterOptions {
  /** What an example is called: `"images"`. */
  readonly unit: string;
  readonly stream?: LineStream;
  /** Milliseconds between two plain lines, at least; default 1000, so that short epochs have one line each. */
  readonly interval?: number;
}

/** The reporter that an option of `train` asks for. */
export async function makeReporter(
  mode: "auto" | "bar" | "lines" | "silent",
  options: ReporterOptions,
): Promise<Reporter> {
  if (mode === "silent") return silentReporter;
  const stream: LineStream = options.stream ?? process.stdout;
  // What is for terminals is loaded where something is shown, the bar only where one is drawn: some bundlers cannot take it in
  // (a module of the CommonJS kind).
  const { default: colors } = await import("picocolors");
  const library = mode !== "lines" && stream.isTTY === true ? await import("cli-progress").catch(() => {}) : undefined;
  if (library === undefined) return lineReporter(stream, colors, options.unit, options.interval ?? 1000);
  // Only a terminal's own stream says that it is one.
  return barReporter(library.default.SingleBar, stream as NodeJS.WriteStream, colors, options.unit);
}

/** The time of an epoch so far, and what is left of it. */
class Clock {
  private readonly started = performance.now();
  private readonly start: EpochStart;

  constructor(start: EpochStart) {
    this.start = start;
  }

  texts({ done, examples, loss }: StepProgress, unit: string): { loss: string; rate: string; left: string } {
    const seconds = (performance.now() - this.started) / 1000;
    const own = done - this.start.done;
    const left = own === 0 ? undefined : (seconds / own) * (this.start.batches - done);
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

const title = ({ epoch, epochs }: { epoch: number; epochs: number }): string => `epoch ${epoch}/${epochs}`;

/** The line that stays of an epoch. */
function summary(start: EpochStart, record: EpochRecord, unit: string): string {
  const metrics = (values: { readonly [name: string]: number }, prefix: string): string[] =>
    Object.entries(values).map(([name, value]) => formatMetric(`${prefix}${name}`, value));
  const { validation } = record;
  const parts = [
    title(start),
    `loss ${formatNumber(record.loss)}`,
    ...metrics(record.metrics, ""),
    ...(validation === undefined ? [] : [`val_loss ${formatNumber(validation.loss)}`]),
    ...(validation === undefined ? [] : metrics(validation.metrics, "val_")),
    `${formatSeconds(record.seconds)}, ${formatCount(record.examplesPerSecond)} ${unit}/s`,
  ];
  return parts.join("  ");
}

const linesPerEpoch = 5;

function lineReporter(stream: LineStream, colors: Colors, unit: string, interval: number): Reporter {
  let start: EpochStart = { epoch: 0, epochs: 0, batches: 0, done: 0 };
  let clock = new Clock(start);
  let written = performance.now();
  const line = (text: string): void => {
    written = performance.now();
    stream.write(`${text}\n`);
  };
  return {
    line,
    warn: (text) => line(colors.yellow(text)),
    startEpoch(next) {
      start = next;
      clock = new Clock(next);
    },
    step(progress) {
      const { done } = progress;
      const part = (count: number): number => Math.floor((count * linesPerEpoch) / start.batches);
      // The last part is told by the epoch's own line.
      if (part(done) === part(done - 1) || done === start.batches) return;
      if (performance.now() - written < interval) return;
      const { loss, rate, left } = clock.texts(progress, unit);
      const parts = [title(start), `${done}/${start.batches}`, loss, rate, left];
      line(parts.filter((text) => text !== "").join("  "));
    },
    endEpoch: (record) => line(summary(start, record, unit)),
    stop: () => {},
  };
}

function barReporter(Bar: typeof SingleBar, stream: NodeJS.WriteStream, colors: Colors, unit: string): Reporter {
  let start: EpochStart = { epoch: 0, epochs: 0, batches: 0, done: 0 };
  let clock = new Clock(start);
  let bar: SingleBar | undefined;
  const stop = (): void => {
    bar?.stop();
    bar = undefined;
  };
  const print = (text: string): void => {
    // The next step draws the bar anew, below the line.
    stop();
    stream.write(`${text}\n`);
  };
  return {
    line: print,
    warn: (text) => print(colors.yellow(text)),
    startEpoch(next) {
      stop();
      start = next;
      clock = new Clock(next);
    },
    step(progress) {
      const texts = clock.texts(progress, unit);
      if (bar === undefined) bar = openBar(Bar, stream, colors, start, progress.done, texts);
      else bar.update(progress.done, texts);
    },
    endEpoch: (record) => print(summary(start, record, unit)),
    stop,
  };
}

function openBar(
  Bar: typeof SingleBar,
  stream: NodeJS.WriteStream,
  colors: Colors,
  start: EpochStart,
  done: number,
  texts: object,
): SingleBar {
  const bar = new Bar({
    stream,
    format: `${title(start)} ${colors.cyan("{bar}")} {value}/{total}  {loss}  {rate}  {left}`,
    barCompleteChar: "━",
    barIncompleteChar: "─",
    barsize: 24,
    hideCursor: true,
    clearOnComplete: true,
    // The training ends by itself on a signal and stops the bar.
    gracefulExit: false,
    fps: 10,
  });
  bar.start(start.batches, done, texts);
  return bar;
}
