/** @module Few features that stand for many: principal components, and factors without negative numbers. */

import { binary, eigh, evaluate, flip, Matrix, qr, rand, svd, zeros } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { featuresOf, type MatrixData } from "./data.ts";
import {
  checkChoice,
  checkIterations,
  defineEstimator,
  type Estimator,
  type IterationOptions,
  learnt,
  type ModelState,
  type Note,
  type Transformer,
} from "./model.ts";

/** Options of {@link pca}. */
export interface PcaOptions {
  /** The number of components; default (0) as many as there are features or examples, whichever are fewer. */
  readonly components: number;
  /**
   * `"exact"` (default): eigenvectors of the covariances; `"randomized"`: products with few random directions, for few components of many
   * features (Halko, Martinsson and Tropp, 2011).
   */
  readonly solver: "exact" | "randomized";
  /** Of `"randomized"`: products with the covariances that sharpen the directions; default 4. */
  readonly powers: number;
  /** Of `"randomized"`; default 0. */
  readonly seed: number;
}

/** Fitted principal components. */
export interface PcaModel extends Transformer {
  /** A row of length 1 for each component; its largest element by size is positive. */
  readonly components: Matrix;
  /** The variance along each component, descending, as a column. */
  readonly explainedVariance: Matrix;
  /** The part of the whole variance. */
  readonly explainedVarianceRatio: Matrix;
  readonly mean: Matrix;
  /** Examples of which `transform` makes these components. */
  inverseTransform(z: MatrixData): Matrix;
}

/** Signs by which the largest element of each row is positive. */
function directed(rows: Matrix): Matrix {
  const sizes = binary("max", rows, rows.mul(-1));
  const isLargest = binary("eq", sizes, sizes.max(1));
  const sign = binary("ge", rows.mul(isLargest).sum(1), 0).mul(2).sub(1);
  return rows.mul(sign);
}

/** The products of the centred examples with themselves, without a centred copy. */
const centredGram = (x: Matrix, mean: Matrix): Matrix => x.T.matmul(x).sub(mean.T.matmul(mean).mul(x.rows));

function exact(x: Matrix, mean: Matrix, components: number): readonly [Matrix, Matrix] {
  // Where means are large beside deviations, taking them off at the end would cost digits.
  const isFar = mean.pow(2).max().itemSync() > 1e4 * x.var(0).min().itemSync();
  const centred = x.sub(mean);
  const gram = isFar ? centred.T.matmul(centred) : centredGram(x, mean);
  const { values, vectors } = eigh(gram);
  const few: [number, number] = [0, components];
  return [flip(values).slice(few), flip(vectors.T).slice(few)];
}

function randomised(
  x: Matrix,
  mean: Matrix,
  components: number,
  { powers, seed }: PcaOptions,
): readonly [Matrix, Matrix] {
  const width = Math.min(components + 10, x.columns, x.rows);
  const forward = (of: Matrix): Matrix => x.matmul(of).sub(mean.matmul(of));
  const back = (of: Matrix): Matrix => x.T.matmul(of).sub(mean.T.matmul(of.sum(0)));
  let directions = rand(x.columns, width, { seed, distribution: "normal" });
  for (let power = 0; power < powers; power++) directions = qr(back(qr(forward(directions)).q)).q;
  const { q } = qr(forward(directions));
  const { s, v } = svd(back(q).T);
  const few: [number, number] = [0, components];
  return [s.slice(few).pow(2), v.T.slice(few)];
}

/**
 * Principal components: the directions along which examples vary most.
 *
 * @throws HeddleError `shape` for more components than features or examples; `value` for examples that are all the same
 */
export const pca: (options?: Partial<PcaOptions>) => Estimator<PcaModel, PcaOptions> = defineEstimator<
  PcaModel,
  PcaOptions
>({
  name: "pca",
  defaults: { components: 0, solver: "exact", powers: 4, seed: 0 },
  check: ({ components, solver, powers, seed }) => {
    checkInteger("pca", "components", components);
    checkInteger("pca", "powers", powers);
    checkInteger("pca", "seed", seed);
    checkChoice("pca", "solver", solver, ["exact", "randomized"]);
  },
  learn: (data, _y, options) => {
    const x = featuresOf("pca", data);
    const most = Math.min(x.rows, x.columns);
    const components = options.components === 0 ? most : options.components;
    if (components > most || x.rows < 2)
      throw new HeddleError("shape", `pca: ${x.rows}x${x.columns} examples do not have ${components} components`);
    const mean = x.sum(0).div(x.rows);
    evaluate(mean);
    const [squares, rows] =
      options.solver === "exact" ? exact(x, mean, components) : randomised(x, mean, components, options);
    const total = x.var(0, { ddof: 1 }).sum();
    const variance = binary("max", squares.div(x.rows - 1), 0);
    const directions = directed(rows);
    evaluate(directions, variance, total);
    if (total.itemSync() === 0) throw new HeddleError("value", "pca: all examples are the same");
    return { mean, components: directions, variance, ratio: variance.div(total) };
  },
  model: (state) => {
    const [mean, components] = [learnt(state, "mean"), learnt(state, "components")];
    return {
      mean,
      components,
      explainedVariance: learnt(state, "variance"),
      explainedVarianceRatio: learnt(state, "ratio"),
      transform: (x) => {
        const given = featuresOf("pca", x, components.columns);
        return given.matmul(components.T).sub(mean.matmul(components.T));
      },
      inverseTransform: (z) => featuresOf("pca", z, components.rows).matmul(components).add(mean),
    };
  },
});

/** Options of {@link nmf}. */
export interface NmfOptions extends IterationOptions {
  /** The number of factors; default 2. */
  readonly components: number;
  /** The factors to begin with, such as those of another fit; default random. */
  readonly init: { readonly w: Matrix; readonly h: Matrix } | undefined;
  /** Default 0. */
  readonly seed: number;
  /** Ends when ten steps lessen the error by less than this part of the first one; 0 makes all steps. Default 1e-4. */
  readonly tolerance: number;
  /** Default 200. */
  readonly maxIterations: number;
}

/** Fitted factors. */
export interface NmfModel extends Transformer {
  /** A row for each factor. */
  readonly components: Matrix;
  /** The norm of what the factors of the examples miss (Frobenius). */
  readonly error: number;
  readonly iterations: number;
}

/** A quotient whose denominator counts as tiny where it is 0, as in scikit-learn. */
const quotient = (x: Matrix, y: Matrix): Matrix => x.div(y.add(binary("eq", y, 0).mul(1.1920929e-7)));

const nextW = (x: Matrix, w: Matrix, h: Matrix): Matrix => w.mul(quotient(x.matmul(h.T), w.matmul(h.matmul(h.T))));
const nextH = (x: Matrix, w: Matrix, h: Matrix): Matrix => h.mul(quotient(w.T.matmul(x), w.T.matmul(w).matmul(h)));

/** |X - W H|, from products alone: X may be entries. */
function errorOf(x: Matrix, squares: number, w: Matrix, h: Matrix): number {
  const cross = w.mul(x.matmul(h.T)).sum();
  const own = w.T.matmul(w).mul(h.matmul(h.T)).sum();
  return Math.sqrt(Math.max(0, squares - 2 * cross.itemSync() + own.itemSync()));
}

function factorise(
  x: Matrix,
  start: { readonly w: Matrix; readonly h: Matrix },
  { tolerance, maxIterations }: IterationOptions,
  fixed: boolean,
): { readonly w: Matrix; readonly h: Matrix; readonly error: number; readonly iterations: number } {
  let { w, h } = start;
  const squares = x.mul(x).sum().itemSync();
  const first = errorOf(x, squares, w, h);
  let before = first;
  let iterations = 0;
  while (iterations < maxIterations) {
    w = nextW(x, w, h);
    if (!fixed) h = nextH(x, w, h);
    evaluate(w, h);
    iterations++;
    if (tolerance === 0 || iterations % 10 !== 0) continue;
    const error = errorOf(x, squares, w, h);
    if ((before - error) / first < tolerance) break;
    before = error;
  }
  return { w, h, error: errorOf(x, squares, w, h), iterations };
}

function learnNmf(data: MatrixData, options: NmfOptions): ModelState {
  const x = notNegative(data);
  const { components, init, seed } = options;
  const [wSize, hSize] = [
    [x.rows, components],
    [components, x.columns],
  ] as const;
  for (const [name, given, size] of [
    ["w", init?.w, wSize],
    ["h", init?.h, hSize],
  ] as const)
    if (given !== undefined && (given.rows !== size[0] || given.columns !== size[1]))
      throw new HeddleError("shape", `nmf: init.${name} is ${given.toString()}, not ${size.join("x")}`);
  const scale = Math.sqrt(x.sum().itemSync() / x.size / components);
  const start = init ?? {
    w: rand(...wSize, { seed }).mul(scale),
    h: rand(...hSize, { seed: seed + 1 }).mul(scale),
  };
  const { h, error, iterations } = factorise(x, start, options, false);
  return { components: h, error, iterations };
}

function notNegative(data: MatrixData, columns?: number): Matrix {
  const x = featuresOf("nmf", data, columns);
  if (x.min().itemSync() < 0) throw new HeddleError("value", "nmf: x has elements below 0");
  return x;
}

/**
 * Factors W and H without negative elements whose product is near to the examples, by multiplicative steps (Lee and Seung, 2001).
 *
 * @throws HeddleError `value` for elements below 0
 */
export const nmf: (options?: Partial<NmfOptions>) => Estimator<NmfModel, NmfOptions> = defineEstimator<
  NmfModel,
  NmfOptions
>({
  name: "nmf",
  defaults: { components: 2, init: undefined, seed: 0, tolerance: 1e-4, maxIterations: 200 },
  check: (options) => {
    checkInteger("nmf", "components", options.components, 1);
    checkInteger("nmf", "seed", options.seed);
    checkIterations("nmf", options);
    const { init } = options;
    if (init !== undefined && !(init?.w instanceof Matrix && init.h instanceof Matrix))
      throw new HeddleError("option", "nmf: init must be { w, h } of matrices");
  },
  learn: (x, _y, options) => learnNmf(x, options),
  model: (state, options) => {
    const components = learnt(state, "components");
    return {
      components,
      error: state["error"] as Note as number,
      iterations: state["iterations"] as Note as number,
      transform: (data) => {
        const x = notNegative(data, components.columns);
        const level = Math.sqrt(x.sum().itemSync() / x.size / components.rows);
        const start = { w: zeros(x.rows, components.rows).add(level), h: components };
        return factorise(x, start, options, true).w;
      },
    };
  },
});
