/** @module The batches of an epoch, gathered ahead of the step that needs them. */
import { HeddleError } from "../util/errors.ts";
import { asRecord } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type BatchRows, Dataset } from "./dataset.ts";
import type { RowGather } from "./gather.ts";
import { checkCount } from "./order.ts";

/** Default number of batches that are gathered ahead of the current one. */
export const defaultAhead = 2;

/** Options of {@link loader}. */
export interface LoaderOptions<Handle> {
  /** Copies a column's rows into a batch. */
  readonly gather: RowGather<Handle>;
  /** Frees a batch that was gathered but never yielded. The consumer owns yielded batches. */
  readonly release?: (handle: Handle) => void;
  /** Counted from 0; default 0. */
  readonly epoch?: number;
  /** First batch, so that a resumed run continues inside an epoch; default 0. With `batchesPerEpoch` there is no batch. */
  readonly step?: number;
  /** Default 0. */
  readonly rank?: number;
  /** Default 1. */
  readonly ranks?: number;
  /** The run's seed, for a shuffle that has none of its own; default 0. */
  readonly seed?: number;
  /** Number of batches gathered ahead of the current one; default 2. */
  readonly ahead?: number;
  /** Ends the iteration by throwing the signal's reason. */
  readonly signal?: AbortSignal;
}

/** One rank's part of a batch, ready for a step. */
export interface Batch<Handle> extends BatchRows {
  /** This rank's rows of each column, `local.length` of them. */
  readonly columns: ReadonlyMap<string, Handle>;
}

/**
 * Iterates over the batches of one epoch from any step on. The order is {@link Dataset.batchRows}'s. When the loop
 * ends early, by an abort or by a failed gather, the loader waits for unfinished copies and releases them.
 */
export function loader<Handle>(
  dataset: Dataset,
  options: LoaderOptions<Handle>,
): AsyncGenerator<Batch<Handle>, void, undefined> {
  asRecord("loader", options);
  if (!(dataset instanceof Dataset))
    throw new HeddleError("argument", `loader: takes a dataset, got ${shown(dataset)}`);
  checkCount("step", options.step ?? 0, dataset.batchesPerEpoch);
  checkCount("ahead", options.ahead ?? 2, 1024);
  return iterate(dataset, options);
}

async function* iterate<Handle>(
  dataset: Dataset,
  options: LoaderOptions<Handle>,
): AsyncGenerator<Batch<Handle>, void, undefined> {
  const { epoch = 0, ahead = defaultAhead, signal } = options;
  const last = dataset.batchesPerEpoch;
  const pending: Promise<Batch<Handle>>[] = [];
  let next = options.step ?? 0;

  function prefetch(count: number): void {
    for (; pending.length < count && next < last; next++) {
      const batch = gatherBatch(dataset.batchRows(epoch, next, options), dataset, options);
      // Its error is reported when its turn comes; until then it must not count as unhandled.
      batch.catch(() => {});
      pending.push(batch);
    }
  }

  try {
    for (;;) {
      signal?.throwIfAborted();
      prefetch(Math.max(ahead, 1));
      const first = pending[0];
      if (first === undefined) return;
      const batch = await unlessAborted(first, signal);
      pending.shift();
      prefetch(ahead);
      yield batch;
    }
  } finally {
    for (const settled of await Promise.allSettled(pending)) {
      if (settled.status === "fulfilled") releaseAll(settled.value.columns.values(), options);
    }
  }
}

/** Gathers all columns of a batch; if one fails, the others are released. */
async function gatherBatch<Handle>(
  rows: BatchRows,
  dataset: Dataset,
  options: LoaderOptions<Handle>,
): Promise<Batch<Handle>> {
  const names = [...dataset.columns.keys()];
  const moment = { epoch: rows.epoch, seed: options.seed ?? 0 };
  const settled = await Promise.allSettled(
    [...dataset.columns.values()].map(async (column) => options.gather(column, rows.local, moment, rows.length)),
  );
  const handles = settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const failed = settled.findIndex((result) => result.status === "rejected");
  if (failed >= 0) {
    releaseAll(handles, options);
    const cause = (settled[failed] as PromiseRejectedResult).reason as unknown;
    if (cause instanceof HeddleError) throw cause;
    const where = `column "${names[failed]}" of ${dataset.name}, epoch ${rows.epoch}, batch ${rows.step}`;
    throw new HeddleError("data", `cannot gather ${where}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
  return { ...rows, columns: new Map(names.map((name, index) => [name, handles[index] as Handle])) };
}

function releaseAll<Handle>(handles: Iterable<Handle>, options: LoaderOptions<Handle>): void {
  for (const handle of handles) options.release?.(handle);
}

/**
 * The value, or the signal's reason if it fires first. Not a race with one promise for the whole epoch, which would hold every batch until it
 * ends.
 */
function unlessAborted<Value>(value: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return value;
  return new Promise<Value>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    void value.then(resolve, reject).then(() => signal.removeEventListener("abort", onAbort));
  });
}
