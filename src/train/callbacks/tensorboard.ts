/** @module Writes event files for TensorBoard. */
import { join } from "node:path";
import { isTensor, type Tensor, type Tensors } from "../../functions/index.ts";
import { checkInteger, checkOptions, checkPlace } from "../../util/options.ts";
import { flattenTree } from "../../util/tree.ts";
import type { Callbacks, EpochRecord, TrainControl } from "../history.ts";
import { wholeData } from "../state.ts";
import { appendWhole } from "./append.ts";
import { type EventValue, eventFilePath, eventRecord } from "./event-file.ts";

/** Options of {@link tensorBoard}. */
export interface TensorBoardOptions {
  /** The folder for `tensorboard --logdir`, with the subfolders `train` and `validation`. Default `"logs"`. */
  readonly directory?: string;
  /** `"epoch"` (default) writes after every epoch; a number also writes loss and learning rate each time after this number of steps. */
  readonly updateFrequency?: "epoch" | number;
  /** Number of epochs between two histograms of the parameters; default 0, which writes none. */
  readonly histogramFrequency?: number;
  /** Texts by name, in Markdown, such as a description of the run; written once. */
  readonly texts?: { readonly [name: string]: string };
}

/**
 * Writes the numbers of each epoch as events, on rank 0, with the tags of Keras' `TensorBoard`: `epoch_loss`, `epoch_accuracy`,
 * `epoch_learning_rate` by epoch, `batch_loss` and `batch_learning_rate` by step. A resumed run writes a new file, whose first event voids
 * the earlier events of the steps that are trained again.
 *
 * @throws HeddleError `option`; `file` in a browser; from the training `disk` or `file` if a file cannot be written
 */
export function tensorBoard(options: TensorBoardOptions = {}): Callbacks {
  const what = "tensorBoard";
  checkOptions(what, options, ["directory", "updateFrequency", "histogramFrequency", "texts"]);
  const { directory = "logs", updateFrequency = "epoch", histogramFrequency = 0, texts = {} } = options;
  checkPlace(what, "directory", directory, "folder");
  if (updateFrequency !== "epoch") checkInteger(what, "updateFrequency", updateFrequency, 1);
  checkInteger(what, "histogramFrequency", histogramFrequency, 0);
  let rank = 0;
  let train = new EventLog("");
  let validation = new EventLog("");
  const histograms = async ({ epoch }: EpochRecord, control: TrainControl): Promise<void> => {
    if (histogramFrequency === 0 || epoch % histogramFrequency !== 0) return;
    const snapshot = control.snapshot();
    try {
      for (const [tag, values] of await valuesOf(snapshot.params))
        if (rank === 0) train.add(epoch, { kind: "histogram", tag, values });
    } finally {
      snapshot.dispose();
    }
  };
  return {
    onBegin: async (start) => {
      ({ rank } = start);
      // The number of the first event that is repeated. Events by step have larger numbers than events by epoch.
      const [step, epoch] = start.resumed ? [start.steps + 1, start.epoch] : [];
      train = new EventLog(join(directory, "train"), updateFrequency === "epoch" ? epoch : step);
      validation = new EventLog(join(directory, "validation"), epoch);
      if (rank !== 0) return;
      for (const [tag, text] of Object.entries(texts)) train.add(start.epoch, { kind: "text", tag, text });
      await train.flush();
    },
    onStep: async ({ step, loss, learningRate, rejected }) => {
      if (rank !== 0 || updateFrequency === "epoch" || (step - 1) % updateFrequency !== 0) return;
      if (!rejected) train.add(step, { kind: "scalar", tag: "batch_loss", value: loss });
      train.add(step, { kind: "scalar", tag: "batch_learning_rate", value: learningRate });
      await train.flushSometimes();
    },
    onEpoch: async (record, control) => {
      await histograms(record, control);
      if (rank !== 0) return;
      const { epoch, loss, metrics, validation: held, learningRate } = record;
      train.scalars(epoch, { loss, ...metrics, learning_rate: learningRate });
      if (held !== undefined) validation.scalars(epoch, { loss: held.loss, ...held.metrics });
      await train.flush();
      await validation.flush();
    },
  };
}

async function valuesOf(params: Tensors): Promise<[string, ArrayLike<number>][]> {
  const { leaves, paths } = flattenTree(params, isTensor);
  const named: [string, ArrayLike<number>][] = [];
  for (const [index, path] of paths.entries()) named.push([path, await wholeData(leaves[index] as Tensor)]);
  return named;
}

const flushMilliseconds = 2000;

/** A file of events, created when the first events are written. */
class EventLog {
  private readonly folder: string;
  private path: string | undefined;
  private waiting: Uint8Array[] = [];
  private flushed = performance.now();
  private readonly restart: number | undefined;

  /** `restart` is the first step that is written again, in a resumed run. */
  constructor(folder: string, restart?: number) {
    this.folder = folder;
    this.restart = restart;
  }

  add(step: number, value: EventValue): void {
    this.waiting.push(eventRecord({ wallTime: Date.now() / 1000, step, value }));
  }

  /** Adds the numbers of an epoch. */
  scalars(epoch: number, values: { readonly [name: string]: number }): void {
    for (const [name, value] of Object.entries(values))
      this.add(epoch, { kind: "scalar", tag: `epoch_${name}`, value });
  }

  /** Writes events if the last write was some time ago: steps are often too short to write after each. */
  async flushSometimes(): Promise<void> {
    if (performance.now() - this.flushed > flushMilliseconds) await this.flush();
  }

  async flush(): Promise<void> {
    this.flushed = performance.now();
    if (this.waiting.length === 0) return;
    const records = this.waiting;
    this.waiting = [];
    const wallTime = Date.now() / 1000;
    if (this.path === undefined) {
      this.path = eventFilePath(this.folder, wallTime);
      if (this.restart !== undefined)
        records.unshift(eventRecord({ wallTime, step: this.restart, value: { kind: "start" } }));
      records.unshift(eventRecord({ wallTime, step: 0, value: { kind: "version" } }));
    }
    await appendWhole("tensorBoard", this.path, Buffer.concat(records));
  }
}
