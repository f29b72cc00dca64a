/** @module Functions that make matrices, join them, and compute several at once. */

import { grad, isTensor, type NestedNumbers, random, type Tensor, tensor } from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type Entries, ofEntries } from "./entries.ts";
import {
  type Expression,
  hostOf,
  indexExpression,
  numberExpression,
  type Operator,
  type Size,
  storedExpression,
} from "./expression.ts";
import { type Axis, apply, binary, checkAxis, checked, checkRange, Matrix, type MatrixLike, unary } from "./matrix.ts";
import { others } from "./operators.ts";
import { applied, evaluateExpressions, gatherFor, recorded, tensorOf } from "./programs.ts";

/**
 * A matrix of rows, of numbers (one column), or of a tensor f64[rows, columns] (others are cast; a vector is one column).
 *
 * @throws HeddleError `shape` for rows that differ in length or more than two dims; `argument` for anything else
 */
export function matrix(values: Tensor | NestedNumbers): Matrix {
  const given = isTensor(values) ? values : tensor(values, { dtype: "f64" });
  if (given.shape.length > 2) throw new HeddleError("shape", `matrix: takes at most two dims, got ${given.toString()}`);
  const [rows = 1, columns = 1] = given.shape;
  const two = given.shape.length === 2 ? given : given.reshape([rows, columns]);
  const wide = two.dtype === "f64" ? two : two.cast("f64");
  if (wide.isTraced) return Matrix.of(storedExpression({ tensor: wide }, [rows, columns]));
  return dense(wide.dataSync() as Float64Array, rows, columns);
}

/** A matrix of f64 elements in row-major order, which it keeps. */
export function dense(data: Float64Array, rows: number, columns: number): Matrix {
  if (data.length !== rows * columns)
    throw new HeddleError("shape", `matrix: ${data.length} numbers do not fill ${rows}x${columns}`);
  return Matrix.of(storedExpression({ host: { dtype: "f64", shape: [rows, columns], data } }, [rows, columns]));
}

/**
 * A matrix that keeps its entries: `values` at (`rows`, `columns`), counted from 0, and 0 elsewhere; entries of one place add up.
 * Products, multiples, transposes, sums and products element by element use the entries alone where that costs less; where places ascend row
 * by row, so that each is there once, functions that take 0 to 0 do, too. Other functions get all elements.
 *
 * @throws HeddleError `shape` unless the lists have one length and lie within `shape`
 */
export function entries(
  values: ArrayLike<number>,
  rows: ArrayLike<number>,
  columns: ArrayLike<number>,
  shape: Size,
): Matrix {
  const { length } = values;
  if (rows.length !== length || columns.length !== length)
    throw new HeddleError("shape", `entries: ${length} values, ${rows.length} rows, ${columns.length} columns`);
  checkPlaces("entries", rows, columns, shape);
  const data = { dtype: "f64" as const, shape: [length, 1], data: Float64Array.from(values) };
  const at = (places: ArrayLike<number>): Expression => indexExpression(places, [length]);
  const kept: Entries = {
    values: storedExpression({ host: data }, [length, 1]),
    rows: at(rows),
    columns: at(columns),
    size: shape,
    distinct: isAscending(rows, columns),
  };
  return Matrix.of(ofEntries(kept));
}

/** Whether places ascend, row by row, so that none is there twice. */
function isAscending(rows: ArrayLike<number>, columns: ArrayLike<number>): boolean {
  for (let at = 1; at < rows.length; at++) {
    const down = (rows[at] as number) - (rows[at - 1] as number);
    if (down < 0 || (down === 0 && (columns[at] as number) <= (columns[at - 1] as number))) return false;
  }
  return true;
}

/** A matrix of one number. */
export function full(rows: number, columns: number, value: MatrixLike): Matrix {
  checkInteger("full", "rows", rows, 0);
  checkInteger("full", "columns", columns, 0);
  return apply(others.fill, [checked("full", value)], [rows, columns]);
}

/** A matrix of zeros. */
export const zeros = (rows: number, columns: number): Matrix => full(rows, columns, 0);

/** A matrix of ones. */
export const ones = (rows: number, columns: number): Matrix => full(rows, columns, 1);

/** The identity. */
export const eye = (rows: number): Matrix => diag(ones(rows, 1));

/** Options of {@link rand}. */
export interface RandOptions {
  /** The seed, a whole number from 0 on; the same seed and size give the same numbers. */
  readonly seed: number;
  /** `"uniform"` (default): from 0 to 1; `"normal"`: of mean 0 and variance 1. */
  readonly distribution?: "uniform" | "normal";
}

/** Random numbers. @throws HeddleError `option` for a malformed option */
export function rand(rows: number, columns: number, options: RandOptions): Matrix {
  checkOptions("rand", options, ["seed", "distribution"]);
  checkInteger("rand", "rows", rows, 0);
  checkInteger("rand", "columns", columns, 0);
  const { distribution = "uniform" } = options;
  if (distribution !== "uniform" && distribution !== "normal")
    throw new HeddleError("option", `rand: there is no distribution ${shown(distribution)}`);
  const key = storedExpression({ tensor: random.key(options.seed) }, [2, 1]);
  return apply(others.random, [Matrix.of(key)], [rows, columns], { normal: distribution === "normal" });
}

/** The column `from`, `from + step`, … up to `to`, which belongs to it; a last number that is off by rounding counts. */
export function seq(from: number, to: number, step: number = from <= to ? 1 : -1): Matrix {
  checkNumber("seq", "from", from);
  checkNumber("seq", "to", to);
  if (step === 0 || !Number.isFinite(step)) throw new HeddleError("option", `seq: the step is ${step}`);
  const count = Math.max(0, Math.floor((to - from) / step + 1 + 1e-10));
  return dense(
    Float64Array.from({ length: count }, (_unused, index) => from + index * step),
    count,
    1,
  );
}

/** Joins matrices below each other (axis 0) or side by side (axis 1). @throws HeddleError `shape` for sizes that do not fit */
export function concatenate(parts: readonly Matrix[], axis: Axis = 0): Matrix {
  if (!Array.isArray(parts) || parts.length === 0)
    throw new HeddleError("argument", `concatenate: takes at least one matrix, got ${shown(parts)}`);
  checkAxis("concatenate", axis);
  const list = parts.map((part) => checked("concatenate", part));
  const across = (1 - axis) as Axis;
  const [first] = list as [Matrix];
  const odd = list.find(({ shape }) => shape[across] !== first.shape[across]);
  if (odd !== undefined)
    throw new HeddleError(
      "shape",
      `concatenate: ${first.toString()} and ${odd.toString()} do not fit along axis ${axis}`,
    );
  const length = list.reduce((sum, { shape }) => sum + shape[axis], 0);
  if (list.length === 1) return first;
  return apply(others.concat, list, axis === 0 ? [length, first.columns] : [first.rows, length], { dim: axis });
}

/** `test ? x : y` elementwise: what is not 0 counts as true; rows, columns and 1x1 matrices are repeated. */
export function where(test: MatrixLike, x: MatrixLike, y: MatrixLike): Matrix {
  const operands = [test, x, y].map((operand) => checked("where", operand));
  const size = binary("add", binary("add", operands[0] as Matrix, operands[1] as Matrix), operands[2] as Matrix).shape;
  return apply(others.select, operands, size);
}

/** A square matrix with this column on its diagonal, or the diagonal of a square matrix as a column. @throws HeddleError `shape` for others */
export function diag(x: Matrix): Matrix {
  const operand = checked("diag", x);
  if (operand.columns === 1) return apply(others.diag, [operand], [operand.rows, operand.rows]);
  checkSquare("diag", operand);
  return apply(others.diagonal, [operand], [operand.rows, 1]);
}

function checkSquare(what: string, { rows, columns }: Matrix): void {
  if (rows !== columns) throw new HeddleError("shape", `${what}: takes a square matrix, got ${rows}x${columns}`);
}

/** x with zeros below (`"upper"`) or above (`"lower"`) diagonal k. */
export const triangle = (x: Matrix, side: "lower" | "upper", k = 0): Matrix =>
  apply(others.triangle, [checked("triangle", x)], x.shape, { lower: side === "lower", k });

/** The rows in reverse order. */
export const flip = (x: Matrix): Matrix => apply(others.reverse, [checked("flip", x)], x.shape);

/**
 * Sums of `weights` in a matrix of this size: weight i is added at (rows[i], columns[i]), counted from 0.
 *
 * @throws HeddleError `shape` unless weights, rows and columns have one length and lie within `shape`
 */
export function table(weights: Matrix, rows: ArrayLike<number>, columns: ArrayLike<number>, shape: Size): Matrix {
  const { size } = checked("table", weights);
  if (rows.length !== size || columns.length !== size)
    throw new HeddleError("shape", `table: ${size} weights, ${rows.length} rows, ${columns.length} columns`);
  checkPlaces("table", rows, columns, shape);
  const at = Array.from(rows, (row, index) => row * shape[1] + (columns[index] as number));
  return apply(others.table, [weights, Matrix.of(indexExpression(at, [at.length]))], shape);
}

function checkPlaces(what: string, rows: ArrayLike<number>, columns: ArrayLike<number>, shape: Size): void {
  const sides: readonly unknown[] = Array.isArray(shape) ? shape : [];
  if (sides.length !== 2 || !sides.every((side) => Number.isSafeInteger(side) && (side as number) >= 0))
    throw new HeddleError("argument", `${what}: shape must be [rows, columns], got ${shown(shape)}`);
  const [inRows, inColumns] = [`${what}: rows`, `${what}: columns`];
  for (let index = 0; index < rows.length; index++) {
    const [row, column] = [rows[index] as number, columns[index] as number];
    checkRange(inRows, [row, row + 1], shape[0]);
    checkRange(inColumns, [column, column + 1], shape[1]);
  }
}

/** X with A X = B. @throws HeddleError `shape`; `value` when it is computed and A is singular */
export function solve(a: Matrix, b: Matrix): Matrix {
  checkSquare("solve", checked("solve", a));
  if (a.rows !== checked("solve", b).rows)
    throw new HeddleError("shape", `solve: ${a.toString()} and ${b.toString()} have different numbers of rows`);
  return apply(others.solve, [a, b], [a.rows, b.columns]);
}

/** The X for which the sum of squares of A X - B is least. A has at least as many rows as columns, and full rank. */
export function lstsq(a: Matrix, b: Matrix): Matrix {
  if (checked("lstsq", a).rows !== checked("lstsq", b).rows)
    throw new HeddleError("shape", `lstsq: ${a.toString()} and ${b.toString()} have different numbers of rows`);
  return apply(others.lstsq, [a, b], [a.columns, b.columns]);
}

const square = (what: string, operator: Operator) => (a: Matrix) => {
  checkSquare(what, checked(what, a));
  return apply(operator, [a], a.shape);
};

/** The inverse. @throws HeddleError `shape`; `value` when it is computed and the matrix is singular */
export const inv: (a: Matrix) => Matrix = square("inv", others.inverse);

/** The lower triangle L with L Lᵀ = A. @throws HeddleError `shape`; `value` when it is computed and A is not positive definite */
export const cholesky: (a: Matrix) => Matrix = square("cholesky", others.cholesky);

/** The determinant, 1x1. */
export function det(a: Matrix): Matrix {
  checkSquare("det", checked("det", a));
  return apply(others.determinant, [a], [1, 1]);
}

/** Eigenvalues, ascending, as a column, and eigenvectors as columns, of a symmetric matrix. */
export function eigh(a: Matrix): { readonly values: Matrix; readonly vectors: Matrix } {
  checkSquare("eigh", checked("eigh", a));
  return {
    values: apply(others.eigenvalues, [a], [a.rows, 1]),
    vectors: apply(others.eigenvectors, [a], a.shape),
  };
}

/** U, the singular values as a column, descending, and V with A = U diag(S) Vᵀ. */
export function svd(a: Matrix): { readonly u: Matrix; readonly s: Matrix; readonly v: Matrix } {
  const rank = Math.min(checked("svd", a).rows, a.columns);
  return {
    u: apply(others.svdU, [a], [a.rows, rank]),
    s: apply(others.svdS, [a], [rank, 1]),
    v: apply(others.svdV, [a], [a.columns, rank]),
  };
}

/** Q with orthonormal columns and upper triangular R with Q R = A. */
export function qr(a: Matrix): { readonly q: Matrix; readonly r: Matrix } {
  const rank = Math.min(checked("qr", a).rows, a.columns);
  return { q: apply(others.qrQ, [a], [a.rows, rank]), r: apply(others.qrR, [a], [rank, a.columns]) };
}

/** P, L and U with A = Pᵀ L U in the convention P A = L U. */
export function lu(a: Matrix): { readonly p: Matrix; readonly l: Matrix; readonly u: Matrix } {
  checkSquare("lu", checked("lu", a));
  return {
    p: apply(others.luP, [a], a.shape).T,
    l: apply(others.luL, [a], a.shape),
    u: apply(others.luU, [a], a.shape),
  };
}

/**
 * Computes matrices together, as one program: the end of a block. In a loop, call it with what the next iteration reads: reading only
 * one of the values leaves the others to be computed later, from the beginning.
 */
export function evaluate(...matrices: readonly Matrix[]): void {
  evaluateExpressions(matrices.filter(({ format }) => format === "dense").map(({ expression }) => expression));
}

/**
 * The value of a function of matrices and its gradients with respect to each of them. The function may read values on the way, as loops
 * and conditions do: they count as constants. Its result is 1x1.
 *
 * @throws HeddleError `shape` unless the result is 1x1; `gradient` for an operation without a derivative
 */
export function gradient(
  fn: (...parameters: Matrix[]) => Matrix,
  parameters: readonly Matrix[],
): { readonly value: Matrix; readonly gradients: Matrix[] } {
  const stored = parameters.map((parameter) => {
    evaluateExpressions([checked("gradient", parameter).expression]);
    return Matrix.of({ ...parameter.expression, operator: undefined, inputs: [] });
  });
  const given = stored.map(({ expression }) => expression);
  const value = recorded(given, () => {
    const result = fn(...stored);
    if (!(result instanceof Matrix) || result.size !== 1)
      throw new HeddleError("shape", `gradient: the function gives ${shown(result)}, not a 1x1 matrix`);
    return result;
  });
  const computed = recorded(given, () => {
    evaluateExpressions([value.expression]);
    return value;
  });
  gatherFor([value.expression], new Set(given));
  const slopes = grad((tensors: readonly Tensor[]) => {
    const at = new Map(given.map((expression, index) => [expression, tensors[index] as Tensor]));
    return (applied([value.expression], at)[0] as Tensor).reshape([]);
  });
  const tensors = slopes(given.map(({ stored }) => tensorOf(stored as object))) as Tensor[];
  return {
    value: dense(Float64Array.from(hostOf(computed.expression.stored as object).data), 1, 1),
    gradients: tensors.map((slope) => matrix(slope)),
  };
}

/** A 1x1 matrix of a number. */
export const scalar = (value: number): Matrix => Matrix.of(numberExpression(value));

export { unary };
