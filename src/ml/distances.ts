/**
 * @module Euclidean distances by products, |a|² - 2ab + |b|², which is fast and cancels far from 0: rows are moved to around 0 first, which leaves
 * distances as they are, and what rounding could decide is computed from differences.
 */

import { binary, evaluate, type Matrix } from "../matrix/index.ts";

export const squares = (x: Matrix): Matrix => x.mul(x).sum(1);

/** Squared distances of rows to centres, less the squares of the rows. */
export const relative = (x: Matrix, centres: Matrix): Matrix => x.matmul(centres.T).mul(-2).add(squares(centres).T);

/** The transpose of {@link relative}, where what is done for each row is done for many of them side by side. */
export const across = (x: Matrix, centres: Matrix): Matrix => centres.matmul(x.T).mul(-2).add(squares(centres));

/** Rows of several matrices around the mean of the first one, and that mean. */
export function around<Others extends readonly Matrix[]>(
  x: Matrix,
  ...others: Others
): readonly [x: Matrix, middle: Matrix, ...others: { [At in keyof Others]: Matrix }] {
  const middle = x.mean(0);
  const moved = [x, ...others].map((rows) => rows.sub(middle));
  evaluate(middle, ...moved);
  const [first, ...rest] = moved as [Matrix, ...{ [At in keyof Others]: Matrix }];
  return [first, middle, ...rest];
}

/** The squared distance of two rows, from the differences of their elements: 0 for equal rows alone, unless it underflows. */
export function squareBetween(x: Float64Array, row: number, y: Float64Array, other: number, columns: number): number {
  let sum = 0;
  for (let column = 0; column < columns; column++) {
    const difference = (x[row * columns + column] as number) - (y[other * columns + column] as number);
    sum += difference * difference;
  }
  return sum;
}

/** Squared distances of one row to all rows of another matrix. */
export interface Distances {
  /** Each within {@link Distances.error} of the distance. */
  readonly rough: Float64Array;
  readonly error: number;
  /** The distance to a row, from differences. */
  exact(place: number): number;
}

/** Elements of the distances that are held at once. */
const blockElements = 4e6;

/** Calls `take` with the squared distances of each row of `queries` to all rows of `x`; the arrays are used again for the next block. */
export function eachRowOfDistances(
  queries: Matrix,
  x: Matrix,
  take: (row: number, distances: Distances) => void,
): void {
  const { columns } = x;
  const [target, , asked] = around(x, queries);
  const [own, others] = [squares(asked), squares(target)];
  evaluate(own, others);
  const [from, to, norms] = [queries.dataSync(), x.dataSync(), own.dataSync()];
  // Each of the sums is of `columns` products, and rows were rounded when they were moved.
  const rounding = 4 * (columns + 8) * Number.EPSILON;
  const largest = others.max().itemSync();
  const step = Math.max(1, Math.floor(blockElements / x.rows));
  for (let first = 0; first < queries.rows; first += step) {
    const range: [number, number] = [first, Math.min(first + step, queries.rows)];
    const far = asked.slice(range).matmul(target.T).mul(-2).add(others.T).add(own.slice(range));
    const data = binary("max", far, 0).dataSync();
    for (let row = range[0]; row < range[1]; row++)
      take(row, {
        rough: data.subarray((row - first) * x.rows, (row - first + 1) * x.rows),
        error: rounding * ((norms[row] as number) + largest),
        exact: (place) => squareBetween(from, row, to, place, columns),
      });
  }
}
