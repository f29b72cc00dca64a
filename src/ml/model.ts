/** @module Estimators and the models that fitting makes, and the table of their kinds, by which saved models are read. */

import { Matrix } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { MatrixData } from "./data.ts";

/** What JSON can hold. */
export type Note = string | number | boolean | null | readonly Note[] | { readonly [name: string]: Note };

/** What a model has learnt, by name. */
export interface ModelState {
  readonly [name: string]: Matrix | Note;
}

/** A fitted model: it does not change. */
export interface Model {
  /** The name of the function that makes its estimator. */
  readonly kind: string;
  /** The options of its estimator, with defaults filled in. */
  readonly options: object;
  readonly state: ModelState;
}

/** A model that predicts a target, or a label, for each example. */
export interface Predictor extends Model {
  predict(x: MatrixData): Matrix;
}

/** A model that predicts labels. */
export interface Classifier extends Predictor {
  /** The labels, ascending. */
  readonly classes: readonly number[];
}

/** A classifier that knows how probable each class is. */
export interface ProbabilisticClassifier extends Classifier {
  /** A column for each class, in the order of {@link Classifier.classes}; rows sum to 1. */
  probabilities(x: MatrixData): Matrix;
}

/** A model that makes other features of features. */
export interface Transformer extends Model {
  transform(x: MatrixData): Matrix;
}

/** What can be fitted: options, and nothing learnt. Fitting leaves it alone, so one estimator can be fitted many times. */
export interface Estimator<Fitted extends Model = Model, Options extends object = object> {
  readonly kind: string;
  readonly options: Options;
  /** Learns from examples. @throws HeddleError `shape`, `value` */
  fit(x: MatrixData, y?: MatrixData): Promise<Fitted>;
  /** The same estimator with some options changed. @throws HeddleError `option` */
  with(options: Partial<Options>): Estimator<Fitted, Options>;
}

/** How a kind of estimators is made. */
export interface Kind<Fitted extends Model, Options extends object> {
  readonly name: string;
  readonly defaults: Options;
  /** Throws for options that are out of range; names are checked already. */
  readonly check?: (options: Options) => void;
  readonly learn: (x: MatrixData, y: MatrixData | undefined, options: Options) => Promise<ModelState> | ModelState;
  /** The methods of a model. */
  readonly model: (state: ModelState, options: Options) => Omit<Fitted, keyof Model>;
}

const kinds = new Map<string, (state: ModelState, options: object) => Model>();

/** A function that makes estimators of a kind from options. */
export function defineEstimator<Fitted extends Model, Options extends object>(
  kind: Kind<Fitted, Options>,
): (options?: Partial<Options>) => Estimator<Fitted, Options> {
  const { name, defaults, check, learn, model } = kind;
  const modelOf = (state: ModelState, options: Options): Fitted =>
    ({ kind: name, options, state, ...model(state, options) }) as unknown as Fitted;
  kinds.set(name, (state, options) => modelOf(state, { ...defaults, ...options }));
  const make = (given: Partial<Options> = {}): Estimator<Fitted, Options> => {
    if (Object.keys(defaults).length === 0) checkNone(name, given);
    else checkOptions(name, given, Object.keys(defaults));
    const options = { ...defaults, ...given };
    check?.(options);
    return {
      kind: name,
      options,
      fit: async (x, y) => modelOf(await learn(x, y, options), options),
      with: (changed) => make({ ...given, ...asRecord(name, changed) }),
    };
  };
  return make;
}

function checkNone(what: string, given: unknown): void {
  if (given instanceof Object && Object.keys(given).length === 0) return;
  throw new HeddleError("option", `${what}: has no options, got ${shown(given)}`);
}

/** Adds the reader of a kind whose estimators are made in another way. */
export const defineKind = (name: string, read: (state: ModelState, options: object) => Model): void => {
  kinds.set(name, read);
};

/** A model of what was learnt before. @throws HeddleError `format` for a kind that is not known */
export function modelOfKind(kind: string, state: ModelState, options: object): Model {
  const read = kinds.get(kind);
  if (read === undefined)
    throw new HeddleError("format", `the model is of kind ${shown(kind)}, which is not known`, {
      hint: `known kinds are ${[...kinds.keys()].join(", ")}`,
    });
  return read(state, options);
}

/** A matrix that a model has learnt. @throws HeddleError `format` where a file lacks it */
export function learnt(state: ModelState, name: string): Matrix {
  const value = state[name];
  if (value instanceof Matrix) return value;
  throw new HeddleError("format", `the model has no matrix ${shown(name)}`);
}

/** The numbers of a matrix that a model has learnt. */
export const numbersOf = (state: ModelState, name: string): readonly number[] => [...learnt(state, name).dataSync()];

/** @throws HeddleError `option` unless a value is among those */
export function checkChoice(what: string, name: string, value: unknown, choices: readonly string[]): void {
  if (!choices.includes(value as string))
    throw new HeddleError("option", `${what}: ${name} must be one of ${choices.join(", ")}, got ${shown(value)}`);
}

/** Options of what is found step by step. */
export interface IterationOptions {
  /** Ends when a step changes less: what is compared stands with each estimator. */
  readonly tolerance: number;
  /** The largest number of steps. */
  readonly maxIterations: number;
}

/** How the steps of a fit ended. */
export interface Iterated {
  /** The steps that were made; 0 where the solver needs none. */
  readonly iterations: number;
  /** Whether the tolerance was reached; false where `maxIterations` or the precision of the numbers ended the fit before. */
  readonly converged: boolean;
}

/** What {@link Iterated} says of a model, from its state. */
export const endOf = (state: ModelState): Iterated => ({
  iterations: Number(state["iterations"]),
  converged: state["converged"] === true,
});

export function checkIterations(what: string, { tolerance, maxIterations }: IterationOptions): void {
  checkNumber(what, "tolerance", tolerance, 0);
  checkInteger(what, "maxIterations", maxIterations, 1);
}

/** @throws HeddleError `argument` unless a value is an estimator */
export function checkEstimator(what: string, value: unknown): asserts value is Estimator {
  const given = value as Partial<Estimator> | null | undefined;
  if (typeof given?.fit === "function" && typeof given.with === "function") return;
  throw new HeddleError("argument", `${what}: takes an estimator, got ${shown(value)}`, {
    hint: "such as linearRegression()",
  });
}
