/** @module Factors without negative numbers: coordinate descent or multiplicative steps from the singular vectors. */

import { binary, dense, evaluate, Matrix, rand, zeros } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { featuresOf, type MatrixData } from "./data.ts";
import { leadingVectors } from "./decompose.ts";
import {
  checkChoice,
  checkIterations,
  defineEstimator,
  type Estimator,
  endOf,
  type Iterated,
  type IterationOptions,
  learnt,
  type Note,
  type Transformer,
} from "./model.ts";

/** Factors W (examples x components) and H (components x features). */
export interface Factors {
  readonly w: Matrix;
  readonly h: Matrix;
}

/** Options of {@link nmf}. */
export interface NmfOptions extends IterationOptions {
  /** The number of factors; default 2. */
  readonly components: number;
  /**
   * The factors to begin with: `"nndsvda"` (default), singular vectors without their lesser signs, zeros filled with the mean (Boutsidis and
   * Gallopoulos, 2008); `"random"`, which more components than features or examples take, too; or factors such as those of another fit.
   */
  readonly init: "nndsvda" | "random" | Factors;
  /**
   * `"coordinate"` (default): hierarchical coordinate descent (Cichocki and Phan, 2009); `"multiplicative"`: multiplicative steps (Lee and
   * Seung, 2001), which keep the zeros of `init` and need many more.
   */
  readonly solver: "coordinate" | "multiplicative";
  /** Of what is random; default 0. */
  readonly seed: number;
  /**
   * Of `"coordinate"`: ends when the projected gradients of a step sum to this part of those of the first one. Of `"multiplicative"`: when ten
   * steps lessen the error by less than this part of the first one; 0 makes all steps. Default 1e-4.
   */
  readonly tolerance: number;
  /** Default 200. */
  readonly maxIterations: number;
}

/** Fitted factors. */
export interface NmfModel extends Transformer, Iterated {
  /** A row for each factor. */
  readonly components: Matrix;
  /** The norm of what the factors of the examples miss (Frobenius). */
  readonly error: number;
}

interface Fit extends Factors, Iterated {}

/** A quotient whose denominator counts as tiny where it is 0, as in scikit-learn. */
const quotient = (x: Matrix, y: Matrix): Matrix => x.div(y.add(binary("eq", y, 0).mul(1.1920929e-7)));

const nextW = (x: Matrix, w: Matrix, h: Matrix): Matrix => w.mul(quotient(x.matmul(h.T), w.matmul(h.matmul(h.T))));
const nextH = (x: Matrix, w: Matrix, h: Matrix): Matrix => h.mul(quotient(w.T.matmul(x), w.T.matmul(w).matmul(h)));

/** |X - W H|, from products alone: X may be entries. */
function errorOf(x: Matrix, squares: number, { w, h }: Factors): number {
  const cross = w.mul(x.matmul(h.T)).sum();
  const own = w.T.matmul(w).mul(h.matmul(h.T)).sum();
  return Math.sqrt(Math.max(0, squares - 2 * cross.itemSync() + own.itemSync()));
}

function multiplicative(x: Matrix, start: Factors, { tolerance, maxIterations }: NmfOptions, fixed: boolean): Fit {
  let { w, h } = start;
  const squares = x.mul(x).sum().itemSync();
  const first = errorOf(x, squares, start);
  let before = first;
  let iterations = 0;
  while (iterations < maxIterations) {
    w = nextW(x, w, h);
    if (!fixed) h = nextH(x, w, h);
    evaluate(w, h);
    iterations++;
    if (tolerance === 0 || iterations % 10 !== 0) continue;
    const error = errorOf(x, squares, { w, h });
    if ((before - error) / first < tolerance) return { w, h, iterations, converged: true };
    before = error;
  }
  return { w, h, iterations, converged: false };
}

/** The best column of W after another, the others held, for products X Hᵀ and H Hᵀ; gives the sum of the projected gradients. */
function descend(w: Float64Array, products: Float64Array, gram: Float64Array, components: number): number {
  let moved = 0;
  for (let component = 0; component < components; component++) {
    const curvature = gram[component * components + component] as number;
    for (let at = component; at < w.length; at += components) {
      const [row, value] = [at - component, w[at] as number];
      let slope = -(products[at] as number);
      for (let other = 0; other < components; other++)
        slope += (gram[component * components + other] as number) * (w[row + other] as number);
      moved += Math.abs(value === 0 ? Math.min(0, slope) : slope);
      if (curvature !== 0) w[at] = Math.max(0, value - slope / curvature);
    }
  }
  return moved;
}

function coordinate(x: Matrix, start: Factors, { tolerance, maxIterations }: NmfOptions, fixed: boolean): Fit {
  const components = start.h.rows;
  // Both factors have a column for each component here.
  const step = (of: Matrix, factor: Matrix, other: Matrix): readonly [Matrix, number] => {
    const [products, gram] = [of.matmul(other), other.T.matmul(other)];
    evaluate(products, gram);
    const data = factor.dataSync().slice();
    const moved = descend(data, products.dataSync(), gram.dataSync(), components);
    return [dense(data, factor.rows, components), moved];
  };
  let [w, h] = [start.w, start.h.T];
  let first = 0;
  for (let iterations = 1; iterations <= maxIterations; iterations++) {
    let [moved, movedH] = [0, 0];
    [w, moved] = step(x, w, h);
    if (!fixed) [h, movedH] = step(x.T, h, w);
    if (iterations === 1) first = moved + movedH;
    if (moved + movedH <= tolerance * first) return { w, h: h.T, iterations, converged: true };
  }
  return { w, h: h.T, iterations: maxIterations, converged: false };
}

const factorise = (x: Matrix, start: Factors, options: NmfOptions, fixed: boolean): Fit =>
  (options.solver === "coordinate" ? coordinate : multiplicative)(x, start, options, fixed);

const lengthOf = (column: Float64Array): number => Math.sqrt(column.reduce((sum, value) => sum + value * value, 0));

/** Elements of a start below this are 0, as in scikit-learn. */
const tiny = 1e-6;

/** Singular vectors, of each pair the positive or the negative parts, whichever are larger; where those are 0, the mean. */
function fromSingularVectors(x: Matrix, components: number, seed: number): Factors {
  const { values, vectors } = leadingVectors(x, components, seed);
  const left = x.matmul(vectors);
  evaluate(values, vectors, left);
  const mean = x.sum().itemSync() / x.size;
  const [w, h] = [new Float64Array(x.rows * components), new Float64Array(components * x.columns)];
  const column = (of: Matrix, at: number): Float64Array =>
    Float64Array.from({ length: of.rows }, (_unused, row) => of.dataSync()[row * components + at] as number);
  for (let at = 0; at < components; at++) {
    const value = values.dataSync()[at] as number;
    const u = column(left, at).map((element) => (value > 0 ? element / value : 0));
    const v = column(vectors, at);
    const signed = (sign: 1 | -1): Part => {
      const sides = [u, v].map((side) => side.map((element) => Math.max(0, sign * element)));
      const lengths = sides.map(lengthOf) as [number, number];
      return { sides, lengths, share: lengths[0] * lengths[1] };
    };
    const [positive, negative] = [signed(1), signed(-1)];
    const { sides, lengths, share } = positive.share > negative.share ? positive : negative;
    // Two vectors of one length whose product is the part of the singular value.
    const scale = Math.sqrt(value * share);
    const placed = (side: 0 | 1, row: number): number => {
      const element = (scale * (sides[side]?.[row] as number)) / (lengths[side] || 1);
      return element < tiny ? mean : element;
    };
    for (let row = 0; row < x.rows; row++) w[row * components + at] = placed(0, row);
    for (let feature = 0; feature < x.columns; feature++) h[at * x.columns + feature] = placed(1, feature);
  }
  return { w: dense(w, x.rows, components), h: dense(h, components, x.columns) };
}

interface Part {
  readonly sides: readonly Float64Array[];
  readonly lengths: readonly [number, number];
  readonly share: number;
}

function startOf(x: Matrix, { components, init, seed }: NmfOptions): Factors {
  if (typeof init === "object") {
    const { w, h } = init;
    for (const [name, given, rows, columns] of [
      ["w", w, x.rows, components],
      ["h", h, components, x.columns],
    ] as const)
      if (given.rows !== rows || given.columns !== columns)
        throw new HeddleError("shape", `nmf: init.${name} is ${given.toString()}, not ${rows}x${columns}`);
    return init;
  }
  if (init === "nndsvda" && components <= Math.min(x.rows, x.columns)) return fromSingularVectors(x, components, seed);
  const scale = Math.sqrt(x.sum().itemSync() / x.size / components);
  return {
    w: rand(x.rows, components, { seed }).mul(scale),
    h: rand(components, x.columns, { seed: seed + 1 }).mul(scale),
  };
}

function notNegative(data: MatrixData, columns?: number): Matrix {
  const x = featuresOf("nmf", data, columns);
  if (x.min().itemSync() < 0) throw new HeddleError("value", "nmf: x has elements below 0");
  return x;
}

/**
 * Factors W and H without negative elements whose product is near to the examples.
 *
 * @throws HeddleError `value` for elements below 0
 */
export const nmf: (options?: Partial<NmfOptions>) => Estimator<NmfModel, NmfOptions> = defineEstimator<
  NmfModel,
  NmfOptions
>({
  name: "nmf",
  defaults: { components: 2, init: "nndsvda", solver: "coordinate", seed: 0, tolerance: 1e-4, maxIterations: 200 },
  check: (options) => {
    checkInteger("nmf", "components", options.components, 1);
    checkInteger("nmf", "seed", options.seed);
    checkChoice("nmf", "solver", options.solver, ["coordinate", "multiplicative"]);
    checkIterations("nmf", options);
    const { init } = options;
    if (typeof init === "string") checkChoice("nmf", "init", init, ["nndsvda", "random"]);
    else if (!(init?.w instanceof Matrix && init.h instanceof Matrix))
      throw new HeddleError(
        "option",
        `nmf: init must be "nndsvda", "random" or { w, h } of matrices, got ${shown(init)}`,
      );
  },
  learn: (data, _y, options) => {
    const x = notNegative(data);
    const fit = factorise(x, startOf(x, options), options, false);
    const error = errorOf(x, x.mul(x).sum().itemSync(), fit);
    return { components: fit.h, error, iterations: fit.iterations, converged: fit.converged };
  },
  model: (state, options) => {
    const components = learnt(state, "components");
    return {
      components,
      error: state["error"] as Note as number,
      ...endOf(state),
      transform: (data) => {
        const x = notNegative(data, components.columns);
        // Multiplicative steps keep zeros.
        const level = options.solver === "coordinate" ? 0 : Math.sqrt(x.sum().itemSync() / x.size / components.rows);
        return factorise(x, { w: zeros(x.rows, components.rows).add(level), h: components }, options, true).w;
      },
    };
  },
});
