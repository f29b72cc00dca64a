/** @module Evaluation and prediction over a whole dataset. */
import { type Column, type Dataset, Dataset as DatasetClass } from "../data/index.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { formatType, sameType } from "../ir/shape.ts";
import { replicated } from "../plan/index.ts";
import { distribute, isTensor, meshOf, type Tensor, tensor } from "../tensor/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { InFlight } from "./flight.ts";
import {
  applied,
  type BatchOutcome,
  columnNames,
  type MetricSize,
  type ModelTypes,
  seenType,
  type TrainState,
} from "./functions.ts";
import { type Evaluation, type MetricSums, Tally } from "./history.ts";
import { attempt, refusedIn } from "./refused.ts";
import type { RunParts } from "./run.ts";

/** The dataset in batches: its own, or those of the training's size. */
export function batched(dataset: Dataset, like: Dataset): Dataset {
  return dataset.batchSize === undefined ? dataset.batch(like.batchSize as number) : dataset;
}

/** Sums of a batch's metrics with the number of values in them. */
export async function readMetrics(
  { metrics }: BatchOutcome,
  { metricSizes }: ModelTypes,
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
  parts: Pick<RunParts, "settings" | "types" | "programs" | "feed" | "signal">,
  { params, state }: Pick<TrainState, "params" | "state">,
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
      const place = `batch ${batch.step + 1} of the evaluation`;
      const refused = (error: unknown): unknown =>
        refusedIn(error, place, batch, { ...settings, data: dataset, accumulate: 1 });
      const program = programs.evaluation(dataset, batch.rows);
      const outcome = attempt(() => program.run(params, state, batch.columns), refused);
      const read = async (): Promise<void> =>
        tally.add(batch.rows, await outcome.loss.item(), await readMetrics(outcome, types, batch.rows));
      flight.add({
        settle: () =>
          read().catch((error: unknown) => {
            throw refused(error);
          }),
        release: () => {
          batch.release();
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
  parts: Pick<RunParts, "settings" | "programs" | "feed">,
  { params, state }: Pick<TrainState, "params" | "state">,
  dataset: Dataset,
): Promise<HostTensor> {
  const { settings, programs, feed } = parts;
  const flight = new InFlight();
  const outputs: TypedArray[] = [];
  let shape: readonly number[] = [];
  let rows = 0;
  for await (const batch of feed.batches(dataset, { columns: [settings.input], seed: settings.seed })) {
    await flight.room();
    const output = programs.prediction(dataset, batch.rows).run(params, state, batch.columns);
    if (output.shape[0] !== batch.rows) {
      const given = formatType(batch.columns[settings.input] as Tensor);
      throw new HeddleError("shape", `predict: the model makes ${formatType(output)} of ${given}, not a row for each`, {
        hint: "the first dim counts examples: of a single one it is 1",
      });
    }
    shape = output.shape;
    rows += batch.rows;
    flight.add({
      settle: async () => void outputs.push(await output.data()),
      release: () => {
        batch.release();
        output.dispose();
      },
    });
  }
  await flight.drain();
  const data = dtypes[settings.dtype].create(outputs.reduce((total, part) => total + part.length, 0));
  let start = 0;
  for (const part of outputs) {
    data.set(part, start);
    start += part.length;
  }
  return { shape: [rows, ...shape.slice(1)], dtype: settings.dtype, data };
}

/** The outputs for a dataset or a batch, as a tensor of this process's own device. */
export async function predictWith(
  parts: Pick<RunParts, "settings" | "programs" | "feed" | "runtime">,
  values: Pick<TrainState, "params" | "state">,
  input: Dataset | Tensor,
): Promise<Tensor> {
  if (!(input instanceof DatasetClass)) return predictBatch(parts, values, input);
  const { data, shape, dtype } = await predictDataset(parts, values, batched(input, parts.settings.data));
  return tensor(data, { shape, dtype });
}

async function predictBatch(
  { settings, runtime }: Pick<RunParts, "settings" | "runtime">,
  values: Pick<TrainState, "params" | "state">,
  x: Tensor,
): Promise<Tensor> {
  const { data, input, dtype } = settings;
  if (!isTensor(x)) throw new HeddleError("argument", `predict: takes a dataset or a tensor, got ${shown(x)}`);
  const expected = seenType(data.columns.get(input) as Column, x.shape[0] ?? 0, dtype);
  if (!sameType(expected, x)) {
    throw new HeddleError("shape", `predict: the model takes ${formatType(expected)}, got ${formatType(x)}`);
  }
  const here = distribute(runtime, await x.data(), expected, replicated(meshOf(runtime)));
  return applied(settings, { params: values.params, state: values.state }, here, { train: false }).y;
}
