/** @module Decision trees, random forests and gradient boosting, all of trees that are grown by histograms. */

import { dense, type Matrix } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber } from "../util/options.ts";
import {
  featuresOf,
  indicators,
  type Labels,
  labelsAt,
  labelsOf,
  type MatrixData,
  rowVector,
  targetsOf,
} from "./data.ts";
import {
  checkChoice,
  defineEstimator,
  type Estimator,
  learnt,
  type ModelState,
  numbersOf,
  type Predictor,
  type ProbabilisticClassifier,
} from "./model.ts";
import { uniforms } from "./random.ts";
import { binned, mostBins } from "./tree/bins.ts";
import { importances, packed, sumsOfTrees } from "./tree/forest.ts";
import { type Growth, grow, type Tree } from "./tree/grow.ts";

/** Options of trees. */
export interface TreeOptions {
  /** Most splits from the root to a leaf; default Infinity. */
  readonly maxDepth: number;
  /** Most leaves; nodes that gain most are split first. Default Infinity. */
  readonly maxLeaves: number;
  /** A node of fewer examples is a leaf; default 2. */
  readonly minSplit: number;
  /** Fewest examples of a leaf; default 1. */
  readonly minLeaf: number;
  /** Bins of each feature, at most 255: a feature of more values is split between bins alone. Default 255. */
  readonly bins: number;
}

/** Options of forests. */
export interface ForestOptions extends TreeOptions {
  /** The number of trees; default 100. */
  readonly trees: number;
  /** Features that are drawn at each node: a number, `"sqrt"` of all (default of classifiers), or `"all"` (default of regressors). */
  readonly features: number | "sqrt" | "all";
  /** Whether each tree gets a sample of the examples, drawn with repetition; default true. */
  readonly bootstrap: boolean;
  /** Default 0. */
  readonly seed: number;
}

/** Options of gradient boosting. */
export interface BoostingOptions extends TreeOptions {
  /** The number of rounds, in each of which a tree is added for each output; default 100. */
  readonly rounds: number;
  /** How much of each tree is added; default 0.1. */
  readonly learningRate: number;
  /** What is added to sums of Hessians (L2); default 0. */
  readonly penalty: number;
}

/** What models of trees tell of the features. */
export interface TreeModel {
  /** The part of all gains that splits by each feature have, 1 x features. */
  readonly importances: Matrix;
}

/** A fitted classifier of trees. */
export interface TreeClassifier extends ProbabilisticClassifier, TreeModel {}

/** A fitted regressor of trees. */
export interface TreeRegressor extends Predictor, TreeModel {}

const treeDefaults: TreeOptions = {
  maxDepth: Infinity,
  maxLeaves: Infinity,
  minSplit: 2,
  minLeaf: 1,
  bins: mostBins,
};

function checkTree(what: string, options: TreeOptions): void {
  for (const [name, least] of [
    ["maxDepth", 1],
    ["maxLeaves", 2],
  ] as const)
    if (options[name] !== Infinity) checkInteger(what, name, options[name], least);
  checkInteger(what, "minSplit", options.minSplit, 2);
  checkInteger(what, "minLeaf", options.minLeaf, 1);
  checkInteger(what, "bins", options.bins, 2, mostBins);
}

function checkForest(what: string, options: ForestOptions): void {
  checkTree(what, options);
  checkInteger(what, "trees", options.trees, 1);
  checkInteger(what, "seed", options.seed);
  if (typeof options.features === "number") checkInteger(what, "features", options.features, 1);
  else checkChoice(what, "features", options.features, ["sqrt", "all"]);
  if (typeof options.bootstrap !== "boolean")
    throw new HeddleError("option", `${what}: bootstrap must be true or false`);
}

function checkBoosting(what: string, options: BoostingOptions): void {
  checkTree(what, options);
  checkInteger(what, "rounds", options.rounds, 1);
  checkNumber(what, "learningRate", options.learningRate, Number.MIN_VALUE);
  checkNumber(what, "penalty", options.penalty, 0);
}

const allRows = (length: number): Int32Array => Int32Array.from({ length }, (_unused, row) => row);

function growthOf(x: Matrix, targets: Float64Array, outputs: number, options: TreeOptions): Growth {
  const { maxDepth, maxLeaves, minSplit, minLeaf, bins } = options;
  return {
    binned: binned(x, bins),
    targets,
    outputs,
    weights: new Float64Array(x.rows).fill(1),
    penalty: 0,
    maxDepth,
    maxLeaves,
    minSplit,
    minLeaf,
    features: x.columns,
    draw: () => 0,
  };
}

function forestOf(what: string, growth: Growth, { trees, features, bootstrap, seed }: ForestOptions): Tree[] {
  const { rows, columns } = growth.binned;
  const few = features === "all" ? columns : features === "sqrt" ? Math.floor(Math.sqrt(columns)) : features;
  if (few > columns) throw new HeddleError("option", `${what}: features is ${few}, and there are ${columns}`);
  return Array.from({ length: trees }, (_unused, tree) => {
    const draw = uniforms(what, seed, tree);
    const members = bootstrap ? Int32Array.from({ length: rows }, () => Math.floor(draw() * rows)) : allRows(rows);
    return grow({ ...growth, features: Math.max(1, few), draw }, members);
  });
}

const stateOf = (trees: readonly Tree[], outputs: number, columns: number): ModelState => {
  const { nodes, roots } = packed(trees, outputs);
  return { nodes, roots, importances: importances(nodes, columns) };
};

/** How trees of a kind are grown from targets. */
type Grow<Options> = (what: string, growth: Growth, options: Options) => Tree[];

const single: Grow<TreeOptions> = (_what, growth) => [grow(growth, allRows(growth.binned.rows))];

/** Classifiers whose leaves hold the part of each class: a model's probabilities are the means over its trees. */
const classifierOf = <Options extends TreeOptions>(
  name: string,
  defaults: Options,
  check: (what: string, options: Options) => void,
  trees: Grow<Options>,
) =>
  defineEstimator<TreeClassifier, Options>({
    name,
    defaults,
    check: (options) => check(name, options),
    learn: (data, y, options) => {
      const x = featuresOf(name, data);
      const labels = labelsOf(name, y, x.rows);
      const outputs = labels.classes.length;
      const growth = growthOf(x, indicators(labels).dataSync(), outputs, options);
      return { ...stateOf(trees(name, growth, options), outputs, x.columns), classes: rowVector(labels.classes) };
    },
    model: (state) => {
      const [nodes, roots, own] = [learnt(state, "nodes"), learnt(state, "roots"), learnt(state, "importances")];
      const classes = numbersOf(state, "classes");
      const probabilities = (data: MatrixData): Matrix => {
        const x = featuresOf(name, data, own.columns);
        return dense(sumsOfTrees(x, nodes, roots), x.rows, classes.length).div(roots.rows);
      };
      return {
        classes,
        importances: own,
        probabilities,
        predict: (x) => labelsAt(classes, probabilities(x).argmax(1).dataSync()),
      };
    },
  });

/** Regressors whose leaves hold means: a model's predictions are the means over its trees. */
const regressorOf = <Options extends TreeOptions>(
  name: string,
  defaults: Options,
  check: (what: string, options: Options) => void,
  trees: Grow<Options>,
) =>
  defineEstimator<TreeRegressor, Options>({
    name,
    defaults,
    check: (options) => check(name, options),
    learn: (data, given, options) => {
      const x = featuresOf(name, data);
      const y = targetsOf(name, given, x.rows);
      const growth = growthOf(x, y.dataSync(), y.columns, options);
      return stateOf(trees(name, growth, options), y.columns, x.columns);
    },
    model: (state) => {
      const [nodes, roots, own] = [learnt(state, "nodes"), learnt(state, "roots"), learnt(state, "importances")];
      return {
        importances: own,
        predict: (data) => {
          const x = featuresOf(name, data, own.columns);
          return dense(sumsOfTrees(x, nodes, roots), x.rows, nodes.columns - 5).div(roots.rows);
        },
      };
    },
  });

/** A decision tree that predicts labels, by the Gini impurity (Breiman and others, 1984). */
export const decisionTreeClassifier: (options?: Partial<TreeOptions>) => Estimator<TreeClassifier, TreeOptions> =
  classifierOf("decisionTreeClassifier", treeDefaults, checkTree, single);

/** A decision tree that predicts numbers, by the squared error. */
export const decisionTreeRegressor: (options?: Partial<TreeOptions>) => Estimator<TreeRegressor, TreeOptions> =
  regressorOf("decisionTreeRegressor", treeDefaults, checkTree, single);

const forestDefaults: ForestOptions = { ...treeDefaults, trees: 100, features: "sqrt", bootstrap: true, seed: 0 };

/** A random forest that predicts labels (Breiman, 2001): trees of random examples and features vote by their probabilities. */
export const randomForestClassifier: (options?: Partial<ForestOptions>) => Estimator<TreeClassifier, ForestOptions> =
  classifierOf("randomForestClassifier", forestDefaults, checkForest, forestOf);

/** A random forest that predicts numbers. */
export const randomForestRegressor: (options?: Partial<ForestOptions>) => Estimator<TreeRegressor, ForestOptions> =
  regressorOf<ForestOptions>("randomForestRegressor", { ...forestDefaults, features: "all" }, checkForest, forestOf);

const boostingDefaults: BoostingOptions = {
  ...treeDefaults,
  maxLeaves: 31,
  minLeaf: 20,
  rounds: 100,
  learningRate: 0.1,
  penalty: 0,
};

/** Minus the gradient and the Hessian of a loss for each example and output. */
type Slopes = (scores: Float64Array) => { readonly slopes: Float64Array; readonly hessians: Float64Array };

/** Adds trees for minus the gradients, each scaled by the learning rate. */
function boosted(x: Matrix, start: Float64Array, slopesAt: Slopes, options: BoostingOptions): Tree[] {
  const { rounds, learningRate, penalty } = options;
  const outputs = start.length;
  const base = { ...growthOf(x, new Float64Array(x.rows), 1, options), penalty };
  const scores = new Float64Array(x.rows * outputs).map((_zero, at) => start[at % outputs] as number);
  const rows = allRows(x.rows);
  const trees: Tree[] = [];
  for (let round = 0; round < rounds; round++) {
    const { slopes, hessians } = slopesAt(scores);
    for (let output = 0; output < outputs; output++) {
      const every = (all: Float64Array): Float64Array =>
        rows.reduce((column, row) => {
          column[row] = all[row * outputs + output] as number;
          return column;
        }, new Float64Array(x.rows));
      const tree = grow({ ...base, targets: every(slopes), weights: every(hessians) }, rows);
      const scaled = { ...tree, value: tree.value.map((value) => learningRate * value) };
      const { nodes, roots } = packed([scaled], 1);
      const added = sumsOfTrees(x, nodes, roots);
      for (const row of rows)
        scores[row * outputs + output] = (scores[row * outputs + output] as number) + (added[row] as number);
      trees.push(scaled);
    }
  }
  return trees;
}

/** A Hessian of 0 would make a leaf's value infinite. */
const leastHessian = 1e-16;

const logistic =
  ({ codes }: Labels): Slopes =>
  (scores) => {
    const p = scores.map((score) => 1 / (1 + Math.exp(-score)));
    return {
      slopes: p.map((value, row) => (codes[row] as number) - value),
      hessians: p.map((value) => Math.max(value * (1 - value), leastHessian)),
    };
  };

const multinomial =
  ({ codes, classes: { length } }: Labels): Slopes =>
  (scores) => {
    const p = softmax(scores, length);
    return {
      slopes: p.map((value, at) => (at % length === codes[Math.floor(at / length)] ? 1 : 0) - value),
      hessians: p.map((value) => Math.max(value * (1 - value), leastHessian)),
    };
  };

function softmax(scores: Float64Array, width: number): Float64Array {
  const result = new Float64Array(scores.length);
  for (let first = 0; first < scores.length; first += width) {
    const row = scores.subarray(first, first + width);
    const top = row.reduce((most, score) => Math.max(most, score), -Infinity);
    const powers = row.map((score) => Math.exp(score - top));
    const sum = powers.reduce((total, power) => total + power, 0);
    result.set(
      powers.map((power) => power / sum),
      first,
    );
  }
  return result;
}

/** Gradient boosting that predicts numbers, by the squared error (Friedman, 2001), of trees by histograms (Ke and others, 2017). */
export const gradientBoostingRegressor: (
  options?: Partial<BoostingOptions>,
) => Estimator<TreeRegressor, BoostingOptions> = defineEstimator<TreeRegressor, BoostingOptions>({
  name: "gradientBoostingRegressor",
  defaults: boostingDefaults,
  check: (options) => checkBoosting("gradientBoostingRegressor", options),
  learn: (data, given, options) => {
    const x = featuresOf("gradientBoostingRegressor", data);
    const y = targetsOf("gradientBoostingRegressor", given, x.rows);
    if (y.columns !== 1)
      throw new HeddleError("shape", `gradientBoostingRegressor: y must be one column, got ${y.rows}x${y.columns}`);
    const [truth, start] = [y.dataSync(), y.mean().dataSync()];
    const hessians = new Float64Array(x.rows).fill(1);
    const slopes: Slopes = (scores) => ({
      slopes: scores.map((score, row) => (truth[row] as number) - score),
      hessians,
    });
    return { ...stateOf(boosted(x, start, slopes, options), 1, x.columns), start: rowVector(start) };
  },
  model: (state) => {
    const [nodes, roots, own] = [learnt(state, "nodes"), learnt(state, "roots"), learnt(state, "importances")];
    return {
      importances: own,
      predict: (data) => {
        const x = featuresOf("gradientBoostingRegressor", data, own.columns);
        return dense(sumsOfTrees(x, nodes, roots), x.rows, 1).add(learnt(state, "start"));
      },
    };
  },
});

/** Gradient boosting that predicts labels, by the cross-entropy; of more than two classes a tree for each in every round. */
export const gradientBoostingClassifier: (
  options?: Partial<BoostingOptions>,
) => Estimator<TreeClassifier, BoostingOptions> = defineEstimator<TreeClassifier, BoostingOptions>({
  name: "gradientBoostingClassifier",
  defaults: boostingDefaults,
  check: (options) => checkBoosting("gradientBoostingClassifier", options),
  learn: (data, y, options) => {
    const x = featuresOf("gradientBoostingClassifier", data);
    const labels = labelsOf("gradientBoostingClassifier", y, x.rows);
    const parts = indicators(labels).mean(0).dataSync();
    const [, second = 0] = parts;
    const isBinary = parts.length === 2;
    const start = isBinary ? Float64Array.of(Math.log(second / (1 - second))) : centredLogs(parts);
    const trees = boosted(x, start, (isBinary ? logistic : multinomial)(labels), options);
    const classes = rowVector(labels.classes);
    return { ...stateOf(trees, 1, x.columns), start: rowVector(start), classes };
  },
  model: (state) => {
    const [nodes, roots, own] = [learnt(state, "nodes"), learnt(state, "roots"), learnt(state, "importances")];
    const [start, classes] = [learnt(state, "start"), numbersOf(state, "classes")];
    const probabilities = (data: MatrixData): Matrix => {
      const x = featuresOf("gradientBoostingClassifier", data, own.columns);
      const sums = sumsOfTrees(x, nodes, roots, start.columns);
      const scores = dense(sums, x.rows, start.columns).add(start).dataSync();
      // A score against 0 is what softmax makes of two classes.
      const all =
        start.columns > 1
          ? scores
          : Float64Array.from({ length: 2 * x.rows }, (_zero, at) => (at % 2 === 0 ? 0 : (scores[at >> 1] as number)));
      return dense(softmax(all, classes.length), x.rows, classes.length);
    };
    return {
      classes,
      importances: own,
      probabilities,
      predict: (x) => labelsAt(classes, probabilities(x).argmax(1).dataSync()),
    };
  },
});

function centredLogs(parts: Float64Array): Float64Array {
  const logs = parts.map((part) => Math.log(part));
  const mean = logs.reduce((sum, log) => sum + log, 0) / logs.length;
  return logs.map((log) => log - mean);
}
