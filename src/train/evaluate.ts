/** @module Evaluation and prediction over a whole dataset. */

import { type Dataset, Dataset as DatasetClass } from "../data/browser.ts";
import { type GivenRecords, givenRows } from "../frames/given.ts";
import { distribute, isTensor, meshOf, type Tensor, tensor } from "../functions/index.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import { formatType, isTensorType, sameShape, sameType, type TensorType } from "../ir/shape.ts";
import type { OneOrMore } from "../nn/index.ts";
import { replicated } from "../plan/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { type FlatTree, flattenTree, treeKey, unflattenTree } from "../util/tree.ts";
import { gathered, namesIn, recordOf, seenTypes } from "./columns.ts";
import { batchLayout, type FedBatch } from "./feed.ts";
import { applied, columnNames } from "./functions.ts";
import { type Evaluation, type MetricSums, Tally } from "./history.ts";
import type { Settings } from "./options.ts";
import type { RunParts } from "./parts.ts";
import { attempt, refusedIn } from "./refused.ts";
import { InFlight } from "./steps-in-flight.ts";
import type { LookedBatch } from "./tables.ts";
import type { BatchOutcome, MetricSize, ModelTypes, TrainState } from "./values.ts";

/** The dataset in batches: of its own size, or of the size of `like`. */
export function batched(dataset: Dataset, like: Dataset): Dataset {
  return dataset.batchSize === undefined ? dataset.batch(like.batchSize as number) : dataset;
}

/** Sums of a batch's metrics with the number of values in them. */
export async function readMetrics(
  { metrics }: BatchOutcome,
  metricSizes: ModelTypes["metricSizes"],
  rows: number,
): Promise<Map<string, MetricSums>> {
  const sums = new Map<string, MetricSums>();
  for (const [name, tensor] of Object.entries(metrics)) {
    const { perExample } = metricSizes.get(name) as MetricSize;
    sums.set(name, { sums: Array.from(await tensor.data()), count: rows * perExample });
  }
  return sums;
}

/** Mean loss and metrics over every row of a dataset, the last short batch included. Every worker must call it. */
export async function evaluateDataset(
  parts: Pick<RunParts, "settings" | "types" | "programs" | "feed" | "signal" | "updates">,
  variables: Pick<TrainState, "params" | "state">,
  dataset: Dataset,
): Promise<Evaluation> {
  const { settings, types, programs, feed, signal } = parts;
  const tally = new Tally();
  const flight = new InFlight();
  try {
    for await (const batch of feed.batches(dataset, {
      columns: columnNames(settings, dataset),
      seed: settings.seed,
      signal,
    })) {
      await flight.room();
      const evaluated = { evaluation: batch.step + 1 };
      const refused = (error: unknown): unknown =>
        refusedIn(error, evaluated, batch, { ...settings, data: dataset, accumulate: 1 });
      const program = programs.evaluation(dataset, batch);
      const looked = { ...batch, dataset: dataset.ofLength(batch.length) };
      const { values, release } = await withRows(parts, variables, looked);
      const outcome = attempt(() => program.run({ ...values, batch: batch.columns }), refused);
      const sizes = programs.metricSizes(dataset, batch.length);
      const read = async (): Promise<void> =>
        tally.add(batch.rows, await outcome.loss.item(), await readMetrics(outcome, sizes, batch.rows));
      flight.add({
        settle: () =>
          read().catch((error: unknown) => {
            throw refused(error);
          }),
        release: () => {
          batch.release();
          release();
          for (const tensor of [outcome.loss, ...Object.values(outcome.metrics)]) tensor.dispose();
        },
      });
    }
    await flight.drain();
  } catch (error) {
    await flight.abandon(500);
    throw error;
  }
  return tally.means(types.metrics);
}

/** The model's outputs for every row of a dataset, in its order, on every worker. Every worker must call it. */
export async function predictDataset(
  parts: Pick<RunParts, "settings" | "programs" | "feed" | "updates">,
  variables: Pick<TrainState, "params" | "state">,
  dataset: Dataset,
): Promise<OneOrMore<Tensor>> {
  const { settings, programs, feed } = parts;
  if (dataset.batchForms.some(({ length }) => length !== undefined))
    throw new HeddleError("data", `predict: ${dataset.name} is batched by length, in another order than its rows`, {
      hint: "pass the dataset before batchByLength, or .batch(size)",
    });
  const flight = new InFlight();
  // For each output its values, batch by batch.
  const pieces: TypedArray[][] = [];
  let form: FlatTree<Tensor> | undefined;
  let rows = 0;
  for await (const batch of feed.batches(dataset, { columns: namesIn(settings.input), seed: settings.seed })) {
    await flight.room();
    const program = programs.prediction(dataset, batch.rows);
    const { values, release } = await withRows(parts, variables, { ...batch, dataset });
    const outputs = flattenTree(program.run({ ...values, batch: batch.columns }), isTensor);
    for (const output of outputs.leaves) checkRows(output, batch);
    form = outputs;
    rows += batch.rows;
    const read = (output: Tensor, index: number): Promise<void> =>
      output.data().then((data) => {
        pieces[index] ??= [];
        pieces[index].push(data);
      });
    flight.add({
      settle: () => Promise.all(outputs.leaves.map(read)).then(() => {}),
      release: () => {
        batch.release();
        release();
        for (const output of outputs.leaves) output.dispose();
      },
    });
  }
  await flight.drain();
  const { leaves, shape } = form as FlatTree<Tensor>;
  const joined = leaves.map((last, index) =>
    tensor(concatenated(settings.dtype, pieces[index] ?? []), {
      shape: [rows, ...last.shape.slice(1)],
      dtype: settings.dtype,
    }),
  );
  return unflattenTree(shape, joined) as OneOrMore<Tensor>;
}

/** @throws HeddleError `shape` unless an output has one row per row of the batch. */
function checkRows(output: Tensor, { rows, columns }: FedBatch): void {
  if (output.shape[0] === rows) return;
  const inputs = Object.values(columns).map(formatType).join(", ");
  throw new HeddleError("shape", `predict: the model makes ${formatType(output)} of ${inputs}, not a row for each`, {
    hint: "the first dim counts examples; for a single example it is 1",
  });
}

function concatenated(dtype: "f32" | "f64", parts: readonly TypedArray[]): TypedArray {
  const data = dtypes[dtype].create(parts.reduce((total, part) => total + part.length, 0));
  let start = 0;
  for (const part of parts) {
    data.set(part, start);
    start += part.length;
  }
  return data;
}

/** The outputs for a dataset or a batch, on the device of this process. */
export async function predictWith(
  parts: Pick<RunParts, "settings" | "programs" | "feed" | "runtime" | "updates">,
  values: Pick<TrainState, "params" | "state">,
  input: Dataset | OneOrMore<Tensor> | GivenRecords,
): Promise<OneOrMore<Tensor>> {
  const isRows = Array.isArray(input) || parts.settings.frame !== undefined;
  const rows = isRows ? givenRows("predict", input) : undefined;
  if (rows !== undefined) return predictBatch(parts, values, encodedRecords(parts.settings, rows));
  if (!(input instanceof DatasetClass)) return predictBatch(parts, values, input as OneOrMore<Tensor>);
  return predictDataset(parts, values, batched(input, parts.settings.data));
}

/** Records as the model's input. @throws HeddleError `argument` in a training without a frame */
function encodedRecords({ frame, input, data, dtype: floats }: Settings, rows: readonly object[]): OneOrMore<Tensor> {
  if (frame === undefined)
    throw new HeddleError("argument", "predict: takes records only where train was called with the option frame", {
      hint: "pass a tensor, or a dataset",
    });
  const types = seenTypes(input, data, rows.length, floats);
  return gathered(input, (name) => {
    const { data: values, shape, dtype } = frame.encode(name, rows);
    return tensor(values, { shape, dtype }).cast((recordOf(input, types)[name] as TensorType).dtype);
  });
}

/** The variables with the rows of tables that a batch looks up, where servers have tables. */
async function withRows(
  { updates }: Pick<RunParts, "updates">,
  variables: Pick<TrainState, "params" | "state">,
  batch: LookedBatch,
): Promise<{ readonly values: Pick<TrainState, "params" | "state">; release(): void }> {
  if (updates?.tables !== undefined) return updates.tables.forUse(variables, batch);
  return { values: { params: variables.params, state: variables.state }, release: () => {} };
}

async function predictBatch(
  parts: Pick<RunParts, "settings" | "programs" | "runtime" | "updates">,
  variables: Pick<TrainState, "params" | "state">,
  x: OneOrMore<Tensor>,
): Promise<OneOrMore<Tensor>> {
  const { settings, programs, runtime } = parts;
  const { data, input, dtype } = settings;
  const values = flattenTree(x, isTensor);
  const rows = values.leaves[0]?.shape[0] ?? 0;
  const expected = flattenTree(seenTypes(input, data, rows, dtype), isTensorType);
  if (treeKey(values.shape) !== treeKey(expected.shape)) {
    const wanted = typeof input === "string" ? "a tensor" : `a record of ${listed(expected.paths)}`;
    throw new HeddleError("argument", `predict: takes a dataset or ${wanted}, got ${shown(x)}`);
  }
  const here: Tensor[] = [];
  const mesh = meshOf(runtime);
  const layout = settings.pipeline === undefined ? replicated(mesh) : batchLayout(mesh, rows);
  for (const [index, type] of expected.leaves.entries()) {
    const leaf = values.leaves[index] as Tensor;
    const name = expected.paths[index] === "" ? "" : `${expected.paths[index]}: `;
    if (!sameType(type, leaf)) {
      const [, ...row] = type.shape;
      const isRow = sameShape(row, leaf.shape);
      throw new HeddleError(
        "shape",
        `predict: ${name}the model takes ${type.dtype}[${["batch", ...row]}], any number of rows, got ${formatType(leaf)}`,
        isRow ? { hint: "make a batch of the row: expandDims(x, 0)" } : {},
      );
    }
    here.push(distribute(runtime, await leaf.data(), type, layout));
  }
  const seen = unflattenTree(expected.shape, here) as OneOrMore<Tensor>;
  if (settings.pipeline !== undefined) {
    const { params, state } = variables;
    return programs.prediction(undefined, rows).run({ params, state, batch: recordOf(input, seen) });
  }
  const columns = recordOf(input, seen);
  const looked = await withRows(parts, variables, { dataset: undefined, rows, columns });
  return applied(settings, looked.values, seen, { train: false }).y;
}
