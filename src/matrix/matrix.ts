/** @module Matrices whose expressions are computed when a value is read. */

import type { Tensor } from "../functions/index.ts";
import { inspectMethod } from "../tensor/inspect.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { binaryOfEntries, type Entries, entriesOf, pending, transposed, unaryOfEntries } from "./entries.ts";
import {
  cells,
  type Expression,
  formatSize,
  hostOf,
  indexExpression,
  isSize,
  type MatrixAttrs,
  noAttrs,
  numberExpression,
  type Operator,
  type Size,
  type Stored,
} from "./expression.ts";
import { inspectMatrix } from "./inspect.ts";
import {
  type AggregateName,
  aggregates,
  type BinaryName,
  binaries,
  type CumulativeName,
  cumulatives,
  type Over,
  others,
  type UnaryName,
  unaries,
} from "./operators.ts";
import { evaluateExpressions, tensorOf } from "./programs.ts";

/** A matrix, or a number, which counts as a 1x1 matrix. */
export type MatrixLike = Matrix | number;

/** 0: down the rows, a result for each column; 1: along each row, a result for each row. Default: all elements. */
export type Axis = 0 | 1;

/**
 * A matrix of f64. Operations give new matrices at once and compute nothing: the value comes when it is read, or with {@link evaluate}.
 * What is computed together is one compiled program, which later expressions of the same form, sizes and formats use, too.
 */
export class Matrix {
  /** @internal */
  readonly expression: Expression;

  /** Use {@link matrix} and the other functions that make matrices. */
  private constructor(expression: Expression) {
    this.expression = expression;
  }

  /** @internal */
  static of(expression: Expression): Matrix {
    return new Matrix(expression);
  }

  /** Rows and columns. */
  get shape(): Size {
    return this.expression.size;
  }

  /** The number of rows. */
  get rows(): number {
    return this.shape[0];
  }

  /** The number of columns. */
  get columns(): number {
    return this.shape[1];
  }

  /** The number of elements. */
  get size(): number {
    return cells(this.shape);
  }

  /** An estimate of how many elements are not 0; exact for a matrix that was made of numbers. */
  get nonzeros(): number {
    return this.expression.nonzeros;
  }

  /** How the matrix is kept: all elements, or the entries that are not 0. */
  get format(): "dense" | "entries" {
    return this.expression.operator?.kept === true ? "entries" : "dense";
  }

  /** Whether the value is there, so that reading takes no computation. */
  get isComputed(): boolean {
    return this.expression.stored !== undefined;
  }

  /** The elements, row-major; blocks until they are computed. @throws HeddleError `trace` in a function that is being traced */
  dataSync(): Float64Array {
    evaluateExpressions([this.expression]);
    return hostOf(this.expression.stored as object).data as Float64Array;
  }

  /** The elements, row-major. */
  async data(): Promise<Float64Array> {
    evaluateExpressions([this.expression]);
    const stored = this.expression.stored as Stored;
    return (stored.host?.data ?? (await stored.tensor?.data()) ?? hostOf(stored).data) as Float64Array;
  }

  /** The elements as rows. */
  async array(): Promise<number[][]> {
    return rowsOf(await this.data(), this.shape);
  }

  /** Like {@link Matrix.array}, but blocking. */
  arraySync(): number[][] {
    return rowsOf(this.dataSync(), this.shape);
  }

  /** The only element. @throws HeddleError `shape` unless there is one */
  itemSync(): number {
    if (this.size !== 1) throw new HeddleError("shape", `itemSync: the matrix is ${formatSize(this.shape)}, not 1x1`);
    return this.dataSync()[0] as number;
  }

  /** The only element. @throws HeddleError `shape` unless there is one */
  async item(): Promise<number> {
    if (this.size !== 1) throw new HeddleError("shape", `item: the matrix is ${formatSize(this.shape)}, not 1x1`);
    return (await this.data())[0] as number;
  }

  /** The value as a tensor f64[rows, columns]. */
  tensor(): Tensor {
    evaluateExpressions([this.expression]);
    return tensorOf(this.expression.stored as object);
  }

  /** The sum of each element with that of another matrix of this size, a row or column to repeat, or a number. */
  add(other: MatrixLike): Matrix {
    return binary("add", this, other);
  }
  /** The difference of each element with that of another matrix of this size, a row or column to repeat, or a number. */
  sub(other: MatrixLike): Matrix {
    return binary("sub", this, other);
  }
  /** The product of each element with that of another matrix of this size, a row or column to repeat, or a number. */
  mul(other: MatrixLike): Matrix {
    return binary("mul", this, other);
  }
  /** The quotient of each element with that of another matrix of this size, a row or column to repeat, or a number. */
  div(other: MatrixLike): Matrix {
    return binary("div", this, other);
  }
  /** The power of each element with that of another matrix of this size, a row or column to repeat, or a number. */
  pow(other: MatrixLike): Matrix {
    return binary("pow", this, other);
  }

  /** The product of matrices. @throws HeddleError `shape` unless this matrix has as many columns as the other has rows */
  matmul(other: Matrix): Matrix {
    const y = checked("matmul", other);
    if (this.columns !== y.rows)
      throw new HeddleError("shape", `matmul: ${formatSize(this.shape)} and ${formatSize(y.shape)} do not fit`);
    return apply(others.matmul, [this, y], [this.rows, y.columns]);
  }

  /** The transpose; entries stay entries. */
  get T(): Matrix {
    const { operator, inputs } = this.expression;
    const size: Size = [this.columns, this.rows];
    const entries = entriesOf(this.expression);
    if (entries !== undefined) return Matrix.of(transposed(entries));
    return operator === others.transpose && inputs.length === 1
      ? Matrix.of(inputs[0] as Expression)
      : apply(others.transpose, [this], size);
  }

  /** The elements in the same row-major order under another size. @throws HeddleError `shape` if the number of elements differs */
  reshape(rows: number, columns: number): Matrix {
    checkInteger("reshape", "rows", rows, 0);
    checkInteger("reshape", "columns", columns, 0);
    if (rows * columns !== this.size)
      throw new HeddleError("shape", `reshape: ${formatSize(this.shape)} does not fill ${rows}x${columns}`);
    return isSize(this.shape, rows, columns) ? this : apply(others.reshape, [this], [rows, columns]);
  }

  /** Rows `[from, to)` and columns `[from, to)`, counted from 0. @throws HeddleError `shape` for a range outside */
  slice(rows: readonly [number, number], columns: readonly [number, number] = [0, this.columns]): Matrix {
    checkRange("slice: rows", rows, this.rows);
    checkRange("slice: columns", columns, this.columns);
    const size: Size = [rows[1] - rows[0], columns[1] - columns[0]];
    if (isSize(this.shape, ...size)) return this;
    return apply(others.slice, [this, startOf(rows[0]), startOf(columns[0])], size);
  }

  /** A matrix with `part` written over it from a row and a column on. @throws HeddleError `shape` if the part does not fit */
  update(part: MatrixLike, row: number, column: number): Matrix {
    const value = checked("update", part);
    checkRange("update: rows", [row, row + value.rows], this.rows);
    checkRange("update: columns", [column, column + value.columns], this.columns);
    if (isSize(this.shape, ...value.shape)) return value;
    return apply(others.update, [this, value, startOf(row), startOf(column)], this.shape);
  }

  /** The rows, or with axis 1 the columns, at positions from 0. @throws HeddleError `shape` for a position outside */
  take(positions: ArrayLike<number>, axis: Axis = 0): Matrix {
    checkAxis("take", axis);
    const { [axis]: length } = this.shape;
    for (const position of Array.from(positions)) checkRange("take", [position, position + 1], length);
    const at = Matrix.of(indexExpression(positions, [positions.length]));
    const size: Size = axis === 0 ? [positions.length, this.columns] : [this.rows, positions.length];
    return apply(others.take, [this, at], size, { dim: axis });
  }

  /** The sum of all elements (1x1), of each column (axis 0: one row) or of each row (axis 1: one column). */
  sum(axis?: Axis): Matrix {
    return aggregate("sum", this, axis);
  }
  /** The mean, over what {@link Matrix.sum} adds up. NaN of no elements. */
  mean(axis?: Axis): Matrix {
    return aggregate("mean", this, axis);
  }
  /** The least element, over what {@link Matrix.sum} adds up. NaN if an element is NaN, Infinity of no elements. */
  min(axis?: Axis): Matrix {
    return aggregate("min", this, axis);
  }
  /** The largest element, over what {@link Matrix.sum} adds up. NaN if an element is NaN, -Infinity of no elements. */
  max(axis?: Axis): Matrix {
    return aggregate("max", this, axis);
  }
  /** The product, over what {@link Matrix.sum} adds up. */
  prod(axis?: Axis): Matrix {
    return aggregate("prod", this, axis);
  }
  /** The position, from 0, of the first largest element of each column (axis 0) or row (axis 1). */
  argmax(axis: Axis): Matrix {
    return aggregate("argmax", this, axis);
  }
  /** The position, from 0, of the first least element of each column (axis 0) or row (axis 1). */
  argmin(axis: Axis): Matrix {
    return aggregate("argmin", this, axis);
  }

  /** The variance, divided by the number of elements less `ddof` (default 0, as in NumPy). */
  var(axis?: Axis, { ddof = 0 }: { readonly ddof?: number } = {}): Matrix {
    if (axis !== undefined) checkAxis("var", axis);
    const elements = axis === undefined ? this.size : this.shape[axis];
    // Of no elements the variance is NaN, whatever ddof is.
    const count = elements === 0 ? ddof : elements;
    const centred = this.sub(this.mean(axis));
    return unary("square", centred)
      .sum(axis)
      .div(count - ddof);
  }

  /** The root of {@link Matrix.var}. */
  std(axis?: Axis, options?: { readonly ddof?: number }): Matrix {
    return unary("sqrt", this.var(axis, options));
  }

  /** Running sums down the columns (axis 0) or along the rows (axis 1). */
  cumsum(axis: Axis): Matrix {
    return cumulative("cumsum", this, axis);
  }
  /** Running products, as {@link Matrix.cumsum}. */
  cumprod(axis: Axis): Matrix {
    return cumulative("cumprod", this, axis);
  }
  /** The least element so far, as {@link Matrix.cumsum}. */
  cummin(axis: Axis): Matrix {
    return cumulative("cummin", this, axis);
  }
  /** The largest element so far, as {@link Matrix.cumsum}. */
  cummax(axis: Axis): Matrix {
    return cumulative("cummax", this, axis);
  }

  /** Type and size; the elements are in {@link Matrix.array}. */
  toString(): string {
    return `Matrix(${formatSize(this.shape)})`;
  }

  /** What `console.log` shows: elements that are there, else what they are to be computed by; it computes nothing. @internal */
  [inspectMethod](): string {
    return inspectMatrix(this.expression);
  }
}

const rowsOf = (data: Float64Array, [rows, columns]: Size): number[][] =>
  Array.from({ length: rows }, (_unused, row) => Array.from(data.subarray(row * columns, (row + 1) * columns)));

export function checkRange(what: string, [from, to]: readonly [number, number], length: number): void {
  if (Number.isInteger(from) && Number.isInteger(to) && from >= 0 && to <= length && from <= to) return;
  throw new HeddleError("shape", `${what} ${from} to ${to} are outside of 0 to ${length}`);
}

const startOf = (start: number): Matrix => Matrix.of(indexExpression([start], [1]));

/** An operand as a matrix. @throws HeddleError `argument` for anything but a matrix or a number */
export function checked(what: string, operand: unknown): Matrix {
  if (operand instanceof Matrix) return operand;
  if (typeof operand === "number") return Matrix.of(numberExpression(operand));
  throw new HeddleError("argument", `${what}: takes a matrix or a number, got ${shown(operand)}`, {
    hint: "make a matrix of rows or of a tensor with matrix(…)",
  });
}

/** An expression that has no value yet. */
export function apply(operator: Operator, inputs: readonly Matrix[], size: Size, attrs: MatrixAttrs = noAttrs): Matrix {
  const operands = inputs.map(({ expression }) => expression);
  return Matrix.of(pending(operator, operands, size, attrs));
}

/** A function of a table by its name. */
function named<Name extends string>(what: string, table: Readonly<Record<Name, Operator>>, name: Name): Operator {
  if (Object.hasOwn(table, name)) return table[name];
  throw new HeddleError("argument", `${what}: there is no function ${shown(name)}`, {
    hint: `there are ${Object.keys(table).join(", ")}`,
  });
}

/** An elementwise function. @throws HeddleError `argument` for anything but a matrix or a number */
export const unary = (name: UnaryName, x: MatrixLike): Matrix => {
  const operand = checked(name, x);
  const kept = unaryOfEntries(name, operand.expression);
  return kept === undefined ? apply(named("unary", unaries, name), [operand], operand.shape) : Matrix.of(kept);
};

/**
 * An elementwise function of two matrices of one size; a row, a column or a 1x1 matrix is repeated to fill the other.
 *
 * @throws HeddleError `shape` for sizes that do not fit
 */
export function binary(name: BinaryName, left: MatrixLike, right: MatrixLike): Matrix {
  const [x, y] = [checked(name, left), checked(name, right)];
  const sides = x.shape.map((size, dim) => {
    const other = y.shape[dim] as number;
    if (size === other || other === 1) return size;
    if (size === 1) return other;
    throw new HeddleError("shape", `${name}: ${formatSize(x.shape)} and ${formatSize(y.shape)} do not fit`);
  });
  const kept = binaryOfEntries(name, x.expression, y.expression);
  if (kept !== undefined) return Matrix.of(kept);
  if (name === "pow" && y.expression.stored?.host?.data[0] === 2 && y.size === 1) return unary("square", x);
  return apply(named("binary", binaries, name), [x, y], sides as unknown as Size);
}

/** @throws HeddleError `argument` for anything but 0 and 1 */
export function checkAxis(what: string, axis: unknown): void {
  if (axis !== 0 && axis !== 1)
    throw new HeddleError(
      "argument",
      `${what}: the axis is 0 (down the rows) or 1 (along the rows), got ${shown(axis)}`,
    );
}

/** What an aggregate of no elements gives. */
const ofNone: Readonly<Partial<Record<AggregateName, number>>> = { min: Infinity, max: -Infinity, mean: Number.NaN };

/**
 * An aggregate of all elements, of each column (axis 0) or of each row (axis 1). Of no elements the sum is 0, the product 1, the least
 * element Infinity, the largest -Infinity, and the mean NaN.
 *
 * @throws HeddleError `argument` for another axis; `shape` for the position of an extremum of no elements
 */
export function aggregate(name: AggregateName, x: MatrixLike, axis?: Axis): Matrix {
  const operand = checked(name, x);
  if (axis !== undefined) checkAxis(name, axis);
  const over: Over = axis === undefined ? "all" : axis === 0 ? "columns" : "rows";
  const size: Size = [over === "rows" ? operand.rows : 1, over === "columns" ? operand.columns : 1];
  const isEmpty = axis === undefined ? operand.size === 0 : operand.shape[axis] === 0;
  const entries = name === "sum" ? entriesOf(operand.expression) : undefined;
  if (entries !== undefined) return sumOfEntries(entries, over, size);
  if (isEmpty && name !== "sum" && name !== "prod") {
    const value = ofNone[name];
    if (value === undefined)
      throw new HeddleError("shape", `${name}: there are no elements in ${formatSize(operand.shape)}`);
    return apply(others.fill, [Matrix.of(numberExpression(value))], size);
  }
  return apply(named("aggregate", aggregates, name), [operand], size, { over });
}

/** Sums of entries by what is there, without the dense matrix. */
function sumOfEntries({ values, rows, columns }: Entries, over: Over, size: Size): Matrix {
  const all = Matrix.of(values);
  if (over === "all") return apply(aggregates.sum, [all], size, { over });
  return apply(others.table, [all, Matrix.of(over === "rows" ? rows : columns)], size);
}

/** An aggregate of the elements so far, down the rows (axis 0) or along them (axis 1). */
export function cumulative(name: CumulativeName, x: Matrix, axis: Axis): Matrix {
  checkAxis(name, axis);
  return apply(named("cumulative", cumulatives, name), [checked(name, x)], x.shape, { dim: axis });
}
