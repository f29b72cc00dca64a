/**
 * @module The functions that training compiles: initial values, evaluation, prediction (a step is in `step.ts`). They are independent
 * of devices.
 */
import type { BatchForm, Column, Dataset } from "../data/browser.ts";
import { arange, evalShape, full, segmentSum, type Tensor, type Tensors } from "../functions/index.ts";
import type { DType } from "../ir/dtype.ts";
import { formatType, isTensorType, range, sizeOf, type TensorType } from "../ir/shape.ts";
import { isCounted, type Metrics } from "../metrics/index.ts";
import { withFloats } from "../nn/float-dtype.ts";
import { type ApplyOptions, applyLayer, type OneOrMore, scopeKey, type Variables } from "../nn/index.ts";
import { mostParts } from "../nn/parts.ts";
import { lookingAtTables, type ServedTable } from "../nn/tables.ts";
import { HeddleError, within } from "../util/errors.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import {
  type ColumnNames,
  gathered,
  mapValues,
  namesIn,
  rowsOf,
  seen,
  seenTypes,
  single,
  transformed,
} from "./columns.ts";
import { initialKept } from "./kept.ts";
import { batchLoss, type TermValue, termNames } from "./losses.ts";
import { defaultMetrics } from "./metrics.ts";
import type { Settings } from "./options.ts";
import { trainedNames, trainedPart } from "./trainable.ts";
import {
  type BatchColumns,
  type BatchOutcome,
  keyType,
  type MetricSize,
  type ModelTypes,
  type Trained,
  type TrainState,
  tablesState,
} from "./values.ts";

/** Shape and dtype of a stored column of a batch. */
export function columnType(column: Column, rows: number): TensorType {
  return { dtype: column.dtype, shape: [rows, ...column.shape.slice(1)] };
}

/** Types of the stored columns of a batch, by name. */
export function batchTypes(dataset: Dataset, names: readonly string[], rows: number): { [name: string]: TensorType } {
  return Object.fromEntries(names.map((name) => [name, columnType(dataset.columns.get(name) as Column, rows)]));
}

/** The columns that a run reads from a dataset, each once, with the weights if the dataset has them. */
export const columnNames = ({ input, target, weight }: Settings, dataset: Dataset): string[] => [
  ...new Set([
    ...namesIn(input),
    ...namesIn(target),
    ...(weight !== undefined && dataset.columns.has(weight) ? [weight] : []),
  ]),
];

/** The weights of a batch's rows, in the dtype of the run; undefined if the dataset has none. */
export function rowWeights({ weight, dtype }: Settings, dataset: Dataset, batch: BatchColumns): Tensor | undefined {
  if (weight === undefined || batch[weight] === undefined) return undefined;
  return transformed(batch[weight], dataset.columns.get(weight) as Column, dtype).cast(dtype);
}

/** The function that makes the initial values of parameters, optimizer and layers, and the key of the steps. */
export function initialiser(settings: Settings): (seedKey: Tensor) => TrainState & { readonly key: Tensor } {
  const { data, dtype, optimizer, input } = settings;
  const { rows, length } = data.batchForms[0] as BatchForm;
  const type = seenTypes(input, data.ofLength(length), rows, dtype) as TensorType;
  return (seedKey) => {
    const { params, state } = initialised(settings, scopeKey(seedKey, "init"), type);
    const trained = trainedPart(trainedNames(settings, params), params);
    const kept = initialKept(settings, optimizer.init(trained), params, trained, scopeKey(seedKey, "compression"));
    const layers = settings.tables === "absent" ? withoutTables(state) : state;
    return { params, state: layers, optimizer: kept, key: scopeKey(seedKey, "steps") };
  };
}

/** Fresh variables of the model, whose tables may be elsewhere. `made` is told of each window. */
export function initialised(
  { model, dtype, tables }: Settings,
  key: Tensor,
  type: TensorType,
  made: MadeTable = () => {},
): ReturnType<Settings["model"]["init"]> {
  const look = tables === "window" ? ({ kind: "window", made } as const) : tables && ({ kind: "absent" } as const);
  return lookingAtTables(look, () => withFloats(dtype, () => model.init(key, type)));
}

type MadeTable = (rows: Tensor, table: ServedTable, layer: object) => void;

/** The state of layers with the rows of tables, of which there are none yet. */
const withoutTables = (state: Tensors): Tensors => ({ ...state, [tablesState]: full([0], 0, { dtype: "u8" }) });

/**
 * Checks that the model fits the data, and finds the types of its variables.
 *
 * @throws HeddleError naming the layer that cannot take its input.
 */
export function modelTypes(settings: Settings): ModelTypes {
  const { data, dtype, input, target } = settings;
  const { rows, length } = data.batchForms[0] as BatchForm;
  const longest = data.ofLength(length);
  const type = (names: ColumnNames): TensorType => seenTypes(names, longest, rows, dtype) as TensorType;
  let output: OneOrMore<TensorType> | undefined;
  let trained: Trained;
  const { key, ...state } = evalShape((seedKey) => {
    const variables = initialised(settings, seedKey, type(input));
    ({ output } = variables);
    trained = trainedNames(settings, variables.params);
    return initialiser(settings)(seedKey);
  }, keyType);
  if (output === undefined) throw new HeddleError("shape", "train: the model's init gives no output");
  const [outputType, targetType] = [single(output), single(type(target))];
  const defaults = outputType === undefined || targetType === undefined ? {} : defaultMetrics(outputType, targetType);
  const metrics = settings.metrics ?? defaults;
  const outputAndTarget = flattenTree<TensorType>([output, type(target)], isTensorType);
  const metricSizes = Object.entries(metrics).map(([name, metric]): [string, MetricSize] => {
    const counts = isCounted(metric) ? metric.counts : metric;
    const values = within(`metric ${name}`, () =>
      evalShape(
        (...leaves) => {
          const [y, t] = unflattenTree(outputAndTarget.shape, leaves) as [Tensor, Tensor];
          return counts(y, t);
        },
        ...outputAndTarget.leaves,
      ),
    );
    const sums = isCounted(metric) ? values.shape.at(-1) : undefined;
    if (values.shape[0] === rows && (!isCounted(metric) || values.shape.length > 1))
      return [name, { perExample: sizeOf(values.shape) / rows, sums }];
    const wanted = isCounted(metric) ? "counts [batch, …, n]" : "one value per example";
    throw new HeddleError("shape", `train: metric ${name} gives ${formatType(values)}, not ${wanted}`);
  });
  const terms = termNames(settings.loss).map((name): [string, MetricSize] => [
    name,
    { perExample: 1, sums: undefined },
  ]);
  return { state, key, trained, metrics, metricSizes: new Map([...terms, ...metricSizes]) };
}

/** Applies the model in the precision of the run; the outputs are cast to the dtype of the run, in which losses and metrics compute. */
export function applied(
  { model, precision, dtype, tables }: Settings,
  variables: Variables,
  x: OneOrMore<Tensor>,
  options: ApplyOptions,
): { readonly y: OneOrMore<Tensor>; readonly state: Tensors } {
  const apply = () => applyLayer(model, variables, x as Tensor, { ...options, precision });
  const { y, state } = tables === undefined ? apply() : withFloats(dtype, apply);
  return { y: precision === undefined ? y : mapValues(y, (output) => output.cast(dtype)), state };
}

/**
 * Traces the model on the batches of an epoch that are shorter than the first, or of shorter sequences. So an error of a layer that needs
 * more rows (for statistics), or other lengths, comes before the first step.
 *
 * @throws HeddleError the error of the model, with a hint
 */
export function checkOtherBatches(settings: Settings, types: ModelTypes): void {
  if (settings.pipeline !== undefined) return;
  for (const form of settings.data.batchForms.slice(1)) checkBatch(settings, types, form);
}

function checkBatch(settings: Settings, { state }: ModelTypes, { rows, length }: BatchForm): void {
  const { data, input, dtype, accumulate } = settings;
  const variables = { params: state.params, state: state.state };
  const parts = mostParts(rows, accumulate);
  const x = seenTypes(input, data.ofLength(length), rows / parts, dtype);
  const { leaves, shape } = flattenTree<TensorType>({ variables, x }, isTensorType);
  try {
    evalShape(
      (key, ...values) => {
        const inputs = unflattenTree(shape, values) as { variables: Variables; x: OneOrMore<Tensor> };
        return applied(settings, inputs.variables, inputs.x, { train: true, key }).y;
      },
      keyType,
      ...leaves,
    );
  } catch (error) {
    if (!(error instanceof HeddleError) || error.hint !== undefined) throw error;
    const what = length === undefined ? "the last batch of an epoch has" : `batches of sequences up to ${length} have`;
    const which = `(${what} ${rows} of ${data.batchSizes[0]} rows${parts === 1 ? "" : `, taken in ${parts} parts`})`;
    throw new HeddleError(error.code, `${error.plain} ${which}`, {
      ...(error.where === undefined ? {} : { where: error.where }),
      hint:
        rows < (data.batchSizes[0] as number)
          ? "leave it out by dropRemainder: true, or take another batch size"
          : "the model must take sequences of every length in bounds",
      cause: error,
    });
  }
}

/** The inputs of an evaluation or a prediction. */
export type ForwardInput = Pick<TrainState, "params" | "state"> & { readonly batch: BatchColumns };

/** Loss and metrics of a batch, without dropout. */
export function evaluationFunction(settings: Settings, dataset: Dataset, metrics: Metrics) {
  const { loss, dtype, input, target } = settings;
  return function evaluate({ params, state, batch }: ForwardInput): BatchOutcome {
    const [x, t] = [seen(input, batch, dataset, dtype), seen(target, batch, dataset, dtype)];
    const { y } = applied(settings, { params, state }, x, { train: false });
    const { value, terms } = batchLoss(loss, y, t, { rows: rowWeights(settings, dataset, batch) });
    return { loss: value, metrics: { ...termSums(terms, rowsOf(x), dtype), ...sumsOf(metrics, y, t, dtype) } };
  };
}

/** The model's outputs for a batch of stored inputs, or without a dataset for a batch as the model gets it. */
export function predictionFunction(settings: Settings, dataset: Dataset | undefined) {
  const { dtype, input, pipeline } = settings;
  return function predict({ params, state, batch }: ForwardInput): OneOrMore<Tensor> {
    const x =
      dataset === undefined ? gathered(input, (name) => batch[name] as Tensor) : seen(input, batch, dataset, dtype);
    const { y } = applied(settings, { params, state }, x, { train: false });
    return pipeline === undefined ? y : mapValues(y, (output) => summedRows(output, rowsOf(batch)));
  };
}

/** The same rows as a sum over the batch, which a pipeline can return: micro-batches add their rows to zeros. */
function summedRows(output: Tensor, rows: number): Tensor {
  return output.shape[0] === rows ? segmentSum(output, arange(rows), rows) : output;
}

/** The losses of several outputs, which are means over `rows` rows, as sums like those of metrics. */
export const termSums = (terms: readonly TermValue[], rows: number, dtype: DType): { [name: string]: Tensor } =>
  Object.fromEntries(terms.map(({ name, value }) => [name, value.cast(dtype).mul(rows)]));

/** The sum of each metric over a batch. */
// In the run's dtype, not i32, so that one all-reduce carries the sums with loss and gradients. Integers are exact in f32
// up to 2^24, far beyond the size of a batch.
export function sumsOf(
  metrics: Metrics,
  output: OneOrMore<Tensor>,
  target: OneOrMore<Tensor>,
  dtype: DType,
): { [name: string]: Tensor } {
  const [y, t] = [output as Tensor, target as Tensor];
  return Object.fromEntries(
    Object.entries(metrics).map(([name, metric]) => {
      if (!isCounted(metric)) return [name, metric(y, t).cast(dtype).sum()];
      const counts = metric.counts(y, t).cast(dtype);
      return [name, counts.sum(range(counts.shape.length - 1))];
    }),
  );
}
