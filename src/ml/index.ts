/** @module Estimators of classical machine learning over matrix programs: fit, predict and transform as in scikit-learn. */

export {
  type GaussianNaiveBayesOptions,
  gaussianNaiveBayes,
  type MultinomialNaiveBayesOptions,
  multinomialNaiveBayes,
} from "./bayes.ts";
export {
  type LinearClassifierOptions,
  type LinearScores,
  type LinearSvcModel,
  type LogisticModel,
  linearSvc,
  logisticRegression,
} from "./classify.ts";
export type { MatrixData } from "./data.ts";
export { type PcaModel, type PcaOptions, pca } from "./decompose.ts";
export { type KMeansModel, type KMeansOptions, kMeans } from "./kmeans.ts";
export { type LinearModel, type LinearOptions, linearRegression, ridge } from "./linear.ts";
export type {
  Classifier,
  Estimator,
  Iterated,
  IterationOptions,
  Model,
  ModelState,
  Note,
  Predictor,
  ProbabilisticClassifier,
  Transformer,
} from "./model.ts";
export {
  type DbscanModel,
  type DbscanOptions,
  dbscan,
  kNeighboursClassifier,
  kNeighboursRegressor,
  type NeighboursOptions,
} from "./neighbours.ts";
export { type Factors, type NmfModel, type NmfOptions, nmf } from "./nmf.ts";
export { type PipelineEstimator, type PipelineModel, pipeline, type Steps } from "./pipeline.ts";
export {
  type Categories,
  type Category,
  type Encoder,
  type EncoderOptions,
  type Encoding,
  type ImputerOptions,
  imputer,
  type MinMaxOptions,
  minMaxScaler,
  oneHotEncoder,
  ordinalEncoder,
  robustScaler,
  type Scaling,
  standardScaler,
} from "./prepare.ts";
export { decodeModel, encodeModel, loadModel, saveModel } from "./save.ts";
export {
  accuracyScore,
  adjustedRandScore,
  type Confusion,
  classificationReport,
  confusionMatrix,
  type F1Options,
  f1Score,
  type LabelScores,
  logLoss,
  meanAbsoluteError,
  meanSquaredError,
  r2Score,
  rocAucScore,
  type Score,
} from "./scores.ts";
export { crossValidate, type Grid, gridSearch, type SearchResult, type ValidationOptions } from "./search.ts";
export { type Fold, type FoldOptions, folds, type Split, type SplitOptions, trainTestSplit } from "./split.ts";
export {
  type BoostingOptions,
  decisionTreeClassifier,
  decisionTreeRegressor,
  type ForestOptions,
  gradientBoostingClassifier,
  gradientBoostingRegressor,
  randomForestClassifier,
  randomForestRegressor,
  type TreeClassifier,
  type TreeModel,
  type TreeOptions,
  type TreeRegressor,
} from "./trees.ts";
