/** @module k-means: Lloyd's iteration from centres by k-means++. */

import { binary, concatenate, dense, evaluate, Matrix, seq } from "../matrix/index.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { featuresOf, type MatrixData } from "./data.ts";
import { across, around, relative, squareBetween, squares } from "./distances.ts";
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
  type Note,
  type Predictor,
  type Transformer,
} from "./model.ts";
import { permutation, uniforms } from "./random.ts";

/** Options of {@link kMeans}. */
export interface KMeansOptions extends IterationOptions {
  /** The number of clusters; default 8. */
  readonly clusters: number;
  /** Where centres begin: by k-means++ (default), at random examples, or at the rows of a matrix. */
  readonly init: "k-means++" | "random" | Matrix;
  /** The seed of what is drawn; default 0. */
  readonly seed: number;
  /** Ends when the squared moves of all centres sum to less than this times the mean variance of the features; default 1e-4. */
  readonly tolerance: number;
  /** Default 300. */
  readonly maxIterations: number;
}

/** Fitted clusters. */
export interface KMeansModel extends Predictor, Transformer, Iterated {
  /** A row for each cluster. */
  readonly centres: Matrix;
  /** The sum of squared distances of the examples to their centres. */
  readonly inertia: number;
  /** The number of the nearest centre. */
  predict(x: MatrixData): Matrix;
  /** The distance to each centre. */
  transform(x: MatrixData): Matrix;
}

/** Centres that are far apart: each next one is drawn by its squared distance, the best of a few draws (Arthur and Vassilvitskii, 2007). */
function plusPlus(x: Matrix, clusters: number, draw: () => number): Matrix {
  const trials = 2 + Math.floor(Math.log(clusters));
  const own = squares(x);
  let chosen = x.take([Math.floor(draw() * x.rows)]);
  let nearest = binary("max", relative(x, chosen).add(own), 0);
  const centres = [chosen];
  evaluate(own, chosen, nearest);
  while (centres.length < clusters) {
    const sums = nearest.cumsum(0).dataSync();
    const total = sums.at(-1) as number;
    const candidates = Array.from({ length: trials }, () => firstAbove(sums, draw() * total));
    const rows = x.take(candidates);
    const distances = binary("min", binary("max", relative(x, rows).add(own), 0), nearest);
    const best = distances.sum(0).argmin(1);
    evaluate(rows, distances, best);
    const place = best.itemSync();
    chosen = rows.slice([place, place + 1]);
    nearest = distances.slice([0, x.rows], [place, place + 1]);
    evaluate(chosen, nearest);
    centres.push(chosen);
  }
  return concatenate(centres);
}

/** The first place whose running sum is above a number. */
function firstAbove(sums: Float64Array, value: number): number {
  let [low, high] = [0, sums.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sums[middle] as number) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

function givenCentres(x: Matrix, init: Matrix, clusters: number): Matrix {
  if (init.rows === clusters && init.columns === x.columns) return init;
  throw new HeddleError("shape", `kMeans: init is ${init.toString()}, not ${clusters}x${x.columns}`);
}

function drawnCentres(x: Matrix, { clusters, init, seed }: KMeansOptions): Matrix {
  const draw = uniforms("kMeans", seed);
  return init === "random" ? x.take(permutation(x.rows, draw).subarray(0, clusters)) : plusPlus(x, clusters, draw);
}

/** Sums and numbers of the examples of each centre, the means, and how far the centres are from them. */
function meansOf(x: Matrix, centres: Matrix, member: Matrix) {
  const sums = member.matmul(x);
  const counts = member.sum(1);
  const next = sums.div(counts);
  const shift = next.sub(centres).pow(2).sum();
  evaluate(sums, counts, next, shift);
  return { sums, counts, next, shift: shift.itemSync() };
}

/** Moves of centres to the means of their examples; a centre without examples goes to the example that is farthest from its own. */
function moved(x: Matrix, centres: Matrix, numbers: Matrix): { readonly centres: Matrix; readonly shift: number } {
  const distances = across(x, centres);
  let found = meansOf(x, centres, binary("eq", distances, distances.min(0)));
  // An example as near to another centre belongs to the first of them.
  if (found.counts.dataSync().reduce((sum, count) => sum + count, 0) !== x.rows)
    found = meansOf(x, centres, binary("eq", distances.argmin(0), numbers));
  const { sums, counts, next, shift } = found;
  // Of no examples the mean is NaN.
  if (!Number.isNaN(shift)) return { centres: next, shift };
  const filled = withFarthest(x, relative(x, centres), sums, counts);
  return { centres: filled, shift: filled.sub(centres).pow(2).sum().itemSync() };
}

function withFarthest(x: Matrix, distances: Matrix, sums: Matrix, counts: Matrix): Matrix {
  const far = distances.min(1).add(squares(x)).dataSync();
  const owners = distances.argmin(1).dataSync();
  const order = Int32Array.from(far.keys()).sort((a, b) => (far[b] as number) - (far[a] as number));
  const [total, members] = [sums.dataSync().slice(), counts.dataSync().slice()];
  let taken = 0;
  for (let cluster = 0; cluster < members.length; cluster++) {
    if (members[cluster] !== 0) continue;
    const row = order[taken++] as number;
    const owner = owners[row] as number;
    const values = x.take([row]).dataSync();
    for (const [column, value] of values.entries()) {
      const [from, to] = [owner * x.columns + column, cluster * x.columns + column];
      total[from] = (total[from] as number) - value;
      total[to] = value;
    }
    members[owner] = (members[owner] as number) - 1;
    members[cluster] = 1;
  }
  return dense(total, sums.rows, sums.columns).div(dense(members, counts.rows, 1));
}

function learn(data: MatrixData, options: KMeansOptions): ModelState {
  const given = featuresOf("kMeans", data);
  const { clusters, init, maxIterations, tolerance } = options;
  if (given.rows < clusters)
    throw new HeddleError("shape", `kMeans: ${plural(given.rows, "example")} cannot make ${clusters} clusters`);
  const [x, middle] = around(given);
  const numbers = seq(0, clusters - 1);
  // The means are 0.
  const least = tolerance * x.pow(2).mean().itemSync();
  let centres = init instanceof Matrix ? givenCentres(x, init, clusters).sub(middle) : drawnCentres(x, options);
  evaluate(centres);
  let iterations = 0;
  let shift = Infinity;
  for (; iterations < maxIterations && shift > least; iterations++) ({ centres, shift } = moved(x, centres, numbers));
  const inertia = squares(x.sub(centres.take(across(x, centres).argmin(0).dataSync()))).sum();
  const found = centres.add(middle);
  evaluate(found, inertia);
  return { centres: found, inertia: inertia.itemSync(), iterations, converged: shift <= least };
}

/** The distance of each example to each centre, from differences, so that it is 0 in the very place of a centre. */
function distancesTo(centres: Matrix, x: Matrix): Matrix {
  const [from, to, columns] = [x.dataSync(), centres.dataSync(), centres.columns];
  const result = new Float64Array(x.rows * centres.rows);
  for (let at = 0; at < result.length; at++)
    result[at] = Math.sqrt(squareBetween(from, Math.floor(at / centres.rows), to, at % centres.rows, columns));
  return dense(result, x.rows, centres.rows);
}

/**
 * k-means (Lloyd, 1982): clusters whose examples have the least squared distances to their means.
 *
 * @throws HeddleError `shape` for fewer examples than clusters
 */
export const kMeans: (options?: Partial<KMeansOptions>) => Estimator<KMeansModel, KMeansOptions> = defineEstimator<
  KMeansModel,
  KMeansOptions
>({
  name: "kMeans",
  defaults: { clusters: 8, init: "k-means++", seed: 0, tolerance: 1e-4, maxIterations: 300 },
  check: (options) => {
    checkInteger("kMeans", "clusters", options.clusters, 1);
    checkIterations("kMeans", options);
    if (!(options.init instanceof Matrix)) checkChoice("kMeans", "init", options.init, ["k-means++", "random"]);
    checkInteger("kMeans", "seed", options.seed);
  },
  learn: (x, _y, options) => learn(x, options),
  model: (state) => {
    const centres = learnt(state, "centres");
    const given = (x: MatrixData): Matrix => featuresOf("kMeans", x, centres.columns);
    return {
      centres,
      inertia: state["inertia"] as Note as number,
      ...endOf(state),
      predict: (data) => {
        const [rows, , x] = around(centres, given(data));
        return relative(x, rows).argmin(1);
      },
      transform: (data) => distancesTo(centres, given(data)),
    };
  },
});
