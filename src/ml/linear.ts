/** @module Linear regression by least squares, with or without a penalty. */

import { cholesky, diag, evaluate, lstsq, type Matrix, solve, zeros } from "../matrix/index.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber } from "../util/options.ts";
import { featuresOf, type MatrixData, targetsOf } from "./data.ts";
import {
  checkChoice,
  checkIterations,
  defineEstimator,
  type Estimator,
  endOf,
  type Iterated,
  type IterationOptions,
  learnt,
  type ModelState,
  type Predictor,
} from "./model.ts";

/** Options of {@link linearRegression} and {@link ridge}. */
export interface LinearOptions extends IterationOptions {
  /** The penalty: the squares of the coefficients, but not of the intercept, count this much. Default 0, and 1 for `ridge`. */
  readonly alpha: number;
  /**
   * `"direct"`: the normal equations, in one pass over x; `"qr"`: a factorization, for columns that nearly depend on each other;
   * `"cg"`: conjugate gradients, a pass over x per step. Default `"auto"`: `"cg"` for a matrix of entries, else `"direct"`.
   */
  readonly solver: "auto" | "direct" | "qr" | "cg";
  /** Whether there is an intercept; default true. */
  readonly intercept: boolean;
  /** Of `"cg"`: ends when the residual's norm has fallen by this factor; default 1e-10. */
  readonly tolerance: number;
  /** Of `"cg"`: default 1000. */
  readonly maxIterations: number;
}

/** A fitted linear function. */
export interface LinearModel extends Predictor, Iterated {
  /** A row for each feature, a column for each target. */
  readonly coefficients: Matrix;
  /** A number for each target, 1 x targets. */
  readonly intercept: Matrix;
}

const solvers = ["auto", "direct", "qr", "cg"];

function checkLinear(what: string, options: LinearOptions): void {
  checkNumber(what, "alpha", options.alpha, 0);
  checkChoice(what, "solver", options.solver, solvers);
  checkIterations(what, options);
  if (options.solver === "qr" && options.alpha > 0)
    throw new HeddleError("option", `${what}: the solver "qr" takes no penalty, got alpha ${options.alpha}`, {
      hint: 'with a penalty the normal equations are not singular: use "direct"',
    });
}

const kindOf = (name: string, alpha: number) =>
  defineEstimator<LinearModel, LinearOptions>({
    name,
    defaults: { alpha, solver: "auto", intercept: true, tolerance: 1e-10, maxIterations: 1000 },
    check: (options) => checkLinear(name, options),
    learn: (x, y, options) => leastSquares(name, x, y, options),
    model: (state) => {
      const [coefficients, intercept] = [learnt(state, "coefficients"), learnt(state, "intercept")];
      return {
        coefficients,
        intercept,
        ...endOf(state),
        predict: (x) => featuresOf(name, x, coefficients.rows).matmul(coefficients).add(intercept),
      };
    },
  });

/**
 * Linear regression: the coefficients for which the sum of squared errors is least. Targets may have several columns.
 *
 * @throws HeddleError `value` when it is fitted to features that depend on each other
 */
export const linearRegression: (options?: Partial<LinearOptions>) => Estimator<LinearModel, LinearOptions> = kindOf(
  "linearRegression",
  0,
);

/** Linear regression with a penalty on the squares of the coefficients (Hoerl and Kennard, 1970); `alpha` is 1 unless it is given. */
export const ridge: (options?: Partial<LinearOptions>) => Estimator<LinearModel, LinearOptions> = kindOf("ridge", 1);

function leastSquares(
  what: string,
  data: MatrixData,
  given: MatrixData | undefined,
  options: LinearOptions,
): ModelState {
  const x = featuresOf(what, data);
  const y = targetsOf(what, given, x.rows);
  const means = options.intercept
    ? { x: x.sum(0).div(x.rows), y: y.sum(0).div(y.rows) }
    : { x: zeros(1, x.columns), y: zeros(1, y.columns) };
  evaluate(means.x, means.y);
  const { solver } = options;
  const chosen = solver === "auto" ? (x.format === "entries" ? "cg" : "direct") : solver;
  const problem = { what, x, y, means, alpha: options.alpha };
  const { coefficients, iterations, converged } =
    chosen === "cg"
      ? byGradients(problem, options)
      : { coefficients: chosen === "qr" ? byFactors(problem) : byEquations(problem), iterations: 0, converged: true };
  const intercept = means.y.sub(means.x.matmul(coefficients));
  evaluate(coefficients, intercept);
  return { coefficients, intercept, iterations, converged };
}

interface Problem {
  readonly what: string;
  readonly x: Matrix;
  readonly y: Matrix;
  /** Rows that are taken off: the means, or zeros without an intercept. */
  readonly means: { readonly x: Matrix; readonly y: Matrix };
  readonly alpha: number;
}

/** Above this ratio of a column's mean square to its variance, taking off the means at the end would cost digits. */
const farFromZero = 1e4;

function byEquations({ what, x, y, means, alpha }: Problem): Matrix {
  const { rows, columns } = x;
  let gram = x.T.matmul(x);
  let moments = x.T.matmul(y);
  const shifted = means.x.T.matmul(means.x).mul(rows);
  evaluate(gram, moments, shifted);
  const [whole, off] = [diag(gram).dataSync(), diag(shifted).dataSync()];
  if (whole.some((sum, at) => (off[at] as number) > farFromZero * (sum - (off[at] as number)))) {
    const centred = x.sub(means.x);
    gram = centred.T.matmul(centred);
    moments = centred.T.matmul(y.sub(means.y));
  } else {
    gram = gram.sub(shifted);
    moments = moments.sub(means.x.T.matmul(means.y).mul(rows));
  }
  if (alpha > 0) gram = gram.add(diag(zeros(columns, 1).add(alpha)));
  evaluate(gram, moments);
  checkIndependent(what, gram);
  return solve(gram, moments);
}

/** @throws HeddleError `value` for normal equations that are singular, as far as rounding can tell */
function checkIndependent(what: string, gram: Matrix): void {
  const scale = diag(gram).pow(-0.5).dataSync();
  const hint = "leave out features that others determine, or use ridge()";
  const constant = scale.findIndex((value) => !Number.isFinite(value));
  if (constant >= 0) throw new HeddleError("value", `${what}: feature ${constant} is constant`, { hint });
  const sides = gram.mul(diag(gram).pow(-0.5)).mul(diag(gram).pow(-0.5).T);
  let pivots: Float64Array;
  try {
    pivots = diag(cholesky(sides)).dataSync();
  } catch (error) {
    if (!(error instanceof HeddleError) || error.code !== "value") throw error;
    pivots = Float64Array.of(0);
  }
  const least = Math.min(...pivots) ** 2;
  if (least <= 4 * gram.rows * Number.EPSILON)
    throw new HeddleError("value", `${what}: the features depend on each other`, { hint });
}

function byFactors({ what, x, y, means }: Problem): Matrix {
  if (x.rows < x.columns)
    throw new HeddleError(
      "value",
      `${what}: ${plural(x.rows, "example")} cannot determine ${plural(x.columns, "coefficient")}`,
      {
        hint: "take more examples, or use ridge()",
      },
    );
  return lstsq(x.sub(means.x), y.sub(means.y));
}

/** Conjugate gradients on the normal equations (Hestenes and Stiefel, 1952); each target has its own step lengths. */
function byGradients(
  { x, y, means, alpha }: Problem,
  { tolerance, maxIterations }: IterationOptions,
): { readonly coefficients: Matrix } & Iterated {
  const { rows } = x;
  const applied = (p: Matrix): Matrix =>
    x.T.matmul(x.matmul(p))
      .sub(means.x.T.matmul(means.x.matmul(p)).mul(rows))
      .add(p.mul(alpha));
  let w = zeros(x.columns, y.columns);
  let r = x.T.matmul(y).sub(means.x.T.matmul(means.y).mul(rows));
  let p = r;
  let norm = r.mul(r).sum(0);
  evaluate(w, r, norm);
  const ends = norm.dataSync().map((value) => value * tolerance ** 2);
  const ended = (): boolean => norm.dataSync().every((value, at) => value <= (ends[at] as number));
  let iterations = 0;
  for (; iterations < maxIterations && !ended(); iterations++) {
    const q = applied(p);
    // A target that is found already has 0 over 0 as its rate.
    const rate = norm.div(p.mul(q).sum(0).add(Number.MIN_VALUE));
    w = w.add(p.mul(rate));
    r = r.sub(q.mul(rate));
    const next = r.mul(r).sum(0);
    p = r.add(p.mul(next.div(norm.add(Number.MIN_VALUE))));
    norm = next;
    evaluate(w, r, p, norm);
  }
  return { coefficients: w, iterations, converged: ended() };
}
