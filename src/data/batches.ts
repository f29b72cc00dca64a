/** @module The batches of an epoch as tensors, for your own training loop. */
import { type Tensor, tensor } from "../functions/index.ts";
import { checkOptions } from "../util/options.ts";
import type { Column } from "./column.ts";
import type { Dataset } from "./dataset.ts";
import { type HostRows, hostGather } from "./gather.ts";
import { loader } from "./loader.ts";

/** Options of {@link batches}. */
export interface BatchesOptions {
  /** The epoch whose order is used, counted from 0; default 0. */
  readonly epoch?: number;
  /** The run's seed, for a shuffle that has none of its own; default 0. */
  readonly seed?: number;
}

/**
 * The batches of one epoch, each a record of its columns as tensors with the column's transform applied: the pixels of
 * `data.mnist` are f32 in [0, 1], its labels i32. Every process gets whole batches; only `train` splits them over workers.
 *
 * @example for await (const { x, y } of data.batches(data.mnist("train").shuffle().batch(128), { epoch })) …
 * @throws HeddleError `data` when the dataset is not batched.
 */
export async function* batches<Name extends string = "x" | "y">(
  dataset: Dataset,
  options: BatchesOptions = {},
): AsyncGenerator<Record<Name, Tensor>, void, undefined> {
  checkOptions("batches", options, ["epoch", "seed"]);
  for await (const { columns } of loader(dataset, { ...options, gather: hostGather })) {
    const tensors = [...columns].map(([name, rows]) => [name, transformed(rows, dataset.columns.get(name) as Column)]);
    yield Object.fromEntries(tensors) as Record<Name, Tensor>;
  }
}

/** Stored values with the column's transform applied. */
function transformed({ data, shape, dtype }: HostRows, { transform }: Column): Tensor {
  const stored = tensor(data, { shape, dtype });
  if (transform === undefined) return stored;
  const { scale = 1, offset = 0 } = transform;
  const x = stored.cast(transform.dtype);
  return scale === 1 && offset === 0 ? x : x.mul(scale).add(offset);
}
