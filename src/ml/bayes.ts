/** @module Naive Bayes: features that are independent of each other given the class. */

import { concatenate, evaluate, type Matrix, unary } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkNumber } from "../util/options.ts";
import { featuresOf, indicators, labelsAt, labelsOf, type MatrixData, rowVector } from "./data.ts";
import {
  defineEstimator,
  type Estimator,
  learnt,
  type ModelState,
  numbersOf,
  type ProbabilisticClassifier,
} from "./model.ts";

/** Options of {@link gaussianNaiveBayes}. */
export interface GaussianNaiveBayesOptions {
  /** This part of the largest variance of a feature is added to all variances; default 1e-9. */
  readonly smoothing: number;
}

/** Options of {@link multinomialNaiveBayes}. */
export interface MultinomialNaiveBayesOptions {
  /** What is added to each count, above 0; default 1 (Laplace). */
  readonly smoothing: number;
}

type Joint = (x: Matrix) => Matrix;

/** The methods of a model by the logarithm of the probability of each example with each class. */
function byJoint(what: string, state: ModelState, columns: number, joint: Joint) {
  const classes = numbersOf(state, "classes");
  return {
    classes,
    predict: (x: MatrixData) =>
      labelsAt(
        classes,
        joint(featuresOf(what, x, columns))
          .argmax(1)
          .dataSync(),
      ),
    probabilities: (x: MatrixData): Matrix => {
      const logs = joint(featuresOf(what, x, columns));
      const powers = unary("exp", logs.sub(logs.max(1)));
      return powers.div(powers.sum(1));
    },
  };
}

/** Naive Bayes of features with a normal distribution in each class. */
export const gaussianNaiveBayes: (
  options?: Partial<GaussianNaiveBayesOptions>,
) => Estimator<ProbabilisticClassifier, GaussianNaiveBayesOptions> = defineEstimator<
  ProbabilisticClassifier,
  GaussianNaiveBayesOptions
>({
  name: "gaussianNaiveBayes",
  defaults: { smoothing: 1e-9 },
  check: ({ smoothing }) => checkNumber("gaussianNaiveBayes", "smoothing", smoothing, 0),
  learn: (data, y, { smoothing }) => {
    const x = featuresOf("gaussianNaiveBayes", data);
    const labels = labelsOf("gaussianNaiveBayes", y, x.rows);
    const of = indicators(labels);
    const counts = of.sum(0);
    const means = of.T.matmul(x).div(counts.T);
    const errors = x.sub(of.matmul(means));
    const variances = of.T.matmul(errors.mul(errors)).div(counts.T).add(x.var(0).max().mul(smoothing));
    evaluate(means, variances, counts);
    if (variances.min().itemSync() <= 0)
      throw new HeddleError("value", "gaussianNaiveBayes: all features are constant");
    return { classes: rowVector(labels.classes), priors: counts.div(x.rows), means, variances };
  },
  model: (state) => {
    const [means, variances, priors] = [learnt(state, "means"), learnt(state, "variances"), learnt(state, "priors")];
    const joint: Joint = (x) =>
      concatenate(
        Array.from({ length: means.rows }, (_unused, place) => {
          const [mean, variance] = [means, variances].map((all) => all.slice([place, place + 1])) as [Matrix, Matrix];
          const errors = x.sub(mean);
          const normaliser = unary("log", variance.mul(2 * Math.PI)).sum();
          const prior = unary("log", priors.slice([0, 1], [place, place + 1]));
          return errors.mul(errors).div(variance).sum(1).add(normaliser).mul(-0.5).add(prior);
        }),
        1,
      );
    return byJoint("gaussianNaiveBayes", state, means.columns, joint);
  },
});

/** Naive Bayes of counts, such as those of words. @throws HeddleError `value` for counts below 0 */
export const multinomialNaiveBayes: (
  options?: Partial<MultinomialNaiveBayesOptions>,
) => Estimator<ProbabilisticClassifier, MultinomialNaiveBayesOptions> = defineEstimator<
  ProbabilisticClassifier,
  MultinomialNaiveBayesOptions
>({
  name: "multinomialNaiveBayes",
  defaults: { smoothing: 1 },
  check: ({ smoothing }) => checkNumber("multinomialNaiveBayes", "smoothing", smoothing, Number.MIN_VALUE),
  learn: (data, y, { smoothing }) => {
    const x = featuresOf("multinomialNaiveBayes", data);
    const labels = labelsOf("multinomialNaiveBayes", y, x.rows);
    if (x.min().itemSync() < 0) throw new HeddleError("value", "multinomialNaiveBayes: counts are below 0");
    const of = indicators(labels);
    const counts = x.T.matmul(of).T.add(smoothing);
    const logs = unary("log", counts.div(counts.sum(1)));
    const priors = unary("log", of.sum(0).div(x.rows));
    evaluate(logs, priors);
    return { classes: rowVector(labels.classes), priors, logs };
  },
  model: (state) => {
    const [logs, priors] = [learnt(state, "logs"), learnt(state, "priors")];
    return byJoint("multinomialNaiveBayes", state, logs.columns, (x) => x.matmul(logs.T).add(priors));
  },
});
