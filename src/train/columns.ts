/** @module What model and loss see of a batch: a column, or a record of several by their names. */
import { type Column, columnDType, type Dataset } from "../data/browser.ts";
import { isTensor, type Tensor } from "../functions/index.ts";
import { type DType, isFloat } from "../ir/dtype.ts";
import { isTensorType, type TensorType } from "../ir/shape.ts";
import type { OneOrMore } from "../nn/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/** Columns that are seen together: the name of one, which is seen as it is, or names, of which a record is seen. */
export type ColumnNames = string | readonly string[];

/** The columns' names, each once. */
export const namesIn = (names: ColumnNames): readonly string[] => [...new Set([names].flat() as string[])];

/** @throws HeddleError `option` unless it is a name, or a list of them. */
export function checkNames(option: string, names: unknown): void {
  const list = Array.isArray(names) ? (names as unknown[]) : [names];
  if (list.length > 0 && list.every((name) => typeof name === "string")) {
    const twice = list.find((name, place) => list.indexOf(name) !== place);
    if (twice === undefined) return;
    throw new HeddleError("option", `train: ${option} names '${twice}' twice; a column is in a record once`);
  }
  throw new HeddleError("option", `train: ${option} must name a column, or several in a list, got ${shown(names)}`, {
    hint: `such as ${option}: "x", or ${option}: ["image", "meta"]`,
  });
}

/** One value, or a record of one for each name. */
function gathered<Value>(names: ColumnNames, of: (name: string) => Value): OneOrMore<Value> {
  return typeof names === "string" ? of(names) : Object.fromEntries(namesIn(names).map((name) => [name, of(name)]));
}

const columnOf = (dataset: Dataset, name: string): Column => dataset.columns.get(name) as Column;

/** A column's dtype as the model sees it: floats take the dtype of the run. */
function seenDType(column: Column, dtype: DType): DType {
  const wanted = columnDType(column);
  return isFloat(wanted) ? dtype : wanted;
}

/** What the model sees of a stored column. */
export function transformed(stored: Tensor, column: Column, dtype: DType): Tensor {
  let values = stored.cast(seenDType(column, dtype));
  const { scale = 1, offset = 0 } = column.transform ?? {};
  if (scale !== 1) values = values.mul(scale);
  if (offset !== 0) values = values.add(offset);
  return values;
}

/** What is seen of the columns of a batch as stored. */
export const seen = (
  names: ColumnNames,
  batch: { readonly [name: string]: Tensor },
  dataset: Dataset,
  dtype: DType,
): OneOrMore<Tensor> => gathered(names, (name) => transformed(batch[name] as Tensor, columnOf(dataset, name), dtype));

/** Shapes and dtypes of what is seen of so many rows. */
export const seenTypes = (names: ColumnNames, dataset: Dataset, rows: number, dtype: DType): OneOrMore<TensorType> =>
  gathered(names, (name) => {
    const column = columnOf(dataset, name);
    return { shape: [rows, ...column.shape.slice(1)], dtype: seenDType(column, dtype) };
  });

/** The values in their order. */
export const valuesIn = <Value>(one: OneOrMore<Value>, isValue: (value: unknown) => value is Value): Value[] =>
  flattenTree(one, isValue).leaves;

/** The first one's first dim: how many rows there are. */
export const rowsOf = (values: OneOrMore<Tensor>): number => valuesIn(values, isTensor)[0]?.shape[0] ?? 0;

/** The same in another form for each. */
export function mapValues(values: OneOrMore<Tensor>, change: (value: Tensor) => Tensor): OneOrMore<Tensor> {
  const { leaves, shape } = flattenTree(values, isTensor);
  return unflattenTree(shape, leaves.map(change)) as OneOrMore<Tensor>;
}

/** A type as one tensor, or undefined where it is a record. */
export const single = (type: OneOrMore<TensorType>): TensorType | undefined => (isTensorType(type) ? type : undefined);
