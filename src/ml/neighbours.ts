/** @module What lies near: the nearest neighbours, and clusters of dense places. */

import { dense, type Matrix } from "../matrix/index.ts";
import { plural } from "../report/summary.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber } from "../util/options.ts";
import { columnVector, featuresOf, labelsAt, labelsOf, type MatrixData, rowVector, targetsOf } from "./data.ts";
import { type Distances, eachRowOfDistances } from "./distances.ts";
import {
  checkChoice,
  defineEstimator,
  type Estimator,
  learnt,
  type Model,
  numbersOf,
  type Predictor,
  type ProbabilisticClassifier,
} from "./model.ts";

/** Options of nearest neighbours. */
export interface NeighboursOptions {
  /** How many are asked; default 5. */
  readonly neighbours: number;
  /** Whether all count the same (default), or by one over their distance. */
  readonly weights: "uniform" | "distance";
}

/** The places of the least numbers, ascending; of equal numbers the first. */
function leastPlaces(numbers: Float64Array, count: number): Int32Array {
  const places = new Int32Array(count).fill(-1);
  const values = new Float64Array(count).fill(Infinity);
  for (let at = 0; at < numbers.length; at++) {
    const value = numbers[at] as number;
    if (value >= (values[count - 1] as number)) continue;
    let to = count - 1;
    for (; to > 0 && (values[to - 1] as number) > value; to--) {
      values[to] = values[to - 1] as number;
      places[to] = places[to - 1] as number;
    }
    values[to] = value;
    places[to] = at;
  }
  return places;
}

/** The places of the nearest rows and their squared distances: all that rounding could put among them are compared exactly. */
function nearest({ rough, error, exact }: Distances, count: number): readonly [Int32Array, Float64Array] {
  const last = leastPlaces(rough, count)[count - 1] as number;
  const most = (rough[last] as number) + 2 * error;
  const candidates: number[] = [];
  for (let at = 0; at < rough.length; at++) if ((rough[at] as number) <= most) candidates.push(at);
  const distances = Float64Array.from(candidates, exact);
  const chosen = leastPlaces(distances, count);
  return [chosen.map((at) => candidates[at] as number), Float64Array.from(chosen, (at) => distances[at] as number)];
}

/** Sums of the neighbours' rows of `targets`, weighted so that the weights of each example are 1 together. */
function averaged(queries: Matrix, x: Matrix, targets: Matrix, { neighbours, weights }: NeighboursOptions): Matrix {
  const [values, outputs] = [targets.dataSync(), targets.columns];
  const result = new Float64Array(queries.rows * outputs);
  eachRowOfDistances(queries, x, (row, distances) => {
    const [places, squared] = nearest(distances, neighbours);
    const own = weightsOf(squared, weights);
    for (const [at, place] of places.entries())
      for (let output = 0; output < outputs; output++) {
        const to = row * outputs + output;
        result[to] = (result[to] as number) + (own[at] as number) * (values[place * outputs + output] as number);
      }
  });
  return dense(result, queries.rows, outputs);
}

function weightsOf(squared: Float64Array, weights: NeighboursOptions["weights"]): Float64Array {
  const far = squared.map(Math.sqrt);
  // Examples in the very same place alone count, if there are any.
  const raw =
    weights === "uniform"
      ? far.map(() => 1)
      : far.includes(0)
        ? far.map((distance) => (distance === 0 ? 1 : 0))
        : far.map((distance) => 1 / distance);
  const sum = raw.reduce((total, weight) => total + weight, 0);
  return raw.map((weight) => weight / sum);
}

function checkNeighbours(what: string, { neighbours, weights }: NeighboursOptions): void {
  checkInteger(what, "neighbours", neighbours, 1);
  checkChoice(what, "weights", weights, ["uniform", "distance"]);
}

function examplesOf(what: string, data: MatrixData, { neighbours }: NeighboursOptions): Matrix {
  const x = featuresOf(what, data);
  if (neighbours <= x.rows) return x;
  throw new HeddleError(
    "shape",
    `${what}: asks for ${plural(neighbours, "neighbour")} of ${plural(x.rows, "example")}`,
  );
}

const defaults: NeighboursOptions = { neighbours: 5, weights: "uniform" };

/** Labels by the nearest examples (Fix and Hodges, 1951), by Euclidean distance; all distances are computed. */
export const kNeighboursClassifier: (
  options?: Partial<NeighboursOptions>,
) => Estimator<ProbabilisticClassifier, NeighboursOptions> = defineEstimator<
  ProbabilisticClassifier,
  NeighboursOptions
>({
  name: "kNeighboursClassifier",
  defaults,
  check: (options) => checkNeighbours("kNeighboursClassifier", options),
  learn: (data, y, options) => {
    const x = examplesOf("kNeighboursClassifier", data, options);
    const { classes, codes } = labelsOf("kNeighboursClassifier", y, x.rows);
    return { x, codes: columnVector(codes), classes: rowVector(classes) };
  },
  model: (state, options) => {
    const [x, classes] = [learnt(state, "x"), numbersOf(state, "classes")];
    const codes = learnt(state, "codes").dataSync();
    const truth = new Float64Array(x.rows * classes.length);
    for (const [row, code] of codes.entries()) truth[row * classes.length + code] = 1;
    const targets = dense(truth, x.rows, classes.length);
    const probabilities = (data: MatrixData): Matrix =>
      averaged(featuresOf("kNeighboursClassifier", data, x.columns), x, targets, options);
    return {
      classes,
      probabilities,
      predict: (data) => labelsAt(classes, probabilities(data).argmax(1).dataSync()),
    };
  },
});

/** The mean of the targets of the nearest examples, by Euclidean distance. */
export const kNeighboursRegressor: (options?: Partial<NeighboursOptions>) => Estimator<Predictor, NeighboursOptions> =
  defineEstimator<Predictor, NeighboursOptions>({
    name: "kNeighboursRegressor",
    defaults,
    check: (options) => checkNeighbours("kNeighboursRegressor", options),
    learn: (data, y, options) => {
      const x = examplesOf("kNeighboursRegressor", data, options);
      return { x, y: targetsOf("kNeighboursRegressor", y, x.rows) };
    },
    model: (state, options) => {
      const [x, y] = [learnt(state, "x"), learnt(state, "y")];
      return { predict: (data) => averaged(featuresOf("kNeighboursRegressor", data, x.columns), x, y, options) };
    },
  });

/** Options of {@link dbscan}. */
export interface DbscanOptions {
  /** Examples this near to each other are neighbours; default 0.5. */
  readonly radius: number;
  /** An example with so many neighbours, itself among them, is in a dense place; default 5. */
  readonly minNeighbours: number;
}

/** Fitted clusters of dense places. It does not predict: other examples would change the clusters. */
export interface DbscanModel extends Model {
  /** The number of each example's cluster, -1 for noise, as a column. */
  readonly labels: Matrix;
  readonly clusters: number;
}

/** Numbers of clusters: a dense example takes its neighbours with it. */
function spread(lists: readonly Int32Array[], minNeighbours: number): Float64Array {
  const labels = new Float64Array(lists.length).fill(-1);
  let cluster = 0;
  for (let first = 0; first < lists.length; first++) {
    if (labels[first] !== -1 || (lists[first] as Int32Array).length < minNeighbours) continue;
    const stack = [first];
    labels[first] = cluster;
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      const near = lists[at] as Int32Array;
      if (near.length < minNeighbours) continue;
      for (const other of near) {
        if (labels[other] !== -1) continue;
        labels[other] = cluster;
        stack.push(other);
      }
    }
    cluster++;
  }
  return labels;
}

/** Clusters of examples in dense places, and noise (Ester and others, 1996); all distances are computed. */
export const dbscan: (options?: Partial<DbscanOptions>) => Estimator<DbscanModel, DbscanOptions> = defineEstimator<
  DbscanModel,
  DbscanOptions
>({
  name: "dbscan",
  defaults: { radius: 0.5, minNeighbours: 5 },
  check: ({ radius, minNeighbours }) => {
    checkNumber("dbscan", "radius", radius, Number.MIN_VALUE);
    checkInteger("dbscan", "minNeighbours", minNeighbours, 1);
  },
  learn: (data, _y, { radius, minNeighbours }) => {
    const x = featuresOf("dbscan", data);
    const lists: Int32Array[] = [];
    eachRowOfDistances(x, x, (_row, { rough, error, exact }) => {
      const [most, near]: [number, number[]] = [radius * radius, []];
      for (let at = 0; at < rough.length; at++) {
        const beyond = (rough[at] as number) - most;
        if (beyond <= -error || (beyond <= error && exact(at) <= most)) near.push(at);
      }
      lists.push(Int32Array.from(near));
    });
    return { labels: columnVector(spread(lists, minNeighbours)) };
  },
  model: (state) => {
    const labels = learnt(state, "labels");
    return { labels, clusters: 1 + labels.max().itemSync() };
  },
});
