/** @module Feeds batches to the devices of a run: each device's rows of each column, gathered ahead of the step. */
import { type Batch, type Column, type Dataset, hostGather, loader, rowElements } from "../data/browser.ts";
import { fromShards, meshOf, type Tensor } from "../functions/index.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import {
  coordinatesOf,
  deviceCount,
  type Interval,
  intervals,
  type Layout,
  type Mesh,
  type MeshAxis,
  replicated,
  resolved,
  shardedOn,
  sizesOn,
  stageAxis,
} from "../plan/index.ts";
import { batchAxes } from "../plan/mesh.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { columnType } from "./functions.ts";

/**
 * The layout of a batch: sharded by rows over the axes `hosts` and `data`, in the shares of the mesh or else as equally as possible. Over
 * `data` alone if the rows do not divide equally over `hosts`. Replicated if there are fewer rows than devices, or if the pipelines of a
 * mesh would get unequal shards.
 */
export function batchLayout(mesh: Mesh, rows: number): Layout {
  const names = mesh.axes.filter(({ name, size }) => size > 1 && batchAxes.includes(name)).map(({ name }) => name);
  const isStaged = mesh.axes.some(({ name }) => name === stageAxis);
  const tries = names.map((_name, first) =>
    resolved(
      { dtype: "i32", shape: [rows] },
      shardedOn(mesh, Object.fromEntries(names.slice(first).map((name) => [name, 0]))),
      mesh,
    ),
  );
  // Only the last axis may split unevenly: its parts are split by no other axis.
  const fits = (layout: Layout): boolean => {
    const sizes = layout.flatMap((placement) => (placement.kind === "shard" ? [placement.sizes] : []));
    const isLast = (index: number): boolean => index === sizes.length - 1;
    return sizes.every((part, index) => part === undefined || (isLast(index) && !isStaged && !part.includes(0)));
  };
  return tries.find(fits) ?? replicated(mesh);
}

const sizeOn = (mesh: Mesh, axis: number): number => (mesh.axes[axis] as MeshAxis).size;

/** The rows of a batch that the device at these coordinates has. */
function rowsAt(layout: Layout, mesh: Mesh, rows: number, coordinates: readonly number[]): Interval {
  return layout.reduce<Interval>(
    ([from, to], placement, axis) => {
      if (placement.kind !== "shard") return [from, to];
      const parts = intervals(sizesOn(placement.sizes, to - from, sizeOn(mesh, axis)));
      const [begin, end] = parts[coordinates[axis] as number] as Interval;
      return [from + begin, from + end];
    },
    [0, rows],
  );
}

/** A batch on the devices. */
export interface FedBatch {
  /** Batch of the epoch, counted from 0. */
  readonly step: number;
  /** Rows of the whole batch. */
  readonly rows: number;
  /** For each row of the batch the row of the data. */
  readonly sources: Int32Array;
  /** The first row of each device's shard; a single 0 if each device has the whole batch. */
  readonly starts: readonly number[];
  /** The stored values of a column; undefined until they have been read. */
  readonly stored: (column: string) => TypedArray | undefined;
  readonly columns: { readonly [name: string]: Tensor };
  /** Frees the memory; runs that were queued with the batch may still read it. */
  release(): void;
}

/** Which batches to read. */
export interface FeedOptions {
  readonly columns: readonly string[];
  readonly epoch?: number;
  /** First batch; default 0. */
  readonly step?: number;
  readonly seed: number;
  readonly signal?: AbortSignal;
}

/** One buffer per local device. */
type Shards = readonly DeviceBuffer[];

/** Feeds the local devices of a runtime. */
export class Feed {
  private readonly runtime: Runtime;
  private readonly mesh: Mesh;
  /** Whole columns in device memory, if the executor gathers rows there. */
  private readonly resident = new WeakMap<Column, Promise<DeviceBuffer>>();
  /** The values of the columns that have been read. */
  private readonly loaded = new WeakMap<Column, TypedArray>();

  constructor(runtime: Runtime) {
    this.runtime = runtime;
    this.mesh = meshOf(runtime);
  }

  /** The batches of an epoch from a step on. Leaving the loop early releases the batches that were read ahead. */
  async *batches(dataset: Dataset, options: FeedOptions): AsyncGenerator<FedBatch, void, undefined> {
    const count = dataset.batchesPerEpoch;
    const first = options.step ?? 0;
    const sizes = dataset.batchSizes;
    const hasShort = sizes.length > 1;
    // The last batch may have another layout than the others, so another loader reads it.
    const whole = hasShort ? count - 1 : count;
    if (first < whole) yield* this.run(dataset, options, first, whole, sizes[0] as number);
    if (hasShort && first <= whole) yield* this.run(dataset, options, whole, count, sizes[1] as number);
  }

  private async *run(
    dataset: Dataset,
    options: FeedOptions,
    first: number,
    end: number,
    rows: number,
  ): AsyncGenerator<FedBatch, void, undefined> {
    const layout = batchLayout(this.mesh, rows);
    const split = (chosen: Int32Array): Int32Array[] =>
      this.runtime.local.map(({ coordinates }) =>
        chosen.subarray(...rowsAt(layout, this.mesh, chosen.length, coordinates)),
      );
    const { epoch = 0, seed, signal } = options;
    const only = new Set(options.columns);
    const batches = loader<Shards>(dataset, {
      gather: (column, chosen) => (only.has(column.name) ? this.gather(column, split(chosen)) : Promise.resolve([])),
      release: disposeAll,
      epoch,
      seed,
      step: first,
      ...(signal === undefined ? {} : { signal }),
    });
    for await (const batch of batches) {
      yield this.fed(batch, dataset, options.columns, layout);
      if (batch.step + 1 >= end) return;
    }
  }

  private fed(batch: Batch<Shards>, dataset: Dataset, names: readonly string[], layout: Layout): FedBatch {
    const shards = [...batch.columns.values()];
    const rows = batch.rows.length;
    const columns = names.map((name): [string, Tensor] => {
      const type = columnType(dataset.columns.get(name) as Column, rows);
      return [name, fromShards(this.runtime, batch.columns.get(name) as Shards, type, layout)];
    });
    return {
      step: batch.step,
      rows,
      sources: batch.rows,
      starts: this.starts(layout, rows),
      stored: (name) => this.loaded.get(dataset.columns.get(name) as Column),
      columns: Object.fromEntries(columns),
      release: () => shards.forEach(disposeAll),
    };
  }

  /** The first row of each shard of a batch. */
  private starts(layout: Layout, rows: number): number[] {
    const first = (device: number): number => rowsAt(layout, this.mesh, rows, coordinatesOf(this.mesh, device))[0];
    return [...new Set(Array.from({ length: deviceCount(this.mesh) }, (_unused, device) => first(device)))];
  }

  private async gather(column: Column, parts: readonly Int32Array[]): Promise<Shards> {
    const { executor } = this.runtime;
    const rowBytes = rowElements(column) * dtypes[column.dtype].bytes;
    const targets = parts.map((rows, device) => executor.allocate(rows.length * rowBytes, device));
    this.loaded.set(column, await column.load());
    if (executor.gatherRows === undefined) {
      await Promise.all(
        parts.map(async (rows, index) => targets[index]?.write(bytesOf(column, (await hostGather(column, rows)).data))),
      );
      return targets;
    }
    const source = await this.residentColumn(column);
    await Promise.all(
      parts.map((rows, index) => executor.gatherRows?.(source, rowBytes, rows, targets[index] as DeviceBuffer)),
    );
    return targets;
  }

  private residentColumn(column: Column): Promise<DeviceBuffer> {
    let buffer = this.resident.get(column);
    if (buffer === undefined) {
      buffer = column.load().then((data) => {
        const bytes = bytesOf(column, data);
        const memory = this.runtime.executor.allocate(bytes.byteLength);
        memory.write(bytes);
        return memory;
      });
      this.resident.set(column, buffer);
      // The next batch tries a failed read again.
      buffer.catch(() => this.resident.delete(column));
    }
    return buffer;
  }
}

const bytesOf = ({ dtype }: Column, data: TypedArray): Uint8Array => dtypes[dtype].bytesOf(data);

function disposeAll(shards: Shards): void {
  for (const shard of shards) shard.dispose();
}
