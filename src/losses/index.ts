/**
 * @module Losses: functions of a model's output and the target. By default a scalar, the mean over the batch; pass one
 * to `train` as it is, or with its options fixed: `(y, t) => losses.mse(y, t, { reduction: "sum" })`.
 */
export {
  type BinaryLogitsOptions,
  type BinaryOptions,
  binaryCrossEntropy,
  binaryCrossEntropyWithLogits,
  type ClassOptions,
  type CrossEntropyOptions,
  hinge,
  hingeEmbedding,
  nll,
  softmaxCrossEntropy,
} from "./classification.ts";
export { type CtcOptions, ctc } from "./ctc.ts";
export { cosineEmbedding, type TripletOptions, tripletMargin } from "./embedding.ts";
export { type Loss, type LossOptions, type LossReduction, weightedMean } from "./reduce.ts";
export {
  type GaussianNllOptions,
  gaussianNll,
  huber,
  type KlDivergenceOptions,
  klDivergence,
  l1,
  mse,
  type PoissonNllOptions,
  poissonNll,
  smoothL1,
} from "./regression.ts";
