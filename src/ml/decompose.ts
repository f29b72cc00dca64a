/** @module Few features that stand for many: principal components. */

import { binary, diag, eigh, evaluate, flip, type Matrix, qr, rand, svd } from "../matrix/index.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { featuresOf, type MatrixData } from "./data.ts";
import { checkChoice, defineEstimator, type Estimator, learnt, type Transformer } from "./model.ts";

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

/** Squares along the components, the components, and the sum of all squares. */
type Found = readonly [squares: Matrix, rows: Matrix, total: Matrix];

/** The products of the centred examples with themselves, without a centred copy unless it is needed. */
function centredGram(x: Matrix, mean: Matrix): Matrix {
  const gram = x.T.matmul(x).sub(mean.T.matmul(mean).mul(x.rows));
  const least = diag(gram).min().div(x.rows);
  const largest = mean.pow(2).max();
  evaluate(gram, least, largest);
  // Where means are large beside deviations, taking them off at the end costs digits.
  if (largest.itemSync() <= 1e4 * least.itemSync()) return gram;
  const centred = x.sub(mean);
  return centred.T.matmul(centred);
}

function exact(x: Matrix, mean: Matrix, components: number): Found {
  const gram = centredGram(x, mean);
  const { values, vectors } = eigh(gram);
  const few: [number, number] = [0, components];
  return [flip(values).slice(few), flip(vectors.T).slice(few), diag(gram).sum()];
}

function randomised(x: Matrix, mean: Matrix, components: number, { powers, seed }: PcaOptions): Found {
  const forward = (of: Matrix): Matrix => x.matmul(of).sub(mean.matmul(of));
  const back = (of: Matrix): Matrix => x.T.matmul(of).sub(mean.T.matmul(of.sum(0)));
  const { values, vectors } = randomSvd(x, forward, back, { components, powers, seed });
  return [
    values.pow(2),
    vectors.T,
    x
      .var(0, { ddof: 1 })
      .sum()
      .mul(x.rows - 1),
  ];
}

type Product = (of: Matrix) => Matrix;

/** The first singular values, and the right singular vectors as columns, of the matrix whose products these are. */
function randomSvd(
  { rows, columns }: Matrix,
  forward: Product,
  back: Product,
  { components, powers, seed }: Pick<PcaOptions, "components" | "powers" | "seed">,
): { readonly values: Matrix; readonly vectors: Matrix } {
  const width = Math.min(components + 10, columns, rows);
  let directions = rand(columns, width, { seed, distribution: "normal" });
  for (let power = 0; power < powers; power++) directions = qr(back(qr(forward(directions)).q)).q;
  const { q } = qr(forward(directions));
  const { s, v } = svd(back(q).T);
  return { values: s.slice([0, components]), vectors: v.slice([0, columns], [0, components]) };
}

/** The first singular values of x and its right singular vectors as columns, by random products; x may be entries. */
export const leadingVectors = (x: Matrix, components: number, seed: number): ReturnType<typeof randomSvd> =>
  randomSvd(
    x,
    (of) => x.matmul(of),
    (of) => x.T.matmul(of),
    { components, powers: 4, seed },
  );

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
    if (components > most || x.rows < 2) {
      const few = x.rows < 2 ? "takes two examples at least" : `there are ${most} at most`;
      throw new HeddleError("shape", `pca: ${x.toString()} has no ${plural(components, "component")}: ${few}`);
    }
    const mean = x.sum(0).div(x.rows);
    evaluate(mean);
    const [squares, rows, all] =
      options.solver === "exact" ? exact(x, mean, components) : randomised(x, mean, components, options);
    const total = binary("max", all.div(x.rows - 1), 0);
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
