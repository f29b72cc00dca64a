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
export { type Conv2dOptions, conv2d, type Size2d } from "./convolution.ts";
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
export { type MaxPool2dOptions, maxPool2d } from "./pooling.ts";
export { remat } from "./remat.ts";
export { sequential } from "./sequential.ts";
