/** @module Losses. */
export {
  binaryCrossEntropyWithLogits,
  type Loss,
  type LossOptions,
  type LossReduction,
  l1,
  mse,
  softmaxCrossEntropy,
} from "./losses.ts";
