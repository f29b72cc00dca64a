/** @module A model that is compiled, fitted, evaluated and used for predictions, and keeps its values in between. */

import { columnDType, Dataset } from "../../data/index.ts";
import { called, checkOptions, HeddleError, shown, toldBy, workerRank } from "../../extend/index.ts";
import type { Tensor, Tensors } from "../../functions/index.ts";
import {
  type HostTensors,
  type LoadedModel,
  loadModel as loadedModel,
  loadVariables,
  modelMetadata,
  readSafetensors,
  type SafetensorsMetadata,
  saveSafetensors,
} from "../../io/index.ts";
import { isFloat, sameType, type TensorType } from "../../ir/index.ts";
import type { Loss } from "../../losses/index.ts";
import { activation, type Layer, type LayerLike, summary } from "../../nn/index.ts";
import type { Optimizer } from "../../optim/index.ts";
import {
  type Callbacks,
  type Evaluation,
  exportWeights,
  prepare,
  type StartValues,
  type TrainControl,
  type TrainOptions,
  type TrainResult,
  train,
} from "../../train/index.ts";
import { checkClasses, datasetOf, inBatches, type Rows, splitOff, validationOf } from "./inputs.ts";
import { type KnownLoss, lossOf } from "./losses.ts";
import { metricsOf } from "./metrics.ts";
import { optimizerOf } from "./optimizers.ts";
import {
  type CompileOptions,
  compileOptions,
  type EvaluateOptions,
  type FitOptions,
  fitOptions,
  type Gradients,
  type ModelOptions,
  modelOptions,
  type PredictOptions,
} from "./options.ts";
import { type History, historyOf, toldOf } from "./told.ts";
import { checkInput } from "./weights.ts";

interface Compiled extends Gradients {
  readonly optimizer: Optimizer;
  readonly loss: Loss;
  readonly metrics: NonNullable<TrainOptions["metrics"]>;
}

/** The column of a dataset with the weights of examples. */
const weightColumn = "weight";

/**
 * A model in Keras' manner, around a layer. Columns of datasets are `x`, `y` and, where examples have weights, `weight`.
 *
 * Under `heddle run --workers n` every worker makes the same calls; each computes its part of every batch, and all have the same
 * values.
 */
export class Model {
  /** The layer of the model. */
  readonly layer: Layer;
  private readonly options: ModelOptions;
  private compiled: Compiled | undefined;
  /** Whether the loss takes classes by number. */
  private classes: KnownLoss["classes"];
  /** Values that the next training begins with; undefined: the layer's own. */
  private values: StartValues | undefined;
  /** The result that evaluates and predicts with those values; `scores` says whether it has a loss. */
  private session: { readonly result: TrainResult; readonly scores: boolean } | undefined;
  /** Weights of a file, until the shape of the input is known. */
  private pending: { readonly tensors: HostTensors; readonly path: string } | undefined;
  private input: TensorType | undefined;
  private fitting = false;
  private live: TrainControl | undefined;

  /** Use {@link model}. */
  constructor(layer: LayerLike, options: ModelOptions = {}) {
    checkOptions("model", options, modelOptions);
    this.layer = typeof layer === "function" ? activation(layer) : layer;
    if (typeof this.layer?.init !== "function" || typeof this.layer.apply !== "function")
      throw new HeddleError("option", `model: takes a layer, such as nn.sequential(…), got ${shown(layer)}`);
    this.options = options;
    const { inputShape, dtype = "f32", precision } = options;
    if (precision !== undefined && !["bf16", "f16"].includes(precision))
      throw new HeddleError("option", `model: precision must be bf16 or f16, got ${precision}`);
    if (inputShape !== undefined) this.input = { shape: [1, ...inputShape], dtype };
  }

  /**
   * Sets how the model is trained. A model that is compiled again keeps its weights and begins with a fresh optimizer.
   *
   * @throws HeddleError `option`, with the nearest name for a misspelt one
   */
  compile(options: CompileOptions): void {
    checkOptions("compile", options, compileOptions);
    if (this.fitting) throw busy("compile");
    const { optimizer, loss, metrics = [], ...gradients } = options;
    const known = lossOf(loss);
    this.compiled = {
      ...gradients,
      optimizer: optimizerOf(optimizer),
      loss: known.loss,
      metrics: metricsOf(metrics, known.outputs),
    };
    this.classes = known.classes;
    if (this.values !== undefined) this.values = withoutOptimizer(this.values);
    this.session = undefined;
  }

  /**
   * Trains, and goes on from where the last `fit` ended: weights, optimizer state, steps and orders. When it fails or is aborted, the
   * model is as it was before.
   *
   * @param x rows, or a dataset with the columns `x` and `y`
   * @param y a target per row; not with a dataset
   * @throws HeddleError `option`, `shape`, `dtype` or `data` before anything is computed; `busy` while it is being fitted; else as `train`
   */
  fit(x: Rows, y: Rows, options?: FitOptions): Promise<History>;
  fit(dataset: Dataset, options?: FitOptions): Promise<History>;
  fit(first: Rows | Dataset, second?: Rows | FitOptions, third?: FitOptions): Promise<History> {
    return called(async () => {
      const compiled = this.ready("fit");
      if (this.fitting) throw busy("fit");
      const isDataset = first instanceof Dataset;
      const options = (isDataset ? (second as FitOptions | undefined) : third) ?? {};
      checkOptions("fit", options, fitOptions);
      this.fitting = true;
      try {
        const y = isDataset ? undefined : (second as Rows);
        const { data, evaluate } = await this.data(first, y, options);
        await checkClasses("fit", data, this.classes);
        if (evaluate !== undefined) await checkClasses("fit: validationData", evaluate, this.classes);
        const result = await toldOf("fit", () => this.train(compiled, options, data, evaluate));
        this.keep(result, true);
        return historyOf(result.history);
      } finally {
        this.fitting = false;
        this.live = undefined;
      }
    });
  }

  private async data(
    x: Rows | Dataset,
    y: Rows | undefined,
    { validationData, validationSplit, shuffle = true, sampleWeight, batchSize }: FitOptions,
  ): Promise<{ data: Dataset; evaluate: Dataset | undefined }> {
    const isDataset = x instanceof Dataset;
    if (isDataset && sampleWeight !== undefined)
      throw new HeddleError("option", `fit: weights of a dataset are its column "${weightColumn}"`);
    if (!isDataset && y === undefined) throw new HeddleError("argument", "fit: takes x and y, or a dataset");
    let data = isDataset ? x : await datasetOf("fit", { x, y, [weightColumn]: sampleWeight });
    let evaluate = validationData === undefined ? undefined : await validationOf(validationData);
    if (validationSplit !== undefined) {
      if (evaluate !== undefined)
        throw new HeddleError("option", "fit: validationData and validationSplit are both given");
      if (data.batchSize !== undefined)
        throw new HeddleError("option", "fit: validationSplit of a dataset that is in batches already", {
          hint: "give it before batch(), and batchSize to fit",
        });
      if (data.reshuffles)
        throw new HeddleError("option", "fit: validationSplit of a dataset that is shuffled anew in each epoch", {
          hint: "give it before shuffle(), or validationData of other rows",
        });
      [data, evaluate] = splitOff(data, validationSplit);
    }
    if (!isDataset && shuffle) data = data.shuffle();
    return { data: inBatches("fit", data, batchSize), evaluate };
  }

  private async train(
    compiled: Compiled,
    options: FitOptions,
    data: Dataset,
    evaluate: Dataset | undefined,
  ): Promise<TrainResult> {
    const { callbacks = [], epochs = 1, verbose = 1, batchSize: _b, shuffle: _s, sampleWeight: _w, ...more } = options;
    const { validationData: _d, validationSplit: _v, ...running } = more;
    const mine: Callbacks = {
      onBegin: (_start, control) => {
        this.live = control;
      },
    };
    return train({
      ...(await this.common(compiled, data)),
      ...running,
      epochs,
      report: (["silent", "auto", "lines"] as const)[verbose] ?? "auto",
      callbacks: [mine, ...(Array.isArray(callbacks) ? callbacks : [callbacks as Callbacks])],
      ...(evaluate === undefined ? {} : { evaluate }),
    });
  }

  /** The options of a training or a session on these data. */
  private async common(compiled: Compiled, data: Dataset): Promise<Omit<TrainOptions, "epochs">> {
    const { inputShape: _shape, ...options } = this.options;
    await this.see(data);
    return {
      ...options,
      ...compiled,
      model: this.layer,
      data,
      ...(data.columns.has(weightColumn) ? { weight: weightColumn } : {}),
      ...(this.values === undefined ? {} : { from: this.values }),
    };
  }

  /** Takes the type of the input from the data, and puts weights that were read from a file in place. */
  private async see(data: Dataset): Promise<void> {
    const column = data.columns.get("x");
    if (column === undefined) return;
    const { dtype = "f32" } = this.options;
    const stored = columnDType(column);
    const input = { shape: [1, ...column.shape.slice(1)], dtype: isFloat(stored) ? dtype : stored };
    if (this.input !== undefined && this.values !== undefined && !sameType(this.input, input))
      checkInput(this.layer, this.values.params, this.input, input);
    this.input = input;
    await this.place();
  }

  private async place(): Promise<void> {
    if (this.pending === undefined || this.input === undefined) return;
    const { tensors, path } = this.pending;
    const { dtype = "f32" } = this.options;
    const read = loadVariables(tensors, this.layer, { input: this.input, dtype, cast: false });
    this.values = await read.catch((error: unknown) => {
      throw toldBy(path, error);
    });
    this.pending = undefined;
  }

  private keep(result: TrainResult, scores: boolean): void {
    const { params, state, optimizerState, steps, epochs } = result;
    this.values = { params, state, optimizerState, steps, epochs };
    this.session = { result, scores };
  }

  /**
   * The mean loss and the metrics over all rows, by name. While the model is being fitted they are of its values after
   * the last launched step; with several workers, all workers must await the call in a callback.
   *
   * @throws HeddleError as {@link Model.fit}
   */
  evaluate(x: Rows, y: Rows, options?: EvaluateOptions): Promise<{ readonly [name: string]: number }>;
  evaluate(dataset: Dataset, options?: EvaluateOptions): Promise<{ readonly [name: string]: number }>;
  evaluate(
    first: Rows | Dataset,
    second?: Rows | EvaluateOptions,
    third?: EvaluateOptions,
  ): Promise<{ readonly [name: string]: number }> {
    return called(async () => {
      const compiled = this.ready("evaluate");
      const isDataset = first instanceof Dataset;
      const options = (isDataset ? (second as EvaluateOptions | undefined) : third) ?? {};
      checkOptions("evaluate", options, ["batchSize", "sampleWeight"]);
      const { batchSize, sampleWeight } = options;
      const rows = isDataset
        ? first
        : await datasetOf("evaluate", { x: first, y: second as Rows, [weightColumn]: sampleWeight });
      await checkClasses("evaluate", rows, this.classes);
      const data = inBatches("evaluate", rows, batchSize);
      const { loss, metrics } = await toldOf("evaluate", () =>
        this.beside<Evaluation>(
          (snapshot) => snapshot.evaluate(data),
          async () => (await this.opened(data, compiled)).evaluate(data),
        ),
      );
      return { loss, ...metrics };
    });
  }

  /**
   * The outputs for all rows, without dropout, in their order. While the model is being fitted they are of the same
   * values as those of {@link Model.evaluate}.
   *
   * @throws HeddleError `shape` or `dtype` when the rows do not fit the model
   */
  predict(x: Rows | Dataset, options: PredictOptions = {}): Promise<Tensor> {
    return called(async () => {
      checkOptions("predict", options, ["batchSize"]);
      const rows = x instanceof Dataset ? x : await datasetOf("predict", { x });
      const data = inBatches("predict", rows, options.batchSize);
      return toldOf("predict", () =>
        this.beside(
          (snapshot) => snapshot.predict(data),
          async () => (await this.opened(data, undefined)).predict(data),
        ),
      );
    });
  }

  /** Works on a copy while the model is being fitted, else on its values. */
  private async beside<Result>(
    copied: (snapshot: ReturnType<TrainControl["snapshot"]>) => Promise<Result>,
    alone: () => Promise<Result>,
  ): Promise<Result> {
    if (this.live === undefined) {
      if (this.fitting) throw busy("evaluate and predict", "wait until its first step");
      return alone();
    }
    const snapshot = this.live.snapshot();
    try {
      return await copied(snapshot);
    } finally {
      snapshot.dispose();
    }
  }

  /** The session that evaluates and predicts with the model's values; makes one where there is none. */
  private async opened(data: Dataset, compiled: Compiled | undefined): Promise<TrainResult> {
    if (this.session !== undefined && (this.session.scores || compiled === undefined) && this.pending === undefined)
      return this.session.result;
    const unscored = { optimizer: optimizerOf("sgd"), loss: (y: Tensor) => y.mean(), metrics: {} };
    const known = compiled ?? this.compiled;
    // A loss may need a target that the rows of a prediction do not have.
    const scores = known !== undefined && data.columns.has("y");
    const options = await this.common(scores ? known : { ...unscored, ...optimizerOnly(known) }, data);
    const result = await prepare({ ...options, ...(scores ? {} : { target: "x" }) });
    this.keep(result, scores);
    return result;
  }

  /**
   * Shows a table of the layers, on rank 0.
   *
   * @param options `print`: default the console
   * @throws HeddleError `build` while the shape of the input is not known
   */
  summary(options: { readonly print?: (text: string) => void } = {}): void {
    checkOptions("summary", options, ["print"]);
    if (this.input === undefined)
      throw new HeddleError("build", "summary: the shape of the input is not known yet", {
        hint: "give model(…) the option inputShape, the shape of one example, or fit it first",
      });
    if (workerRank() !== 0) return;
    const { print = console.log } = options;
    const table = summary(this.layer, this.input, { dtype: this.options.dtype ?? "f32" });
    for (const line of table.split("\n")) print(line);
  }

  /** The parameters, as a named tree; undefined before the first `fit`, `evaluate` or `predict`. */
  get params(): Tensors | undefined {
    return this.values?.params;
  }

  /**
   * Writes parameters (with `ema` their average) and layer state as safetensors, by PyTorch's names, on rank 0; while the model is being
   * fitted, as they are after the last step launched. (The option `checkpoint` of `fit` writes all that a training needs to go on.)
   *
   * @throws HeddleError `build` when the model has no values yet; `disk` or `file` when the file cannot be written
   */
  saveWeights(path: string): Promise<void> {
    return called(() => this.write("saveWeights", path, () => new Map()));
  }

  /**
   * Writes the model with its architecture: layers, parameters (with `ema` their average) and layer state, on rank 0. {@link loadModel}
   * reads it, without the code that made the model; how it is compiled is not in the file.
   *
   * @throws HeddleError `model` naming a layer that code of yours makes; `build` when the model has no values yet; `disk` or `file` when
   * the file cannot be written
   */
  save(path: string): Promise<void> {
    const { dtype = "f32" } = this.options;
    return called(() =>
      this.write("save", path, () => modelMetadata("save", this.layer, { input: this.input as TensorType, dtype })),
    );
  }

  private async write(what: string, path: string, metadata: () => SafetensorsMetadata): Promise<void> {
    const snapshot = this.live?.snapshot();
    try {
      const { averaged } = snapshot ?? this.session?.result ?? {};
      const { params = undefined, state = {} } = snapshot ?? this.values ?? {};
      if (params === undefined)
        throw new HeddleError("build", `${what}: the model has no weights yet`, {
          hint: "fit, evaluate or predict first",
        });
      const more = { metadata: metadata() };
      const tensors = await exportWeights({ params: averaged ?? params, state });
      if (workerRank() === 0) await saveSafetensors(path, tensors, more);
    } catch (error) {
      throw toldBy(what, error);
    } finally {
      snapshot?.dispose();
    }
  }

  /** Use {@link loadModel}. */
  static ofFile({ layer, params, state, input, dtype }: LoadedModel): Model {
    const loaded = new Model(layer, { dtype });
    loaded.values = { params, state };
    loaded.input = input;
    return loaded;
  }

  /**
   * Reads what {@link Model.saveWeights} or `modelCheckpoint` wrote, or PyTorch with the same names. The optimizer begins afresh.
   *
   * @throws HeddleError `model` when the file is of another model (at the next call, while the shape of the input is not known)
   */
  loadWeights(path: string): Promise<void> {
    return called(async () => {
      if (this.fitting) throw busy("loadWeights");
      const { tensors } = await readSafetensors(path).catch((error: unknown) => {
        throw toldBy("loadWeights", error);
      });
      this.pending = { tensors, path };
      this.session = undefined;
      await this.place();
    });
  }

  private ready(what: string): Compiled {
    if (this.compiled !== undefined) return this.compiled;
    throw new HeddleError("build", `${what}: the model is not compiled`, {
      hint: 'call model.compile({ optimizer: "adam", loss: … }) first',
    });
  }
}

/** A model in Keras' manner: {@link Model}. */
export const model = (layer: LayerLike, options: ModelOptions = {}): Model => new Model(layer, options);

/**
 * A model from a file that `save`, `result.save` of `train` or `io.saveModel` wrote: it predicts at once, and is trained further once it
 * is compiled.
 *
 * @throws HeddleError as `io.loadModel`
 */
export const loadModel = (path: string): Promise<Model> => called(async () => Model.ofFile(await loadedModel(path)));

const busy = (what: string, hint = "await the fit under way"): HeddleError =>
  new HeddleError("busy", `${what}: the model is being fitted`, { hint });

const withoutOptimizer = ({ params, state, epochs }: StartValues): StartValues => ({
  params,
  ...(state === undefined ? {} : { state }),
  ...(epochs === undefined ? {} : { epochs }),
});

/** The options that shape the state of the optimizer, which a session without a loss needs, too. */
function optimizerOnly(compiled: Compiled | undefined): Partial<Compiled> {
  if (compiled === undefined) return {};
  const { loss: _loss, metrics: _metrics, ...more } = compiled;
  return more;
}
