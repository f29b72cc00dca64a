/** @module Metrics of a model besides its loss. */
export {
  auc,
  type ClassAverage,
  type ClassMetricOptions,
  confusionMatrix,
  f1,
  precision,
  recall,
  rocAuc,
} from "./classes.ts";
export {
  accuracy,
  binaryAccuracy,
  meanAbsoluteError,
  meanSquaredError,
  perplexity,
  rootMeanSquaredError,
  topK,
} from "./example.ts";
export { type CountedMetric, isCounted, type Metric, type Metrics } from "./metric.ts";
