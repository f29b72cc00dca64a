/** @module Layers: records of pure functions over named trees of tensors. */
export { flatten, gelu, relu, sigmoid, tanh } from "./activations.ts";
export { type Conv2dOptions, conv2d, type Size2d } from "./convolution.ts";
export { dropout } from "./dropout.ts";
export { type EmbeddingOptions, embedding } from "./embedding.ts";
export { uniformByFanIn } from "./initialise.ts";
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
export { sequential } from "./sequential.ts";
