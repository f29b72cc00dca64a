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
export { dropout } from "./dropout.ts";
export { type EmbeddingOptions, embedding } from "./embedding.ts";
export * as functional from "./functional.ts";
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
export { sequential } from "./sequential.ts";
export {
  type ConvTranspose1dOptions,
  type ConvTranspose2dOptions,
  type ConvTranspose3dOptions,
  type ConvTransposeLayerOptions,
  convTranspose1d,
  convTranspose2d,
  convTranspose3d,
} from "./transposed.ts";
