/** @module What a training shows in Node: a bar per epoch on a terminal, a few lines per epoch in a file or a pipe. */
import type { SingleBar } from "cli-progress";
import type picocolors from "picocolors";
import {
  Clock,
  type EpochStart,
  epochTitle,
  lineReporter,
  type Reporter,
  silentReporter,
  summary,
} from "./progress.ts";

type Colors = typeof picocolors;

/** A stream such as `process.stdout`. A bar is drawn only on a terminal. */
export interface LineStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Options of {@link makeReporter}. */
export interface TerminalOptions {
  /** Default `process.stdout`. */
  readonly stream?: LineStream;
  /** Milliseconds between two lines of an epoch, at least; default 1000. */
  readonly interval?: number;
}

/**
 * The reporter for the option `report` of `train`.
 *
 * @param unit what an example is called: `"images"`
 */
export async function makeReporter(
  mode: "auto" | "bar" | "lines" | "silent",
  unit: string,
  { stream = process.stdout, interval }: TerminalOptions = {},
): Promise<Reporter> {
  if (mode === "silent") return silentReporter;
  // Loaded on demand: some bundlers cannot include these packages, which are CommonJS modules.
  const { default: colors } = await import("picocolors");
  const library = mode !== "lines" && stream.isTTY === true ? await import("cli-progress").catch(() => {}) : undefined;
  if (library === undefined) {
    const line = (text: string): void => void stream.write(`${text}\n`);
    return lineReporter({ line, warn: (text) => line(colors.yellow(text)) }, unit, interval);
  }
  // Only the stream of a terminal has `isTTY`.
  return barReporter(library.default.SingleBar, stream as NodeJS.WriteStream, colors, unit);
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
    // The next step draws the bar again, below the line.
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
    format: `${epochTitle(start)} ${colors.cyan("{bar}")} {value}/{total}  {loss}  {rate}  {left}`,
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
