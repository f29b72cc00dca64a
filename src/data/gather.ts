/** @module Copying chosen rows of a column into a batch. */
import { type DType, dtypes, type TypedArray } from "../ir/dtype.ts";
import type { Shape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { nextTurn } from "../util/turn.ts";
import { type Column, isColumn, rowElements } from "./column.ts";

/**
 * Copies rows of a column into a batch, off the main thread if the executor can. `rows` may be empty, for a rank without a
 * row of a short batch. The caller owns the handle.
 */
export type RowGather<Handle> = (column: Column, rows: Int32Array) => Promise<Handle>;

/** A batch of one column in ordinary memory. */
export interface HostRows {
  readonly shape: Shape;
  readonly dtype: DType;
  readonly data: TypedArray;
}

/** Gathers into new typed arrays, on the calling thread: for tests and for the reference executor. */
export const hostGather: RowGather<HostRows> = async (column, rows) => {
  if (!isColumn(column)) throw new HeddleError("argument", `hostGather: takes a column, got ${shown(column)}`);
  const source = await column.load();
  await nextTurn();
  const shape = [rows.length, ...column.shape.slice(1)];
  return { shape, dtype: column.dtype, data: gatherRows(column, source, rows) };
};

/** The chosen rows of `source`, one after another. Throws when a row is out of range. */
export function gatherRows(
  column: Pick<Column, "name" | "shape" | "dtype">,
  source: TypedArray,
  rows: Int32Array,
): TypedArray {
  if (!Array.isArray(column?.shape) || !ArrayBuffer.isView(source) || !ArrayBuffer.isView(rows))
    throw new HeddleError("argument", `gatherRows: takes a column, its values and row indices, got ${shown(column)}`);
  const width = rowElements(column);
  const length = column.shape[0] as number;
  const gathered = dtypes[column.dtype].create(rows.length * width);
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index] as number;
    if (row < 0 || row >= length) {
      throw new HeddleError("data", `row ${row} of column "${column.name}" is not in [0, ${length})`);
    }
    gathered.set(source.subarray(row * width, (row + 1) * width), index * width);
  }
  return gathered;
}
