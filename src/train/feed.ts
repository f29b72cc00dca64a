/** @module Feeds batches to the devices of a run: each device's rows of each column, gathered ahead of the step. */
import {
  type Batch,
  type Column,
  type Dataset,
  gatherRows,
  hostGather,
  loader,
  type ReadMoment,
  type RowIndices,
  rowElements,
} from "../data/browser.ts";
import { cutRows, cutShape, lengthOf } from "../data/gather.ts";
import { fromShards, meshOf, type Tensor } from "../functions/index.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import { bytesOf } from "../ir/shape.ts";
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
import { DataBudget } from "./data-budget.ts";
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
  /** The length to which columns of sequences are cut, where batches are by length. */
  readonly length: number | undefined;
  /** For each row of the batch the row of the data. */
  readonly sources: RowIndices;
  /** The first row of each device's shard; a single 0 if each device has the whole batch. */
  readonly starts: readonly number[];
  /** The stored values of a row of the batch; undefined for a row that another process has. */
  readonly stored: (column: string, row: number) => TypedArray | undefined;
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

/** A column's part of a batch. */
interface Shards {
  /** One per local device. */
  readonly buffers: readonly DeviceBuffer[];
  /** The stored values of a row of the batch, as {@link FedBatch.stored}. */
  readonly row: (position: number) => TypedArray | undefined;
}

/** The rows of one device: where they begin in the batch, and which rows of the data they are. */
interface Part {
  readonly from: number;
  readonly rows: RowIndices;
}

/** Feeds the local devices of a runtime. */
export class Feed {
  private readonly runtime: Runtime;
  private readonly mesh: Mesh;
  /** Whole columns in device memory, if the executor gathers rows there; undefined for columns that do not fit the budget. */
  private readonly resident = new WeakMap<Column, Promise<DeviceBuffer | undefined>>();
  /** The values of the columns that have been read as a whole. */
  private readonly loaded = new WeakMap<Column, TypedArray>();
  private readonly budget: DataBudget;

  /** `dataMemory` is the option of `train`. */
  constructor(runtime: Runtime, dataMemory?: number) {
    this.runtime = runtime;
    this.mesh = meshOf(runtime);
    this.budget = new DataBudget(dataMemory);
  }

  /** The batches of an epoch from a step on. Leaving the loop early releases the batches that were read ahead. */
  async *batches(dataset: Dataset, options: FeedOptions): AsyncGenerator<FedBatch, void, undefined> {
    // Short batches may have another layout than the others.
    const layouts = new Map(dataset.batchSizes.map((rows) => [rows, batchLayout(this.mesh, rows)]));
    const layoutOf = (rows: number): Layout => layouts.get(rows) as Layout;
    const split = (chosen: RowIndices): Part[] =>
      this.runtime.local.map(({ coordinates }) => {
        const [from, to] = rowsAt(layoutOf(chosen.length), this.mesh, chosen.length, coordinates);
        return { from, rows: chosen.subarray(from, to) };
      });
    const { epoch = 0, step = 0, seed, signal } = options;
    const only = new Set(options.columns);
    const batches = loader<Shards>(dataset, {
      gather: async (column, chosen, moment, length) =>
        only.has(column.name)
          ? this.gather(column, split(chosen), moment, lengthOf(column, length))
          : { buffers: [], row: () => undefined },
      release: disposeAll,
      ...{ epoch, seed, step },
      ...(signal === undefined ? {} : { signal }),
    });
    for await (const batch of batches) yield this.fed(batch, dataset, options.columns, layoutOf(batch.rows.length));
  }

  private fed(batch: Batch<Shards>, dataset: Dataset, names: readonly string[], layout: Layout): FedBatch {
    const shards = [...batch.columns.values()];
    const rows = batch.rows.length;
    const cut = dataset.ofLength(batch.length);
    const columns = names.map((name): [string, Tensor] => {
      const type = columnType(cut.columns.get(name) as Column, rows);
      return [name, fromShards(this.runtime, (batch.columns.get(name) as Shards).buffers, type, layout)];
    });
    return {
      step: batch.step,
      rows,
      length: batch.length,
      sources: batch.rows,
      starts: this.starts(layout, rows),
      stored: (name, row) => batch.columns.get(name)?.row(row),
      columns: Object.fromEntries(columns),
      release: () => shards.forEach(disposeAll),
    };
  }

  /** The first row of each shard of a batch. */
  private starts(layout: Layout, rows: number): number[] {
    const first = (device: number): number => rowsAt(layout, this.mesh, rows, coordinatesOf(this.mesh, device))[0];
    return [...new Set(Array.from({ length: deviceCount(this.mesh) }, (_unused, device) => first(device)))];
  }

  private async gather(
    column: Column,
    parts: readonly Part[],
    moment: ReadMoment | undefined,
    length: number | undefined,
  ): Promise<Shards> {
    const { executor } = this.runtime;
    const whole = rowElements(column);
    const width = rowElements({ shape: cutShape(column.shape, length) });
    const rowBytes = width * dtypes[column.dtype].bytes;
    const source = await this.residentColumn(column);
    const buffers = parts.map(({ rows }, device) => executor.allocate(rows.length * rowBytes, device));
    const values = this.loaded.get(column);
    if (source !== undefined) {
      const unit = commonDivisor(whole, width);
      await Promise.all(
        parts.map(({ rows }, index) =>
          executor.gatherRows?.(
            source,
            (rowBytes * unit) / Math.max(width, 1),
            pieces(rows, { whole, width, unit }),
            buffers[index] as DeviceBuffer,
          ),
        ),
      );
    }
    // Devices of this process may have the same rows, which are read once.
    const read = new Map<string, Promise<TypedArray>>();
    const gathered = await Promise.all(
      source !== undefined
        ? []
        : parts.map(async ({ from, rows }, index) => {
            const key = `${from} ${rows.length}`;
            const reading = read.get(key) ?? hostRows(column, values, rows, moment);
            read.set(key, reading);
            const data = cutRows(column, await reading, length);
            buffers[index]?.write(storedBytes(column, data));
            return data;
          }),
    );
    const row = (position: number): TypedArray | undefined => {
      const index = parts.findIndex(({ from, rows }) => position >= from && position < from + rows.length);
      const { from, rows } = parts[index] ?? { from: 0, rows: [] };
      const at = position - from;
      if (index < 0) return undefined;
      const data = gathered[index];
      const [array, first] = data === undefined ? [values, whole * (rows[at] as number)] : [data, width * at];
      return array?.subarray(first, first + width);
    };
    return { buffers, row };
  }

  /** A whole column in device memory, if the executor gathers rows there and the budget allows it. */
  private residentColumn(column: Column): Promise<DeviceBuffer | undefined> {
    let buffer = this.resident.get(column);
    if (buffer === undefined) {
      buffer = this.keep(column);
      this.resident.set(column, buffer);
      // The next batch tries a failed read again.
      buffer.catch(() => this.resident.delete(column));
    }
    return buffer;
  }

  /** Reads a column as a whole where that is the only way, or where the budget allows it; copies it where the budget allows that, too. */
  private async keep(column: Column): Promise<DeviceBuffer | undefined> {
    const { executor } = this.runtime;
    const gathers = executor.gatherRows !== undefined;
    const { kept, copied } = this.budget.take(column, gathers);
    if (!kept) return undefined;
    try {
      const data = await column.load();
      this.loaded.set(column, data);
      if (!copied) return undefined;
      const memory = executor.allocate(bytesOf(column));
      memory.write(storedBytes(column, data));
      return memory;
    } catch (error) {
      if (copied || column.read !== undefined) this.budget.giveBack(column, gathers);
      throw error;
    }
  }
}

/** The largest number that divides both; 1 for columns without values. */
const commonDivisor = (a: number, b: number): number => (b === 0 ? Math.max(a, 1) : commonDivisor(b, a % b));

/**
 * Native code copies pieces of one size: rows, or where rows are cut the pieces of `unit` elements of which both the whole row and what is kept of
 * it are made.
 */
function pieces(rows: RowIndices, { whole, width, unit }: { whole: number; width: number; unit: number }): Int32Array {
  if (whole === width) return Int32Array.from(rows);
  const [ofRow, kept] = [whole / unit, width / unit];
  return Int32Array.from({ length: rows.length * kept }, (_unused, at) => {
    return (rows[Math.floor(at / kept)] as number) * ofRow + (at % kept);
  });
}

/** Rows of a column: of the values that were kept, or read now. */
async function hostRows(
  column: Column,
  kept: TypedArray | undefined,
  rows: RowIndices,
  moment: ReadMoment | undefined,
): Promise<TypedArray> {
  if (kept !== undefined && column.read !== undefined) return gatherRows(column, kept, rows);
  return (await hostGather(column, rows, moment)).data;
}

const storedBytes = ({ dtype }: Column, data: TypedArray): Uint8Array => dtypes[dtype].bytesOf(data);

function disposeAll({ buffers }: Shards): void {
  for (const buffer of buffers) buffer.dispose();
}
