/** @module Examples divided into parts for fitting and testing. */

import { evaluate, type Matrix } from "../matrix/index.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { featuresOf, labelsOf, type MatrixData, targetsOf } from "./data.ts";
import { permutation, uniforms } from "./random.ts";

/** Options of {@link trainTestSplit}. */
export interface SplitOptions {
  /** The part of the examples for testing, between 0 and 1; default 0.25. */
  readonly test?: number;
  /** Default 0. */
  readonly seed?: number;
  /** Whether both parts have each label as often, as far as counts allow; default false. */
  readonly stratify?: boolean;
}

/** Examples and targets of both parts. */
export interface Split {
  readonly trainX: Matrix;
  readonly trainY: Matrix;
  readonly testX: Matrix;
  readonly testY: Matrix;
}

/** Options of {@link folds}. */
export interface FoldOptions {
  /** The number of parts; default 5. */
  readonly folds?: number;
  /** A seed by which examples are shuffled first; without one they stay in order. */
  readonly seed?: number;
  /** The labels that each part shall have as often, as far as counts allow. */
  readonly stratify?: MatrixData;
}

/** Positions of the examples of both parts, ascending. */
export interface Fold {
  readonly train: Int32Array;
  readonly test: Int32Array;
}

/** Examples group by group, in each the order that is given. */
function grouped(order: Int32Array, codes: Int32Array | undefined): Int32Array[] {
  if (codes === undefined) return [order];
  const groups: number[][] = [];
  for (const row of order) {
    const code = codes[row] as number;
    groups[code] ??= [];
    groups[code].push(row);
  }
  return groups.map((rows) => Int32Array.from(rows));
}

const rowsOf = (x: Matrix, rows: Int32Array): Matrix => x.take(rows);

/**
 * Examples in random order, divided into some for fitting and some for testing.
 *
 * @throws HeddleError `shape` when a part would be empty
 */
export function trainTestSplit(x: MatrixData, y: MatrixData, options: SplitOptions = {}): Split {
  checkOptions("trainTestSplit", options, ["test", "seed", "stratify"]);
  const { test = 0.25, seed = 0, stratify = false } = options;
  checkNumber("trainTestSplit", "test", test, 0, 1);
  const features = featuresOf("trainTestSplit", x);
  const targets = targetsOf("trainTestSplit", y, features.rows);
  const order = permutation(features.rows, uniforms("trainTestSplit", seed));
  const codes = stratify ? labelsOf("trainTestSplit", targets, features.rows).codes : undefined;
  const isTest = new Uint8Array(features.rows);
  for (const rows of grouped(order, codes))
    for (const row of rows.subarray(0, Math.round(test * rows.length))) isTest[row] = 1;
  const [tested, trained] = [order.filter((row) => isTest[row] === 1), order.filter((row) => isTest[row] === 0)];
  if (tested.length === 0 || trained.length === 0)
    throw new HeddleError(
      "shape",
      `trainTestSplit: ${test} of ${plural(features.rows, "example")} leaves a part empty`,
    );
  const split = {
    trainX: rowsOf(features, trained),
    trainY: rowsOf(targets, trained),
    testX: rowsOf(features, tested),
    testY: rowsOf(targets, tested),
  };
  evaluate(split.trainX, split.trainY, split.testX, split.testY);
  return split;
}

/**
 * Parts of 0 … examples - 1, each of which tests what is fitted to the others.
 *
 * @throws HeddleError `option` for more parts than examples
 */
export function folds(examples: number, options: FoldOptions = {}): Fold[] {
  checkOptions("folds", options, ["folds", "seed", "stratify"]);
  checkInteger("folds", "examples", examples, 2);
  const { folds: count = 5, seed, stratify } = options;
  checkInteger("folds", "folds", count, 2, examples);
  const order =
    seed === undefined
      ? Int32Array.from({ length: examples }, (_unused, row) => row)
      : permutation(examples, uniforms("folds", seed));
  const codes = stratify === undefined ? undefined : labelsOf("folds", stratify, examples).codes;
  const part = new Int32Array(examples);
  let dealt = 0;
  // Of labels the examples are dealt out, one to each part; without labels parts are runs of the order, the first ones longer.
  for (const rows of grouped(order, codes))
    for (const [at, row] of rows.entries())
      part[row] = codes === undefined ? runOf(at, examples, count) : dealt++ % count;
  const all = Int32Array.from({ length: examples }, (_unused, row) => row);
  return Array.from({ length: count }, (_unused, fold) => ({
    train: all.filter((row) => part[row] !== fold),
    test: all.filter((row) => part[row] === fold),
  }));
}

/** The run of place `at` among `count` runs whose lengths differ by one at most, longer ones first. */
function runOf(at: number, length: number, count: number): number {
  const [short, longer] = [Math.floor(length / count), length % count];
  const before = longer * (short + 1);
  return at < before ? Math.floor(at / (short + 1)) : longer + Math.floor((at - before) / short);
}
