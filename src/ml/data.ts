/** @module What estimators take: matrices of examples by features, targets and class labels, checked before anything is computed. */

import type { NestedNumbers, Tensor } from "../functions/index.ts";
import { dense, evaluate, Matrix, matrix } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";

/** A row for each example: a matrix, a tensor of one or two dims, or nested numbers. A vector is one column. */
export type MatrixData = Matrix | Tensor | NestedNumbers;

const asMatrix = (data: MatrixData): Matrix => (data instanceof Matrix ? data : matrix(data));

/**
 * Examples by features, computed, so that each pass over them reads a value that is there.
 *
 * @param columns the number of features of a fitted model; undefined while one is fitted
 * @throws HeddleError `shape` for no examples, no features or another number of features; `value` for NaN and infinities
 */
export function featuresOf(what: string, data: MatrixData, columns?: number): Matrix {
  const x = withoutGaps(what, "x", anyFeatures(what, data));
  if (columns !== undefined && x.columns !== columns)
    throw new HeddleError("shape", `${what}: x has ${x.columns} features, and the model was fitted with ${columns}`);
  return x;
}

/** Examples by features that may have NaN. @throws HeddleError `shape` for no examples or no features */
export function anyFeatures(what: string, data: MatrixData): Matrix {
  const x = asMatrix(data);
  if (x.size === 0) throw new HeddleError("shape", `${what}: x has no elements (${x.rows}x${x.columns})`);
  evaluate(x);
  return x;
}

/** Targets for each example, a column for each output. @throws HeddleError `shape`, `value` */
export function targetsOf(what: string, data: MatrixData | undefined, rows: number, name = "y"): Matrix {
  if (data === undefined) throw new HeddleError("argument", `${what}: takes ${name}, the targets of the examples`);
  const y = asMatrix(data);
  if (y.rows !== rows) throw new HeddleError("shape", `${what}: x has ${rows} rows, and ${name} has ${y.rows}`);
  if (y.columns === 0) throw new HeddleError("shape", `${what}: ${name} has no columns`);
  evaluate(y);
  return withoutGaps(what, name, y);
}

/** One number for each example. @throws HeddleError `shape`, `value` */
export function columnOf(what: string, data: MatrixData | undefined, rows: number, name = "y"): Float64Array {
  const y = targetsOf(what, data, rows, name);
  if (y.columns === 1) return y.dataSync();
  throw new HeddleError("shape", `${what}: ${name} must be one column, got ${y.rows}x${y.columns}`);
}

/** Labels as places in the sorted list of those that occur. */
export interface Labels {
  readonly classes: readonly number[];
  /** Place of each example's label. */
  readonly codes: Int32Array;
}

/** @throws HeddleError `shape`, `value`; `value` for fewer than two classes */
export function labelsOf(what: string, data: MatrixData | undefined, rows: number): Labels {
  const values = columnOf(what, data, rows);
  const classes = [...new Set(values)].sort((a, b) => a - b);
  if (classes.length < 2)
    throw new HeddleError("value", `${what}: y has one class alone, ${classes[0]}`, {
      hint: "a classifier needs examples of two classes at least",
    });
  const place = new Map(classes.map((label, index) => [label, index]));
  return { classes, codes: Int32Array.from(values, (label) => place.get(label) as number) };
}

/** A column for each class, with 1 where an example has it and `other` elsewhere. */
export function indicators({ classes, codes }: Labels, other = 0): Matrix {
  const data = new Float64Array(codes.length * classes.length).fill(other);
  for (let row = 0; row < codes.length; row++) data[row * classes.length + (codes[row] as number)] = 1;
  return dense(data, codes.length, classes.length);
}

/** The label at each place. */
export function labelsAt(classes: readonly number[], places: ArrayLike<number>): Matrix {
  return dense(
    Float64Array.from(places, (place) => classes[place] as number),
    places.length,
    1,
  );
}

export const columnVector = (values: ArrayLike<number>): Matrix => dense(Float64Array.from(values), values.length, 1);

export const rowVector = (values: ArrayLike<number>): Matrix => dense(Float64Array.from(values), 1, values.length);

/** @throws HeddleError `value` naming the first element that is not finite */
function withoutGaps(what: string, name: string, x: Matrix): Matrix {
  // A sum is finite unless an element is not, or the sum overflows: the elements are looked at in that case alone.
  if (Number.isFinite(x.sum().itemSync())) return x;
  const data = x.dataSync();
  const at = data.findIndex((value) => !Number.isFinite(value));
  if (at < 0) return x;
  const [row, column] = [Math.floor(at / x.columns), at % x.columns];
  throw new HeddleError("value", `${what}: ${name} has ${data[at]} in row ${row}, column ${column}`, {
    hint: "imputer() fills in what is missing",
  });
}
