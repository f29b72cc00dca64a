/** @module Copying chosen rows of a column into a batch. */
import { type DType, dtypes, type TypedArray } from "../ir/dtype.ts";
import type { Shape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { nextTurn } from "../util/turn.ts";
import { type Column, isColumn, type ReadMoment, type RowIndices, rowElements } from "./column.ts";

/**
 * Copies rows of a column into a batch, off the main thread if the executor can. `rows` may be empty, for a rank without a
 * row of a short batch. The caller owns the handle.
 */
export type RowGather<Handle> = (column: Column, rows: RowIndices, moment?: ReadMoment) => Promise<Handle>;

/** A batch of one column in ordinary memory. */
export interface HostRows {
  readonly shape: Shape;
  readonly dtype: DType;
  readonly data: TypedArray;
}

/** Gathers into new typed arrays, on the calling thread: for tests and for the reference executor. */
export const hostGather: RowGather<HostRows> = async (column, rows, moment) => {
  if (!isColumn(column)) throw new HeddleError("argument", `hostGather: takes a column, got ${shown(column)}`);
  const shape = [rows.length, ...column.shape.slice(1)];
  if (column.read !== undefined) {
    checkRows(column, rows);
    return { shape, dtype: column.dtype, data: await column.read(rows, moment) };
  }
  const source = await column.load();
  await nextTurn();
  return { shape, dtype: column.dtype, data: gatherRows(column, source, rows) };
};

/** The chosen rows of `source`, one after another. Throws when a row is out of range. */
export function gatherRows(
  column: Pick<Column, "name" | "shape" | "dtype">,
  source: TypedArray,
  rows: RowIndices,
): TypedArray {
  if (!Array.isArray(column?.shape) || !ArrayBuffer.isView(source) || !ArrayBuffer.isView(rows))
    throw new HeddleError("argument", `gatherRows: takes a column, its values and row indices, got ${shown(column)}`);
  const width = rowElements(column);
  checkRows(column, rows);
  const gathered = dtypes[column.dtype].create(rows.length * width);
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index] as number;
    gathered.set(source.subarray(row * width, (row + 1) * width), index * width);
  }
  return gathered;
}

function checkRows({ name, shape }: Pick<Column, "name" | "shape">, rows: RowIndices): void {
  const length = shape[0] as number;
  for (const row of rows)
    if (!(row >= 0 && row < length))
      throw new HeddleError("data", `row ${row} of column "${name}" is not in [0, ${length})`);
}
