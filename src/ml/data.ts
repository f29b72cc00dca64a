/** @module What estimators take: matrices of examples by features, targets and class labels, checked before anything is computed. */

import type { NestedNumbers, Tensor } from "../functions/index.ts";
import { dense, evaluate, Matrix, matrix } from "../matrix/index.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** A row for each example: a matrix, a tensor of one or two dims, or nested numbers. A vector is one column. */
export type MatrixData = Matrix | Tensor | NestedNumbers;

/** @throws HeddleError `value` for texts, with the remedy; errors of {@link matrix} for other things that are no numbers */
function asMatrix(what: string, name: string, data: MatrixData): Matrix {
  if (data instanceof Matrix) return data;
  try {
    return matrix(data);
  } catch (error) {
    const rows: readonly unknown[] = Array.isArray(data) ? data : [];
    const row = rows.findIndex((part) => [part].flat().some((value) => typeof value === "string"));
    if (row < 0) throw error;
    const text = [rows[row]].flat().find((value) => typeof value === "string");
    throw new HeddleError("value", `${what}: ${name} has the text ${shown(text)} in row ${row}`, {
      hint: "ordinalEncoder() and oneHotEncoder() make numbers of texts, and heddle/frames of columns of a table",
      cause: error,
    });
  }
}

/**
 * Examples by features, computed, so that each pass over them reads a value that is there.
 *
 * @param columns the number of features of a fitted model; undefined while one is fitted
 * @throws HeddleError `shape` for no examples, no features or another number of features; `value` for NaN and infinities
 */
export function featuresOf(what: string, data: MatrixData, columns?: number): Matrix {
  return ofColumns(what, withoutGaps(what, "x", someFeatures(what, data)), columns);
}

/** Examples by features that may have NaN, but no infinities. @throws HeddleError as {@link featuresOf} */
export function featuresWithGaps(what: string, data: MatrixData, columns?: number): Matrix {
  const x = someFeatures(what, data);
  const odd = x.dataSync().findIndex((value) => value === Infinity || value === -Infinity);
  if (odd >= 0) throw notFinite(what, "x", x, odd);
  return ofColumns(what, x, columns);
}

function someFeatures(what: string, data: MatrixData): Matrix {
  const x = asMatrix(what, "x", data);
  if (x.size === 0) throw new HeddleError("shape", `${what}: x has no ${x.rows === 0 ? "examples" : "features"}`);
  evaluate(x);
  return x;
}

function ofColumns(what: string, x: Matrix, columns: number | undefined): Matrix {
  if (columns === undefined || x.columns === columns) return x;
  const found = plural(x.columns, "feature");
  throw new HeddleError("shape", `${what}: x has ${found}, and the model was fitted with ${columns}`);
}

/**
 * Targets for each example, a column for each output.
 *
 * @param rows the number of rows of `other`; undefined where nothing else is given yet
 * @throws HeddleError `shape`, `value`
 */
export function targetsOf(
  what: string,
  data: MatrixData | undefined,
  rows: number | undefined,
  name = "y",
  other = "x",
): Matrix {
  if (data === undefined)
    throw new HeddleError("argument", `${what}: takes ${name}${name === "y" ? ", the targets of the examples" : ""}`);
  const y = asMatrix(what, name, data);
  if (rows !== undefined && y.rows !== rows)
    throw new HeddleError("shape", `${what}: ${other} has ${plural(rows, "row")}, and ${name} has ${y.rows}`);
  if (y.size === 0) throw new HeddleError("shape", `${what}: ${name} has no ${y.rows === 0 ? "rows" : "columns"}`);
  evaluate(y);
  return withoutGaps(what, name, y);
}

/** One number for each example. @throws HeddleError `shape`, `value` */
export function columnOf(
  what: string,
  data: MatrixData | undefined,
  rows: number | undefined,
  name = "y",
  other = "x",
): Float64Array {
  const y = targetsOf(what, data, rows, name, other);
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
  throw notFinite(what, name, x, at);
}

function notFinite(what: string, name: string, x: Matrix, at: number): HeddleError {
  const value = x.dataSync()[at] as number;
  const [row, column] = [Math.floor(at / x.columns), at % x.columns];
  const hint =
    name === "x" ? { hint: Number.isNaN(value) ? "imputer() fills in NaN" : "leave it out, or bound it" } : {};
  return new HeddleError("value", `${what}: ${name} has ${value} in row ${row}, column ${column}`, hint);
}
