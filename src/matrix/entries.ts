/**
 * @module What stays entries: transposes, multiples, products with rows, columns and matrices element by element, sums of matrices with the same
 * places, and functions that take 0 to 0. An element that is no entry counts as 0 whatever it is multiplied with, as in SystemDS.
 */

import {
  cells,
  type Expression,
  indexExpression,
  isSize,
  type MatrixAttrs,
  noAttrs,
  type Operator,
  type Size,
} from "./expression.ts";
import { type BinaryName, binaries, others, type UnaryName, unaries } from "./operators.ts";
import { estimateNonzeros, keepZero } from "./statistics.ts";

/** An expression that has no value yet. */
export function pending(
  operator: Operator,
  inputs: readonly Expression[],
  size: Size,
  attrs: MatrixAttrs = noAttrs,
): Expression {
  const nonzeros = estimateNonzeros(operator.name, inputs, size);
  return { size, operator, attrs, inputs, stored: undefined, nonzeros };
}

/** A matrix as it is kept: values and their places. */
export interface Entries {
  readonly values: Expression;
  readonly rows: Expression;
  readonly columns: Expression;
  readonly size: Size;
  /** Whether each place has one entry at most; otherwise those of one place add up, and only linear functions go by entries. */
  readonly distinct: boolean;
}

/** The entries of an expression that keeps them. */
export function entriesOf({ operator, inputs, size, attrs }: Expression): Entries | undefined {
  if (operator?.kept !== true) return undefined;
  const [values, rows, columns] = inputs as readonly [Expression, Expression, Expression];
  return { values, rows, columns, size, distinct: attrs["distinct"] === true };
}

export const ofEntries = ({ values, rows, columns, size, distinct }: Entries): Expression =>
  pending(others.entries, [values, rows, columns], size, distinct ? { distinct } : noAttrs);

/** The transpose: columns are rows. */
export const transposed = (entries: Entries): Expression => {
  const [rows, columns] = entries.size;
  return ofEntries({ ...entries, rows: entries.columns, columns: entries.rows, size: [columns, rows] });
};

/** A function of each element, where it takes 0 to 0. */
export function unaryOfEntries(name: UnaryName, x: Expression): Expression | undefined {
  const entries = keepZero.has(name) ? entriesOf(x) : undefined;
  if (entries === undefined || !(entries.distinct || name === "neg")) return undefined;
  return ofEntries({ ...entries, values: pending(unaries[name], [entries.values], entries.values.size) });
}

/** A function of two matrices, at least one of them of entries, where the result has the same entries. */
export function binaryOfEntries(name: BinaryName, x: Expression, y: Expression): Expression | undefined {
  const [left, right] = [entriesOf(x), entriesOf(y)];
  const samePlaces = left !== undefined && left.rows === right?.rows && left.columns === right.columns;
  if (samePlaces && (name === "add" || name === "sub" || (name === "mul" && left.distinct)))
    return ofEntries({ ...left, values: pending(binaries[name], [left.values, right.values], left.values.size) });
  if (name !== "mul") return undefined;
  const entries = left ?? right;
  if (entries === undefined) return undefined;
  const factors = elementsAt(entries, left === undefined ? x : y);
  if (factors === undefined) return undefined;
  return ofEntries({ ...entries, values: pending(binaries.mul, [entries.values, factors], entries.values.size) });
}

/** Positions within a matrix are i32. */
const mostPositions = 2 ** 31;

/** The elements of another matrix at the places of entries, as a column, or 1x1; undefined where all of it would be no cheaper. */
function elementsAt({ values, rows, columns, size }: Entries, of: Expression): Expression | undefined {
  if (isSize(of.size, 1, 1)) return of;
  const taken = (from: Expression, at: Expression): Expression =>
    pending(others.take, [from, at], [values.size[0], from.size[1]], { dim: 0 });
  if (isSize(of.size, size[0], 1)) return taken(of, rows);
  if (isSize(of.size, 1, size[1])) return taken(across(of), columns);
  if (!isSize(of.size, ...size) || of.operator?.kept === true) return undefined;
  const [u, v] = of.inputs;
  if (of.operator === others.matmul && of.stored === undefined && u !== undefined && v !== undefined) {
    // The product of U and V at these places alone: rows of U times columns of V.
    return pending(others.sampled, [u, across(v), rows, columns], values.size);
  }
  const [at, to] = [rows.stored?.host?.data, columns.stored?.host?.data];
  if (at === undefined || to === undefined || cells(size) >= mostPositions) return undefined;
  const places = Int32Array.from(at, (row, index) => Number(row) * size[1] + Number(to[index]));
  return taken(pending(others.reshape, [of], [cells(size), 1]), indexExpression(places, [places.length]));
}

/** The transpose, of which that of a transpose is what it was made of. */
function across(x: Expression): Expression {
  const [inner] = x.inputs;
  return x.operator === others.transpose && inner !== undefined && x.stored === undefined
    ? inner
    : pending(others.transpose, [x], [x.size[1], x.size[0]]);
}
