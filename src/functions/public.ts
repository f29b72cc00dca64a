/** @module The part of `heddle/tensor` that programs use; the rest is for extensions of Heddle. */
// Any import from here must define the methods on the prototype.
import "./methods.ts";

export { cond, type LoopOptions, scan, type WhileOptions, whileLoop } from "../tensor/control.ts";
export {
  type Cotangents,
  customGradient,
  customJvp,
  type GradientOf,
  type TangentOf,
} from "../tensor/custom.ts";
export { grad, jvp, valueAndGrad, vjp } from "../tensor/derivatives.ts";
export { distribute, redistribute, replicate } from "../tensor/distribute.ts";
export { evalShape, type Shapes } from "../tensor/eval-shape.ts";
export { type StableHloOptions, stablehlo } from "../tensor/export.ts";
export type { FunctionPipeline } from "../tensor/pipeline.ts";
export { type CompiledPlan, compilePlan, type NamedTensors } from "../tensor/plan.ts";
export { type RematOptions, type RematPolicy, type RematValue, remat } from "../tensor/remat.ts";
export { connect, deviceRuntime } from "../tensor/runtime.ts";
export { isTensor, Tensor, type TensorLike } from "../tensor/tensor.ts";
export {
  type CompiledFunction,
  compilePipeline,
  type FunctionOptions,
  type JitOptions,
  jit,
  type PipelineOptions,
  type PlannedFunction,
  planFunction,
} from "../tensor/transforms.ts";
export { type DimTree, type VmapOptions, vmap } from "../tensor/vmap.ts";
export * from "./assemble.ts";
export { allClose, type CloseOptions } from "./close.ts";
export { type AttentionOptions, scaledDotProductAttention } from "./composites/attention.ts";
export { softmaxCrossEntropy } from "./composites/cross-entropy.ts";
export { moments, type NormalizeOptions, normalize } from "./composites/normalize.ts";
export {
  arange,
  type CreateOptions,
  full,
  linspace,
  type NestedNumbers,
  type NumberArray,
  ones,
  onesLike,
  tensor,
  zeros,
  zerosLike,
} from "./create.ts";
export * from "./dynamic.ts";
export { einsum } from "./einsum.ts";
export {
  type BincountOptions,
  bincount,
  booleanMask,
  type FoundOptions,
  type HistogramOptions,
  histogram,
  nonzero,
  repeatInterleave,
  type SearchOptions,
  type SizeOptions,
  searchsorted,
} from "./finding.ts";
export * from "./fourier.ts";
export * from "./functions.ts";
export { hessian, type JacobianOptions, jacobian } from "./jacobian.ts";
export * as linalg from "./linalg.ts";
export * from "./methods/index.ts";
export { dequantize, type Quantized, type QuantizeOptions, quantize } from "./narrow/quantize.ts";
export * from "./pooling.ts";
export * as random from "./random.ts";
export * from "./reduce-window.ts";
export { type ResizeOptions, resize } from "./resize.ts";
export { type GridSampleOptions, gridSample } from "./sampling.ts";
export * from "./segments.ts";
export {
  fftfreq,
  type IstftOptions,
  istft,
  rfftfreq,
  type SpectrumOptions,
  type StftOptions,
  stft,
} from "./spectrum.ts";
export * from "./statistics.ts";
export { tensorFunction } from "./tensor-function.ts";
export type { Tensors } from "./tensors.ts";
export { fold, type UnfoldOptions, unfold } from "./unfold.ts";
export { type Unique, type UniqueOptions, unique } from "./unique.ts";
export * from "./windows.ts";
export { xlogy } from "./zero-terms.ts";
