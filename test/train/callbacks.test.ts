/** The ready callbacks: their counting against Keras', and their files against whatever befalls those. */
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Callbacks,
  callbacks,
  type EpochRecord,
  type Snapshot,
  type TrainControl,
  type TrainStart,
  train,
} from "heddle";
import { readSafetensors } from "heddle/train";
import { afterAll, describe, expect, test } from "vitest";
import { type AppendFile, openAppend } from "../../src/train/callbacks/append.ts";
import { csvLoggerOn } from "../../src/train/callbacks/csv-logger.ts";
import { encodeEvent } from "../../src/train/callbacks/event-file.ts";
import { fixture } from "../fixtures/fixture.ts";
import { bars, options } from "./synthetic.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-callbacks-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const record = (epoch: number, loss: number, rate: number, validation?: number): EpochRecord => ({
  epoch,
  steps: epoch,
  loss,
  metrics: { accuracy: 1 - loss },
  rejected: 0,
  validation:
    validation === undefined ? undefined : { loss: validation, metrics: { accuracy: 1 - validation }, examples: 1 },
  seconds: 0.5,
  examplesPerSecond: 2,
  learningRate: rate,
});

/** What a callback did in a made-up training. */
interface Driven {
  /** Epochs that were trained. */
  epochs: number;
  readonly rates: number[];
  restored: number | undefined;
  /** Snapshots that were not given back. */
  kept: number;
}

/** Calls callbacks as a training does whose loss (and that of its evaluation) goes like this. */
async function drive(one: Callbacks, losses: readonly number[], given: Partial<TrainStart> = {}): Promise<Driven> {
  const start: TrainStart = {
    ...{ epoch: 1, epochs: losses.length, steps: 0, history: [], resumed: false, rank: 0, print: () => {} },
    ...{ metrics: ["accuracy"], validates: true },
    ...given,
  };
  const driven: Driven = { epochs: 0, rates: [], restored: undefined, kept: 0 };
  let [rate, stopped] = [1, false];
  const control: TrainControl = {
    stop: () => {
      stopped = true;
    },
    get learningRate() {
      return rate;
    },
    scaleLearningRate: (factor) => {
      rate *= factor;
    },
    snapshot: () => {
      driven.kept++;
      return { steps: driven.epochs, dispose: () => driven.kept-- } as unknown as Snapshot;
    },
    restore: ({ steps }) => {
      driven.restored = steps;
    },
  };
  await one.onBegin?.(start, control);
  for (const [index, loss] of losses.entries()) {
    driven.epochs++;
    driven.rates.push(rate);
    await one.onEpoch?.(record(start.epoch + index, loss, rate, loss), control);
    if (stopped) break;
  }
  await one.onEnd?.({ history: [], steps: 0 }, control);
  return driven;
}

describe("earlyStopping", () => {
  test("restoreBest puts the best epoch back, stopped or not, and gives all copies back", async () => {
    const make = () => callbacks.earlyStopping({ patience: 2, restoreBest: true });
    const lines: string[] = [];
    const print = (text: string): void => void lines.push(text);
    expect(await drive(make(), [3, 1, 2, 2, 0], { print })).toMatchObject({ epochs: 4, restored: 2, kept: 0 });
    expect(lines).toEqual([
      "no better val_loss for 2 epochs: ending after epoch 4",
      "earlyStopping: restored the values of epoch 2, val_loss 1.0000",
    ]);
    expect(await drive(make(), [3, 1, 2])).toMatchObject({ epochs: 3, restored: 2, kept: 0 });
  });

  test("goes on from the epochs before a resume, and is fresh in another training", async () => {
    const one = callbacks.earlyStopping({ patience: 3, restoreBest: true });
    const history = [record(1, 1, 1, 1), record(2, 2, 1, 2)];
    const lines: string[] = [];
    const print = (text: string): void => void lines.push(text);
    expect((await drive(one, [2, 2, 2], { epoch: 3, history, resumed: true, print })).epochs).toBe(2);
    expect(lines.at(-1)).toMatch(/epoch 1 was the best, before the training was resumed/);
    expect((await drive(one, [2, 2, 2, 2])).epochs).toBe(4);
  });
});

interface Counted {
  readonly kind: "earlyStopping" | "reduceLROnPlateau";
  readonly options: object;
  readonly losses: readonly number[];
  /** Of each epoch that is trained. */
  readonly rates: readonly number[];
}

// test/fixtures/keras_oracle.py
const counted = fixture<Counted>("keras").filter(({ kind }) => kind in callbacks);

test.each(counted)("$kind counts as Keras does: $options, losses $losses", async ({ kind, options, losses, rates }) => {
  expect((await drive(callbacks[kind](options), losses)).rates).toEqual(rates);
});

describe("csvLogger", () => {
  const header = "epoch,loss,accuracy,val_loss,val_accuracy,learning_rate,seconds\n";
  const line = (epoch: number, loss: number): string => `${epoch},${loss},${1 - loss},${loss},${1 - loss},1,0.5\n`;
  const file = (name: string): string => join(folder, name, "log.csv");

  test("appends lines, also those of a later run", async () => {
    const one = callbacks.csvLogger({ path: file("plain") });
    await drive(one, [0.5, 0.25]);
    await drive(one, [0.125]);
    expect(readFileSync(file("plain"), "utf8")).toBe(header + line(1, 0.5) + line(2, 0.25) + line(1, 0.125));
    await drive(callbacks.csvLogger({ path: file("plain"), append: false, separator: ";" }), [0.5]);
    expect(readFileSync(file("plain"), "utf8")).toBe((header + line(1, 0.5)).replaceAll(",", ";"));
    await drive(one, [0.5], { rank: 1 });
    expect(readFileSync(file("plain"), "utf8")).toContain("1;0.5");
  });

  test("after a resume the epochs that are trained again stand there once", async () => {
    const path = file("resumed");
    await drive(callbacks.csvLogger({ path }), [0.5, 0.25, 0.125]);
    // What a kill left of a line.
    appendFileSync(path, "4,0.0");
    await drive(callbacks.csvLogger({ path }), [0.75], { epoch: 2, resumed: true });
    expect(readFileSync(path, "utf8")).toBe(header + line(1, 0.5) + line(2, 0.75));
  });

  test("refuses a file with other columns", async () => {
    const path = file("plain");
    writeFileSync(path, "a,b\n1,2\n");
    await expect(drive(callbacks.csvLogger({ path }), [1])).rejects.toThrow(/has the columns a,b, not epoch,loss/);
    expect(readFileSync(path, "utf8")).toBe("a,b\n1,2\n");
  });

  test("a line that the disk takes only in part is taken back", async () => {
    const path = file("full");
    const filling =
      (room: number) =>
      async (name: string): Promise<AppendFile> => {
        const real = await openAppend(name);
        let left = room;
        return {
          ...real,
          append: (bytes) => {
            if (left === 0) return Promise.reject(Object.assign(new Error("no space"), { code: "ENOSPC" }));
            const part = bytes.subarray(0, Math.min(left, 7));
            left -= part.length;
            return real.append(part);
          },
        };
      };
    await drive(csvLoggerOn(filling(1000), { path }), [0.5]);
    await expect(drive(csvLoggerOn(filling(20), { path }), [0.25])).rejects.toMatchObject({
      code: "disk",
      message: expect.stringMatching(/csvLogger: cannot write .*full\/log\.csv: the disk is full/),
    });
    expect(readFileSync(path, "utf8")).toBe(header + line(1, 0.5));
  });
});

describe("in a training", () => {
  test("values of the best epoch end up in the result and in the file; events by epoch", async () => {
    const path = join(folder, "best-{epoch:03d}-{val_loss:.1f}.safetensors");
    const found: number[] = [];
    const epochs: Callbacks = { onEpoch: ({ validation }) => void found.push(validation?.loss as number) };
    const given = { data: bars(60).shuffle().batch(16), evaluate: bars(30, { seed: 3 }), epochs: 3 };
    const plain = await train(options(given));
    const directory = join(folder, "events");
    const ready = [
      callbacks.earlyStopping({ monitor: "val_loss", mode: "max", patience: 9, restoreBest: true }),
      callbacks.modelCheckpoint({ path, mode: "max" }),
      callbacks.tensorBoard({ directory, updateFrequency: 1, histogramFrequency: 1 }),
    ];
    const result = await train(options({ ...given, callbacks: [epochs, ...ready] }));
    const losses = (records: readonly EpochRecord[]): number[] => records.map(({ loss }) => loss);
    expect(losses(result.history)).toEqual(losses(plain.history));
    const best = found.indexOf(Math.max(...found));
    expect((await result.evaluate(bars(30, { seed: 3 }))).loss).toBe(found[best]);
    const files = readdirSync(folder).filter((name) => name.startsWith("best"));
    expect(files.at(-1)).toBe(`best-00${best + 1}-${(found[best] as number).toFixed(1)}.safetensors`);
    const { tensors } = await readSafetensors(join(folder, files.at(-1) as string));
    const { params } = result as unknown as { params: { "1": { weight: { data(): Promise<Float32Array> } } } };
    expect(tensors.get("1.weight")?.data).toEqual(await params["1"].weight.data());
    expect(readdirSync(join(directory, "train"))).toHaveLength(1);
    expect(readdirSync(join(directory, "validation"))).toHaveLength(1);
  });

  test("events that are written again after a kill void what was written of them before", async () => {
    const directory = join(folder, "again");
    const checkpoint = { directory: join(folder, "again-kept"), every: 4 };
    const given = { data: bars(60).shuffle().batch(16), evaluate: bars(30, { seed: 3 }), epochs: 3, checkpoint };
    const board = () => callbacks.tensorBoard({ directory, updateFrequency: 1 });
    const stopped = {
      onStep: ({ step }: { step: number }) => {
        if (step === 8) throw new Error("killed");
      },
    };
    await expect(train(options({ ...given, callbacks: [board(), stopped] }))).rejects.toThrow("killed");
    await train(options({ ...given, resume: true, callbacks: [board()] }));
    const file = (part: string) =>
      readFileSync(join(directory, part, readdirSync(join(directory, part)).sort().at(-1) as string));
    const startOf = (step: number) =>
      Buffer.from(encodeEvent({ wallTime: 0, step, value: { kind: "start" } })).subarray(9);
    // A checkpoint is written after 4 steps, which are an epoch; both count from 1.
    expect(file("train").includes(startOf(5))).toBe(true);
    expect(file("validation").includes(startOf(2))).toBe(true);
  });

  test.each<[string, () => Callbacks, RegExp]>([
    [
      "a misspelt monitor",
      () => callbacks.earlyStopping({ monitor: "val_los" }),
      /monitor 'val_los'[\s\S]*it has loss, accuracy$/,
    ],
    ["a placeholder", () => callbacks.modelCheckpoint({ path: "x-{f1}" }), /path has \{f1\}, which is not a number/],
    [
      "no placeholder",
      () => callbacks.modelCheckpoint({ path: "x-{epoch:>5}" }),
      /path has the malformed placeholder \{epoch:>5\}[\s\S]*\{epoch:03d\}/,
    ],
    [
      "decimals of a count",
      () => callbacks.modelCheckpoint({ path: "x-{epoch:.2f}" }),
      /has the malformed placeholder/,
    ],
    [
      "a placeholder of a file",
      () => callbacks.csvLogger({ path: "l-{epoch}.csv" }),
      /path has \{epoch\}, which is not/,
    ],
    [
      "a placeholder of a folder",
      () => callbacks.tensorBoard({ directory: "{run:02d}" }),
      /has \{run:02d\}, which is not/,
    ],
    ["a mode", () => callbacks.reduceLROnPlateau({ mode: "up" as never }), /mode must be auto, min or max, got up/],
    ["a separator", () => callbacks.csvLogger({ path: "x", separator: "::" }), /separator must be one character/],
    [
      "a folder that is a file",
      () => callbacks.tensorBoard({ directory: "/dev/null", texts: { a: "b" } }),
      /tensorBoard: cannot write .*null\/train/,
    ],
  ])("%s is an error before the first step", async (_what, make, says) => {
    const none = async () => train(options({ callbacks: [make(), { onStep: () => expect.unreachable() }] }));
    await expect(none()).rejects.toThrow(says);
  });
});
