/** @module The inputs and targets of a batch: one column, or a record of several columns by name. */
import { type Column, columnDType, type Dataset } from "../data/browser.ts";
import { isTensor, type Tensor } from "../functions/index.ts";
import { type DType, isFloat } from "../ir/dtype.ts";
import { isTensorType, type TensorType } from "../ir/shape.ts";
import type { OneOrMore } from "../nn/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/** The name of one column, which is passed as a tensor, or several names, which are passed as a record. */
export type ColumnNames = string | readonly string[];

/** The columns' names, each once. */
export const namesIn = (names: ColumnNames): readonly string[] => [...new Set([names].flat() as string[])];

/** @throws HeddleError `option` unless `names` is a name or a list of different names. */
export function checkNames(option: string, names: unknown): void {
  const list = Array.isArray(names) ? (names as unknown[]) : [names];
  if (list.length > 0 && list.every((name) => typeof name === "string")) {
    const twice = list.find((name, index) => list.indexOf(name) !== index);
    if (twice === undefined) return;
    throw new HeddleError("option", `train: ${option} names '${twice}' twice; a column is in a record once`);
  }
  throw new HeddleError("option", `train: ${option} must name a column, or several in a list, got ${shown(names)}`, {
    hint: `such as ${option}: "x", or ${option}: ["image", "meta"]`,
  });
}

/** The value of one name, or a record with a value for each name. */
export function gathered<Value>(names: ColumnNames, of: (name: string) => Value): OneOrMore<Value> {
  return typeof names === "string" ? of(names) : Object.fromEntries(namesIn(names).map((name) => [name, of(name)]));
}

/** The values by name. */
export const recordOf = <Value>(names: ColumnNames, values: OneOrMore<Value>): { readonly [name: string]: Value } =>
  typeof names === "string" ? { [names]: values as Value } : (values as { readonly [name: string]: Value });

const columnOf = (dataset: Dataset, name: string): Column => dataset.columns.get(name) as Column;

/** A column's dtype as the model sees it: a float column has the dtype of the run. */
function seenDType(column: Column, dtype: DType): DType {
  const wanted = columnDType(column);
  return isFloat(wanted) ? dtype : wanted;
}

/** The values of a stored column as the model sees them: cast, scaled, with the offset added. */
export function transformed(stored: Tensor, column: Column, dtype: DType): Tensor {
  let values = stored.cast(seenDType(column, dtype));
  const { scale = 1, offset = 0 } = column.transform ?? {};
  if (scale !== 1) values = values.mul(scale);
  if (offset !== 0) values = values.add(offset);
  return values;
}

/** The stored columns of a batch as the model sees them. */
export const seen = (
  names: ColumnNames,
  batch: { readonly [name: string]: Tensor },
  dataset: Dataset,
  dtype: DType,
): OneOrMore<Tensor> => gathered(names, (name) => transformed(batch[name] as Tensor, columnOf(dataset, name), dtype));

/** Shapes and dtypes of the columns as the model sees them, for this number of rows. */
export const seenTypes = (names: ColumnNames, dataset: Dataset, rows: number, dtype: DType): OneOrMore<TensorType> =>
  gathered(names, (name) => {
    const column = columnOf(dataset, name);
    return { shape: [rows, ...column.shape.slice(1)], dtype: seenDType(column, dtype) };
  });

/** The values of a record in order, or the single value. */
export const valuesIn = <Value>(values: OneOrMore<Value>, isValue: (value: unknown) => value is Value): Value[] =>
  flattenTree(values, isValue).leaves;

/** The number of rows: the first dim of the first value. */
export const rowsOf = (values: OneOrMore<Tensor>): number => valuesIn(values, isTensor)[0]?.shape[0] ?? 0;

/** The value or record with `change` applied to each tensor. */
export function mapValues(values: OneOrMore<Tensor>, change: (value: Tensor) => Tensor): OneOrMore<Tensor> {
  const { leaves, shape } = flattenTree(values, isTensor);
  return unflattenTree(shape, leaves.map(change)) as OneOrMore<Tensor>;
}

/** The type of a single tensor; undefined for a record. */
export const single = (type: OneOrMore<TensorType>): TensorType | undefined => (isTensorType(type) ? type : undefined);
