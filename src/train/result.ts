/** @module What `train` returns. */
import type { Dataset } from "../data/browser.ts";
import type { Tensor, Tensors } from "../functions/index.ts";
import type { SavedInput } from "../io/saved-model.ts";
import type { TensorType } from "../ir/shape.ts";
import type { Layer, OneOrMore } from "../nn/index.ts";
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
import type { TrainState } from "./values.ts";

/** A trained model, and how it came about. */
export interface TrainResult<Params = Tensors> {
  /**
   * The parameters, as a named tree: `result.params["0"].weight`. Those that `layout` or `pipeline` keep in parts are as they
   * were trained; `replicate(x)`, called on every worker, makes one whole.
   */
  readonly params: Params;
  /** Their moving average, with `ema`; undefined without. */
  readonly averaged: Params | undefined;
  /** What layers keep besides. */
  readonly state: Tensors;
  readonly optimizerState: Tensors;
  /** One record per epoch. */
  readonly history: readonly EpochRecord[];
  /** Optimizer steps taken. */
  readonly steps: number;
  /** Epochs gone through, those before `from` included. */
  readonly epochs: number;
  /** Accuracy on the `evaluate` dataset after the last epoch; undefined without one. */
  readonly accuracy: number | undefined;
  /** Path of the last checkpoint (safetensors); undefined on other workers than rank 0, and without `checkpoint`. */
  readonly checkpoint: string | undefined;
  /** This worker's number. */
  readonly rank: number;
  /** Mean loss and metrics over every row of a dataset. Every worker must call it. */
  evaluate(dataset: Dataset): Promise<Evaluation>;
  /**
   * The model's outputs, without dropout: for every row of a dataset in its order (every worker must call it), or for
   * a batch as the model sees it (floats, batch dim first; of several columns a record). A model of several outputs gives a record.
   * Where parameters are in parts, every worker must call either.
   */
  predict<Output extends OneOrMore<Tensor> = Tensor>(input: Dataset | OneOrMore<Tensor>): Promise<Output>;
  /**
   * Writes the model with its architecture and its variables (with `ema` the average of the parameters), on rank 0; every worker must
   * call it. `io.loadModel` reads it. Inputs are those that the model sees: what a column's `transform` does to stored values is not in
   * the file.
   *
   * @throws HeddleError `model` naming a layer that code of yours makes; `file` or `disk` when it cannot be written
   */
  save(path: string): Promise<void>;
  /** Prints a line on rank 0 only. */
  print(text: string): void;
}

/** What the model of a training takes. */
const savedInput = ({ data, input, dtype }: Settings): SavedInput => ({
  // A model of several columns has code of the user's, which no file holds.
  input: seenTypes(input, data, 1, dtype) as TensorType,
  dtype,
});

/** The result of a run that has ended. */
export function resultOf(run: Run, parts: RunParts): TrainResult {
  const { settings, runtime } = parts;
  const { values, position } = run;
  const evaluated = run.evaluated();
  const last = position.history.at(-1)?.validation;
  // The signal that ended or could have ended the training says nothing of what comes after it.
  const later = { ...parts, signal: new AbortController().signal };
  // Of a pipeline's values, wherever they are; asked for once.
  let everywhere: TrainState | undefined;
  const whole = (): TrainState => {
    everywhere ??= wholeState(evaluated);
    return everywhere;
  };
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
    evaluate: (dataset) => called(async () => evaluateDataset(later, evaluated, batched(dataset, settings.data))),
    predict: (input) => called(async () => (await predictWith(later, whole(), input)) as never),
    save: (path) =>
      called(async () => {
        const { files } = host;
        if (files === undefined) throw noFiles("save writes a file");
        const metadata = files.modelMetadata("save", settings.model as Layer, savedInput(settings));
        const tensors = await exportWeights(whole());
        if (runtime.rank === 0) await files.writeTensors("save", path, tensors, metadata);
      }),
    print: (text) => {
      if (runtime.rank === 0) console.log(text);
    },
  };
}
