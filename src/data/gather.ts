/** @module Copying chosen rows of a column into a batch. */
import { type DType, dtypes, type TypedArray } from "../ir/dtype.ts";
import type { Shape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { nextTurn } from "../util/turn.ts";
import { type Column, isColumn, type ReadMoment, type RowIndices, rowElements } from "./column.ts";

/**
 * Copies rows of a column into a batch, off the main thread if the executor can. `rows` may be empty, for a rank without a
 * row of a short batch. A column of sequences is cut to `length`, if there is one. The caller owns the handle.
 */
export type RowGather<Handle> = (
  column: Column,
  rows: RowIndices,
  moment?: ReadMoment,
  length?: number,
) => Promise<Handle>;

/** A batch of one column in ordinary memory. */
export interface HostRows {
  readonly shape: Shape;
  readonly dtype: DType;
  readonly data: TypedArray;
}

/** Gathers into new typed arrays, on the calling thread: for tests and for the reference executor. */
export const hostGather: RowGather<HostRows> = async (column, rows, moment, length) => {
  if (!isColumn(column)) throw new HeddleError("argument", `hostGather: takes a column, got ${shown(column)}`);
  const shape = [rows.length, ...cutShape(column.shape, lengthOf(column, length)).slice(1)];
  if (column.read !== undefined) {
    checkRows(column, rows);
    return { shape, dtype: column.dtype, data: cutRows(column, await column.read(rows, moment), length) };
  }
  const source = await column.load();
  await nextTurn();
  return { shape, dtype: column.dtype, data: cutRows(column, gatherRows(column, source, rows), length) };
};

/** The length to which a column is cut: that of its batch, if the column has sequences. */
export const lengthOf = ({ lengths }: Column, length: number | undefined): number | undefined =>
  lengths === undefined ? undefined : length;

/** The shape of rows of which dim 1 is cut. */
export const cutShape = (shape: Shape, length: number | undefined): Shape =>
  length === undefined ? shape : [shape[0] as number, length, ...shape.slice(2)];

/** Whole rows, one after another, of which dim 1 is cut to a length. */
export function cutRows(column: Column, rows: TypedArray, length: number | undefined): TypedArray {
  const cut = lengthOf(column, length);
  if (cut === undefined || cut === column.shape[1]) return rows;
  const [whole, width] = [rowElements(column), rowElements({ shape: cutShape(column.shape, cut) })];
  const count = rows.length / whole;
  const kept = dtypes[column.dtype].create(count * width);
  for (let row = 0; row < count; row++) kept.set(rows.subarray(row * whole, row * whole + width), row * width);
  return kept;
}

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
