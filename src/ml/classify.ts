/** @module Linear classifiers: logistic regression, multinomial too, and support vector machines with a squared hinge. */

import { binary, dense, evaluate, type Matrix, unary, zeros } from "../matrix/index.ts";
import { checkNumber } from "../util/options.ts";
import { featuresOf, indicators, type Labels, labelsAt, labelsOf, rowVector } from "./data.ts";
import { leastLoss } from "./lbfgs.ts";
import {
  type Classifier,
  checkIterations,
  defineEstimator,
  type Estimator,
  endOf,
  type Iterated,
  type IterationOptions,
  learnt,
  type ModelState,
  numbersOf,
  type ProbabilisticClassifier,
} from "./model.ts";

/** Options of {@link logisticRegression} and {@link linearSvc}. */
export interface LinearClassifierOptions extends IterationOptions {
  /** The penalty on half the sum of squared coefficients, beside the sum of the losses: 1/C of scikit-learn. Default 1. */
  readonly alpha: number;
  /** Whether there is an intercept; default true. */
  readonly intercept: boolean;
  /** Ends when no element of the gradient of the loss, divided by the number of examples, is larger; default 1e-6. */
  readonly tolerance: number;
  /** Steps of L-BFGS; default 1000. */
  readonly maxIterations: number;
}

/** What linear classifiers have learnt. */
export interface LinearScores extends Iterated {
  /** A row for each feature; a column for each class, or one for the second of two classes. */
  readonly coefficients: Matrix;
  /** A number for each column of the coefficients. */
  readonly intercept: Matrix;
  /** The linear function of each example and class, or of the second of two classes. */
  scores(x: Parameters<Classifier["predict"]>[0]): Matrix;
}

/** A fitted logistic regression. */
export interface LogisticModel extends ProbabilisticClassifier, LinearScores {}

/** A fitted linear support vector machine. */
export interface LinearSvcModel extends Classifier, LinearScores {}

const defaults: LinearClassifierOptions = { alpha: 1, intercept: true, tolerance: 1e-6, maxIterations: 1000 };

/** The loss of all examples by their scores, and its slope for each of them. */
type LossOfScores = (scores: Matrix) => { readonly loss: Matrix; readonly slope: Matrix };

interface Fit {
  readonly x: Matrix;
  readonly outputs: number;
  readonly loss: LossOfScores;
  /** Whether the intercept is penalised like a coefficient. */
  readonly penaliseIntercept: boolean;
}

async function fitScores(labels: Labels, options: LinearClassifierOptions, fit: Fit): Promise<ModelState> {
  const { x, outputs, loss, penaliseIntercept } = fit;
  const { alpha, intercept } = options;
  const [size, scale] = [x.columns * outputs, 1 / x.rows];
  const parts = (parameters: Float64Array): [Matrix, Matrix] => [
    dense(parameters.slice(0, size), x.columns, outputs),
    dense(parameters.slice(size), 1, outputs),
  ];
  const lossAt = (parameters: Float64Array) => {
    const [w, b] = parts(parameters);
    const found = loss(x.matmul(w).add(b));
    const penalised = penaliseIntercept ? w.mul(w).sum().add(b.mul(b).sum()) : w.mul(w).sum();
    const total = found.loss.add(penalised.mul(alpha / 2)).mul(scale);
    const gradientW = x.T.matmul(found.slope).add(w.mul(alpha)).mul(scale);
    const slopes = found.slope.sum(0);
    const gradientB = (penaliseIntercept ? slopes.add(b.mul(alpha)) : slopes).mul(intercept ? scale : 0);
    evaluate(total, gradientW, gradientB);
    const gradient = new Float64Array(parameters.length);
    gradient.set(gradientW.dataSync());
    gradient.set(gradientB.dataSync(), size);
    return { loss: total.itemSync(), gradient };
  };
  const { parameters, iterations, converged } = await leastLoss(lossAt, new Float64Array(size + outputs), options);
  const [coefficients, offset] = parts(parameters);
  return { coefficients, intercept: offset, classes: rowVector(labels.classes), iterations, converged };
}

function scoresOf(what: string, state: ModelState): LinearScores & Pick<Classifier, "classes"> {
  const [coefficients, intercept] = [learnt(state, "coefficients"), learnt(state, "intercept")];
  return {
    coefficients,
    intercept,
    classes: numbersOf(state, "classes"),
    ...endOf(state),
    scores: (x) => featuresOf(what, x, coefficients.rows).matmul(coefficients).add(intercept),
  };
}

/** The label of the largest score, or, of one score, of its sign. */
const labelOf = (classes: readonly number[], scores: Matrix): Matrix =>
  labelsAt(classes, (scores.columns === 1 ? binary("gt", scores, 0) : scores.argmax(1)).dataSync());

function checkLinear(what: string, options: LinearClassifierOptions): void {
  checkNumber(what, "alpha", options.alpha, 0);
  checkIterations(what, options);
}

/** -1 and 1 in one column for two classes, else in a column for each class against the rest. */
function signsOf(labels: Labels): Matrix {
  const all = indicators(labels, -1);
  const signs = labels.classes.length === 2 ? all.slice([0, all.rows], [1, 2]) : all;
  evaluate(signs);
  return signs;
}

/** log(1 + exp(-m)) of margins m, without overflow; its slope is -1 / (1 + exp(m)). */
function logisticLoss(signs: Matrix): LossOfScores {
  return (scores) => {
    const margins = scores.mul(signs);
    const small = unary("log", unary("exp", unary("neg", unary("abs", margins))).add(1));
    const loss = binary("max", unary("neg", margins), 0).add(small).sum();
    return { loss, slope: unary("sigmoid", unary("neg", margins)).mul(signs).mul(-1) };
  };
}

/** The cross-entropy of softmax probabilities. */
function multinomialLoss(truth: Matrix): LossOfScores {
  return (scores) => {
    const shifted = scores.sub(scores.max(1));
    const powers = unary("exp", shifted);
    const sums = powers.sum(1);
    const loss = unary("log", sums).sum().sub(truth.mul(shifted).sum());
    return { loss, slope: powers.div(sums).sub(truth) };
  };
}

/**
 * Logistic regression: of two classes the logistic function of one score, of more classes softmax of a score for each. The sum of the
 * cross-entropies and the penalty is least; the intercept is not penalised.
 */
export const logisticRegression: (
  options?: Partial<LinearClassifierOptions>,
) => Estimator<LogisticModel, LinearClassifierOptions> = defineEstimator<LogisticModel, LinearClassifierOptions>({
  name: "logisticRegression",
  defaults,
  check: (options) => checkLinear("logisticRegression", options),
  learn: (data, y, options) => {
    const x = featuresOf("logisticRegression", data);
    const labels = labelsOf("logisticRegression", y, x.rows);
    const isBinary = labels.classes.length === 2;
    const loss = isBinary ? logisticLoss(signsOf(labels)) : multinomialLoss(indicators(labels));
    const outputs = isBinary ? 1 : labels.classes.length;
    return fitScores(labels, options, { x, outputs, loss, penaliseIntercept: false });
  },
  model: (state) => {
    const linear = scoresOf("logisticRegression", state);
    const probabilities = (x: Parameters<Classifier["predict"]>[0]): Matrix => {
      const scores = linear.scores(x);
      if (scores.columns > 1) {
        const powers = unary("exp", scores.sub(scores.max(1)));
        return powers.div(powers.sum(1));
      }
      return unary("sigmoid", scores.matmul(dense(Float64Array.of(-1, 1), 1, 2)));
    };
    return { ...linear, probabilities, predict: (x) => labelOf(linear.classes, linear.scores(x)) };
  },
});

/**
 * A linear support vector machine with the squared hinge loss, in the primal; more than two classes each against the rest. The
 * intercept is penalised, as in LIBLINEAR and SystemDS.
 */
export const linearSvc: (
  options?: Partial<LinearClassifierOptions>,
) => Estimator<LinearSvcModel, LinearClassifierOptions> = defineEstimator<LinearSvcModel, LinearClassifierOptions>({
  name: "linearSvc",
  defaults,
  check: (options) => checkLinear("linearSvc", options),
  learn: (data, y, options) => {
    const x = featuresOf("linearSvc", data);
    const labels = labelsOf("linearSvc", y, x.rows);
    const signs = signsOf(labels);
    const loss: LossOfScores = (scores) => {
      const short = binary("max", scores.mul(signs).mul(-1).add(1), zeros(1, 1));
      return { loss: short.mul(short).sum(), slope: short.mul(signs).mul(-2) };
    };
    return fitScores(labels, options, { x, outputs: signs.columns, loss, penaliseIntercept: true });
  },
  model: (state) => {
    const linear = scoresOf("linearSvc", state);
    return { ...linear, predict: (x) => labelOf(linear.classes, linear.scores(x)) };
  },
});
