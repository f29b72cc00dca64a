/** @module Feeds batches to the devices of a run: each device's rows of each column, gathered ahead of the step. */
import { type Batch, type Column, type Dataset, hostGather, loader, rowElements } from "../data/browser.ts";
import { fromShards, meshOf, type Tensor } from "../functions/index.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import {
  type Interval,
  intervals,
  type Layout,
  type Mesh,
  type MeshAxis,
  type Placement,
  replicated,
  resolved,
  shardedOn,
  sizesOn,
  stageAxis,
} from "../plan/index.ts";
import { batchParts, dataAxis } from "../plan/mesh.ts";
import type { Runtime } from "../runtime/devices.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { columnType } from "./functions.ts";

/**
 * The layout of a batch: sharded by rows, in the shares of the mesh or else as equally as possible. Replicated if there are fewer rows
 * than devices, or if the pipelines of a mesh would get unequal shards.
 */
export function batchLayout(mesh: Mesh, rows: number): Layout {
  if (batchParts(mesh) === 1) return replicated(mesh);
  const split = resolved({ dtype: "i32", shape: [rows] }, shardedOn(mesh, { [dataAxis]: 0 }), mesh);
  const empty = split.some((placement) => placement.kind === "shard" && placement.sizes?.includes(0) === true);
  const staged = mesh.axes.some(({ name }) => name === stageAxis) && rows % batchParts(mesh) !== 0;
  return empty || staged || rows < batchParts(mesh) ? replicated(mesh) : split;
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
    const shares = this.shares(layout);
    const { epoch = 0, seed, signal } = options;
    const only = new Set(options.columns);
    const batches = loader<Shards>(dataset, {
      gather: (column, chosen) =>
        only.has(column.name) ? this.gather(column, shares.split(chosen)) : Promise.resolve([]),
      release: disposeAll,
      epoch,
      seed,
      step: first,
      rank: shares.rank,
      ranks: shares.ranks,
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
    const split = layout.find((placement) => placement.kind === "shard");
    if (split?.kind !== "shard") return [0];
    return intervals(sizesOn(split.sizes, rows, batchParts(this.mesh))).map(([from]) => from);
  }

  /** The rank whose rows this process asks the loader for, and how these rows are divided among its devices. */
  private shares(layout: Layout): { rank: number; ranks: number; split: (rows: Int32Array) => Int32Array[] } {
    const { local } = this.runtime;
    const axis = layout.findIndex((placement) => placement.kind === "shard");
    if (axis < 0) return { rank: 0, ranks: 1, split: (rows) => local.map(() => rows) };
    const coordinates = local.map(({ coordinates }) => coordinates[axis] as number);
    const parts = batchParts(this.mesh);
    const [coordinate] = coordinates;
    const { sizes } = layout[axis] as Placement & { kind: "shard" };
    const { shares } = this.mesh.axes[axis] as MeshAxis;
    // The loader divides rows equally, with one more for the first ranks, as a mesh without shares does.
    if (shares === undefined && coordinates.every((other) => other === coordinate)) {
      return { rank: coordinate as number, ranks: parts, split: (rows) => local.map(() => rows) };
    }
    return {
      rank: 0,
      ranks: 1,
      split: (rows) => {
        const dealt = intervals(sizesOn(sizes, rows.length, parts));
        return coordinates.map((at) => rows.subarray(...(dealt[at] as Interval)));
      },
    };
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
