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
  rrelu,
  selu,
  sigmoid,
  silu,
  softmax,
  softmax2d,
  softmin,
  softplus,
  softshrink,
  softsign,
  tanh,
  tanhshrink,
  threshold,
} from "./activations.ts";
export { type AdaptiveLogSoftmaxOptions, adaptiveLogSoftmax } from "./adaptive-softmax.ts";
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
export {
  type Conv1dOptions,
  type Conv2dOptions,
  type Conv3dOptions,
  type ConvLayerOptions,
  conv1d,
  conv2d,
  conv3d,
  type DepthwiseConv2dOptions,
  depthwiseConv2d,
  type PaddingMode,
  type SeparableConv2dOptions,
  type Size,
  type Size2d,
  separableConv2d,
} from "./convolution.ts";
export { alphaDropout, dropout, dropout1d, dropout2d, dropout3d } from "./dropout.ts";
export { type EmbeddingOptions, embedding } from "./embedding.ts";
export {
  type BagMode,
  type Bags,
  type EmbeddingBagLayer,
  type EmbeddingBagOptions,
  embeddingBag,
} from "./embedding-bag.ts";
export { frozen } from "./frozen.ts";
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
  type NoTensors,
  type OneOrMore,
  type ParamsOf,
  type RecordModel,
  scopeKey,
  type Variables,
  type Weighted,
} from "./layer.ts";
export { type LinearOptions, linear } from "./linear.ts";
export { type LocalResponseOptions, localResponseNorm } from "./local-response.ts";
export { type Adapted, type LoraOptions, lora, type Merged, mergeLora } from "./lora.ts";
export {
  type BoundLayer,
  type BoundLayers,
  type LayerTree,
  type Module,
  type ModuleContext,
  type ModuleLayer,
  type ModuleOptions,
  module,
  type TreeOf,
} from "./module.ts";
export {
  type BatchNormOptions,
  batchNorm,
  type GroupNormOptions,
  groupNorm,
  instanceNorm,
  type LayerNormOptions,
  layerNorm,
  type NormParams,
  rmsNorm,
} from "./norms.ts";
export {
  type AvgPoolLayerOptions,
  adaptiveAvgPool1d,
  adaptiveAvgPool2d,
  adaptiveAvgPool3d,
  adaptiveMaxPool1d,
  adaptiveMaxPool2d,
  adaptiveMaxPool3d,
  avgPool1d,
  avgPool2d,
  avgPool3d,
  globalAvgPool,
  globalMaxPool,
  type MaxPool2dOptions,
  type MaxPoolLayerOptions,
  maxPool1d,
  maxPool2d,
  maxPool3d,
} from "./pooling.ts";
export { type QuantizeDynamicOptions, quantizeDynamic } from "./quantized.ts";
export {
  type CellLayer,
  type CellOptions,
  gru,
  gruCell,
  lstm,
  lstmCell,
  type RecurrentLayer,
  type RecurrentOptions,
  type RecurrentParams,
  type RnnOptions,
  type RunOptions,
  type RunResult,
  rnn,
  rnnCell,
} from "./recurrent.ts";
export type { RecurrentState } from "./recurrent-cells.ts";
export { remat } from "./remat.ts";
export { type Combine, type ParallelOptions, parallel, residual, sequential } from "./sequential.ts";
export { type SummaryOptions, summary } from "./summary.ts";
export type { ServedTableOptions } from "./tables.ts";
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
export {
  type ConvTranspose1dOptions,
  type ConvTranspose2dOptions,
  type ConvTranspose3dOptions,
  type ConvTransposeLayerOptions,
  convTranspose1d,
  convTranspose2d,
  convTranspose3d,
} from "./transposed.ts";
