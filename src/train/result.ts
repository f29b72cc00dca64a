/** @module The result of `train`. */
import type { Dataset } from "../data/browser.ts";
import type { GivenRecords } from "../frames/given.ts";
import type { Tensor, Tensors } from "../functions/index.ts";
import type { SavedInput } from "../io/saved-model.ts";
import type { TensorType } from "../ir/shape.ts";
import type { Layer, OneOrMore } from "../nn/index.ts";
import { trafficOf } from "../plan/index.ts";
import { HeddleError } from "../util/errors.ts";
import { called } from "../util/source.ts";
import { seenTypes } from "./columns.ts";
import { batched, evaluateDataset, predictWith } from "./evaluate.ts";
import { exportWeights } from "./export-weights.ts";
import type { EpochRecord, Evaluation } from "./history.ts";
import { host } from "./host.ts";
import { noFiles } from "./no-files.ts";
import type { Settings } from "./options.ts";
import type { RunParts } from "./parts.ts";
import { wholeState } from "./pipeline.ts";
import type { Run } from "./run.ts";

/** A trained model and the history of its training. */
export interface TrainResult<Params = Tensors> {
  /**
   * The parameters, as a named tree: `result.params["0"].weight`. Parameters that `layout` or `pipeline` shards stay sharded;
   * `replicate(x)`, called on every worker, gathers one.
   */
  readonly params: Params;
  /** The moving average of the parameters; undefined without the option `ema`. */
  readonly averaged: Params | undefined;
  /** State of layers, such as running means. */
  readonly state: Tensors;
  readonly optimizerState: Tensors;
  /** One record per epoch. */
  readonly history: readonly EpochRecord[];
  /** Number of optimizer steps. */
  readonly steps: number;
  /** Number of epochs, including those of `from`. */
  readonly epochs: number;
  /** Accuracy on the dataset `evaluate` after the last epoch; undefined without this dataset. */
  readonly accuracy: number | undefined;
  /** Path of the last checkpoint; undefined without the option `checkpoint`, and for one file on workers other than rank 0. */
  readonly checkpoint: string | undefined;
  /** This worker's number. */
  readonly rank: number;
  /** Bytes that the first device sends in a step of a whole batch, by the plan; with `compression`, after its warm-up. */
  readonly sentBytes: number;
  /** Mean loss and metrics over every row of a dataset. Every worker must call this function. */
  evaluate(dataset: Dataset): Promise<Evaluation>;
  /**
   * The model's outputs, without dropout: for every row of a dataset in order (every worker must call this function), or for
   * a batch as the model gets it (floats, batch dim first; a record if there are several columns), or for a list of records or one record, which
   * the option `frame` encodes. A model with several outputs gives a record. If parameters are sharded, every worker must call this function for a batch, too.
   */
  predict<Output extends OneOrMore<Tensor> = Tensor>(
    input: Dataset | OneOrMore<Tensor> | GivenRecords,
  ): Promise<Output>;
  /**
   * Writes the model with its architecture and its variables (with `ema` the average of the parameters), on rank 0; every worker must
   * call this function. `io.loadModel` reads the file. The file does not contain the `transform` of columns: a loaded model takes
   * transformed inputs.
   *
   * @throws HeddleError `model` naming a layer that is not of `nn`; `file` or `disk` if the file cannot be written
   */
  save(path: string): Promise<void>;
  /** Prints a line on rank 0 only. */
  print(text: string): void;
}

/** The input type of the model, for a saved file. */
const savedInput = ({ data, input, dtype, frame }: Settings): SavedInput => ({
  // A model of several columns is the user's code, which cannot be saved: `modelMetadata` refuses it.
  input: seenTypes(input, data, 1, dtype) as TensorType,
  dtype,
  ...(frame === undefined ? {} : { frame: { frame, input: input as string } }),
});

/** The result of an ended run. */
export function resultOf(run: Run, parts: RunParts): TrainResult {
  const { settings, runtime } = parts;
  const { values, position } = run;
  const evaluated = run.evaluated();
  const last = position.history.at(-1)?.validation;
  // The signal of the training does not apply to later evaluations.
  const later = { ...parts, signal: new AbortController().signal };
  return {
    params: values.params,
    averaged: settings.ema === undefined ? undefined : evaluated.params,
    state: values.state,
    optimizerState: values.optimizer,
    history: position.history,
    steps: position.steps,
    epochs: position.epoch + position.orderOffset,
    accuracy: last?.metrics["accuracy"],
    checkpoint: parts.saver?.path,
    rank: runtime.rank,
    get sentBytes() {
      const { plan } = parts.programs.step();
      const { sent: exchanged = 0 } = parts.updates ?? {};
      return Math.ceil(trafficOf(plan).reduce((sum, { sent }) => sum + sent, exchanged));
    },
    evaluate: (dataset) => called(async () => evaluateDataset(later, evaluated, batched(dataset, settings.data))),
    predict: (input) => called(async () => (await predictWith(later, evaluated, input)) as never),
    save: (path) =>
      called(async () => {
        const { files } = host;
        if (files === undefined) throw noFiles("save writes a file");
        if (settings.tables !== undefined)
          throw new HeddleError("model", "save: a model whose tables were on servers has no file of its own", {
            hint: "the option checkpoint writes its rows; a training on servers goes on from them",
          });
        const metadata = files.modelMetadata("save", settings.model as Layer, savedInput(settings));
        const tensors = await exportWeights(wholeState(evaluated));
        if (runtime.rank === 0) await files.writeTensors("save", path, tensors, metadata);
      }),
    print: (text) => {
      if (runtime.rank === 0) console.log(text);
    },
  };
}
