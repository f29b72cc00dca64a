/** @module Cross-validation, and the best options of an estimator by it. */

import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { featuresOf, type MatrixData, targetsOf } from "./data.ts";
import { checkEstimator, type Estimator, type Model, type Predictor } from "./model.ts";
import type { Categories } from "./prepare.ts";
import { accuracyScore, r2Score, type Score } from "./scores.ts";
import { type Fold, folds } from "./split.ts";

/** Options of {@link crossValidate} and {@link gridSearch}. */
export interface ValidationOptions {
  /** The number of parts, or the parts; default 5, of which each has the labels of a classifier as often. */
  readonly folds?: number | readonly Fold[];
  /** Larger is better; default the accuracy of classifiers, and R² of others. */
  readonly score?: Score;
  /** A seed by which examples are shuffled before they are divided. */
  readonly seed?: number;
}

const optionNames = ["folds", "score", "seed"];

const isPredictor = (model: Model): model is Predictor => typeof (model as Partial<Predictor>).predict === "function";

function partsOf(
  what: string,
  y: MatrixData,
  rows: number,
  { folds: given = 5, seed }: ValidationOptions,
  labelled: boolean,
): readonly Fold[] {
  if (typeof given === "number")
    return folds(rows, { folds: given, ...(seed !== undefined && { seed }), ...(labelled && { stratify: y }) });
  if (Array.isArray(given) && given.length > 0) return given as readonly Fold[];
  throw new HeddleError("option", `${what}: folds must be a number or parts, got ${shown(given)}`);
}

/** Whether an estimator's models have labels: kinds of classifiers and pipelines that end in one say so by their name. */
const isClassifier = ({ kind, options }: Estimator): boolean => {
  const steps = (options as { readonly steps?: Readonly<Record<string, Estimator>> }).steps;
  const last = kind === "pipeline" && steps !== undefined ? Object.values(steps).at(-1) : undefined;
  return last === undefined
    ? /Classifier$|NaiveBayes$|^logisticRegression$|^linearSvc$/.test(kind)
    : isClassifier(last);
};

/** Examples of which some are taken: a matrix, or rows with texts, which the encoder of a pipeline takes. */
function examplesOf(what: string, x: MatrixData | Categories) {
  const isText = (row: unknown): boolean =>
    Array.isArray(row) && row.some((value) => typeof value === "string" || typeof value === "boolean");
  if (!Array.isArray(x) || !x.some(isText)) {
    const features = featuresOf(what, x as MatrixData);
    return { rows: features.rows, take: (places: Int32Array): MatrixData => features.take(places) };
  }
  const list: readonly unknown[] = x;
  const take = (places: Int32Array): MatrixData => Array.from(places, (place) => list[place]) as MatrixData;
  return { rows: list.length, take };
}

/**
 * Scores of models that are fitted to all parts of the examples but one, on that part.
 *
 * @throws HeddleError `argument` for an estimator whose models do not predict; `value` for a score that is NaN
 */
export async function crossValidate(
  estimator: Estimator,
  x: MatrixData | Categories,
  y: MatrixData,
  options: ValidationOptions = {},
): Promise<number[]> {
  checkEstimator("crossValidate", estimator);
  checkOptions("crossValidate", options, optionNames);
  return scoresOf("crossValidate", estimator, x, y, options);
}

/** @param setting which options are tried, in words for errors; nothing where there is one setting alone */
async function scoresOf(
  what: string,
  estimator: Estimator,
  x: MatrixData | Categories,
  y: MatrixData,
  options: ValidationOptions,
  setting = "",
): Promise<number[]> {
  const features = examplesOf(what, x);
  const targets = targetsOf(what, y, features.rows);
  const labelled = isClassifier(estimator);
  const { score = labelled ? accuracyScore : r2Score } = options;
  if (typeof score !== "function")
    throw new HeddleError("option", `${what}: score must be a function, got ${shown(score)}`);
  const results: number[] = [];
  for (const [part, { train, test }] of partsOf(what, targets, features.rows, options, labelled).entries()) {
    const model = await estimator.fit(features.take(train), targets.take(train));
    if (!isPredictor(model)) throw new HeddleError("argument", `${what}: ${estimator.kind} does not predict`);
    const result = score(targets.take(test), model.predict(features.take(test)));
    if (typeof result !== "number" || Number.isNaN(result))
      throw new HeddleError("value", `${what}: the score of part ${part}${setting} is ${shown(result)}, no number`);
    results.push(result);
  }
  return results;
}

/** " of alpha 0.1, model ridge" */
const inWords = (changed: object): string => {
  const parts = Object.entries(changed).map(([name, value]) => {
    const { kind } = (value ?? {}) as { readonly kind?: unknown };
    return `${name} ${typeof kind === "string" ? kind : shown(value)}`;
  });
  return parts.length === 0 ? "" : ` of ${parts.join(", ")}`;
};

/** Values to try for each option. */
export type Grid<Options extends object> = { readonly [Name in keyof Options]?: readonly Options[Name][] };

/** What was tried, and the best of it. */
export interface SearchResult<Fitted extends Model, Options extends object> {
  /** The estimator with the best mean score; the first of equal ones. */
  readonly best: Estimator<Fitted, Options>;
  readonly score: number;
  /** The best estimator, fitted to all examples. */
  readonly model: Fitted;
  /** All combinations in the order of the grid, the last option changing fastest. */
  readonly tried: readonly {
    readonly options: Partial<Options>;
    readonly scores: readonly number[];
    readonly mean: number;
  }[];
}

function combinations<Options extends object>(grid: Grid<Options>): Partial<Options>[] {
  let all: Partial<Options>[] = [{}];
  for (const [name, values] of Object.entries(grid)) {
    if (!Array.isArray(values) || values.length === 0)
      throw new HeddleError("argument", `gridSearch: takes a list of values for ${name}, got ${shown(values)}`);
    all = all.flatMap((options) => values.map((value) => ({ ...options, [name]: value })));
  }
  return all;
}

/**
 * Tries all combinations of options by cross-validation, and fits the best one to all examples.
 *
 * @param grid such as `{ alpha: [0.1, 1, 10] }`; of a pipeline, options of its steps by `{ model: [ridge(), …] }`
 * @throws HeddleError as {@link crossValidate}; `value` names the options whose score is NaN
 */
export async function gridSearch<Fitted extends Model, Options extends object>(
  estimator: Estimator<Fitted, Options>,
  grid: Grid<Options>,
  x: MatrixData | Categories,
  y: MatrixData,
  options: ValidationOptions = {},
): Promise<SearchResult<Fitted, Options>> {
  checkEstimator("gridSearch", estimator);
  checkOptions("gridSearch", options, optionNames);
  if (typeof grid !== "object" || grid === null)
    throw new HeddleError("argument", `gridSearch: takes lists of values by option, got ${shown(grid)}`);
  const tried: { options: Partial<Options>; scores: number[]; mean: number }[] = [];
  for (const changed of combinations(grid)) {
    const one = estimator.with(changed) as unknown as Estimator;
    const scores = await scoresOf("gridSearch", one, x, y, options, inWords(changed));
    tried.push({ options: changed, scores, mean: scores.reduce((sum, score) => sum + score, 0) / scores.length });
  }
  const [first, ...others] = tried as [(typeof tried)[number], ...typeof tried];
  const winner = others.reduce((most, one) => (one.mean > most.mean ? one : most), first);
  const best = estimator.with(winner.options);
  return { best, score: winner.mean, model: await best.fit(x as MatrixData, y), tried };
}
