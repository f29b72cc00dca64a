/** @module Layers: records of pure functions over named trees of tensors. */
export {
  celu,
  elu,
  flatten,
  gelu,
  glu,
  hardshrink,
  hardsigmoid,
  hardswish,
  hardtanh,
  leakyRelu,
  logSigmoid,
  logSoftmax,
  mish,
  type PreluOptions,
  prelu,
  relu,
  relu6,
  selu,
  sigmoid,
  silu,
  softmax,
  softmin,
  softplus,
  softshrink,
  softsign,
  tanh,
  tanhshrink,
  threshold,
} from "./activations.ts";
export {
  type AttendOptions,
  type AttentionLayer,
  learnedPositions,
  type MultiHeadAttentionOptions,
  multiHeadAttention,
  type RotaryOptions,
  type SinusoidalOptions,
  sinusoidalPositions,
} from "./attention.ts";
export { type Conv2dOptions, conv2d, type Size2d } from "./convolution.ts";
export { alphaDropout, dropout, dropout1d, dropout2d, dropout3d } from "./dropout.ts";
export { type EmbeddingBagOptions, type EmbeddingOptions, embedding, embeddingBag } from "./embedding.ts";
export * as functional from "./functional-index.ts";
export * as init from "./init.ts";
export { type Initialiser, type LayerInit, uniformByFanIn } from "./initialise.ts";
export {
  type Applied,
  type ApplyOptions,
  activation,
  applyLayer,
  type Initialised,
  type Layer,
  type LayerLike,
  scopeKey,
  type Variables,
} from "./layer.ts";
export { type LinearOptions, linear } from "./linear.ts";
export {
  type BatchNormOptions,
  batchNorm,
  type GroupNormOptions,
  groupNorm,
  instanceNorm,
  type LayerNormOptions,
  layerNorm,
  rmsNorm,
} from "./norms.ts";
export { type MaxPool2dOptions, maxPool2d } from "./pooling.ts";
export { remat } from "./remat.ts";
export {
  type CellLayer,
  type CellOptions,
  gru,
  gruCell,
  lstm,
  lstmCell,
  type RecurrentLayer,
  type RecurrentOptions,
  type RnnOptions,
  type RunOptions,
  type RunResult,
  rnn,
  rnnCell,
} from "./recurrent.ts";
export type { RecurrentState } from "./recurrent-cells.ts";
export { sequential } from "./sequential.ts";
export {
  decoderBlock,
  type TransformerDecoderLayer,
  type TransformerEncoderOptions,
  type TransformerLayer,
  type TransformerMasks,
  type TransformerOptions,
  transformerDecoderLayer,
  transformerEncoder,
  transformerEncoderLayer,
} from "./transformer.ts";
