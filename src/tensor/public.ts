/** @module What programs use of tensors: the rest of `heddle/tensor` is for those who extend Heddle. */
// What is defined on the prototype is there for whoever imports anything.
import "./methods.ts";

export { type AttentionOptions, scaledDotProductAttention } from "./attention.ts";
export { cond, type LoopOptions, scan, type WhileOptions, whileLoop } from "./control.ts";
export {
  type Cotangents,
  customGradient,
  customJvp,
  type GradientOf,
  type TangentOf,
} from "./custom.ts";
export { grad, jvp, valueAndGrad, vjp } from "./derivatives.ts";
export { distribute, redistribute, replicate } from "./distribute.ts";
export { einsum } from "./einsum.ts";
export { evalShape, type Shapes } from "./eval-shape.ts";
export { type StableHloOptions, stablehlo } from "./export.ts";
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
export * from "./functions.ts";
export { hessian, type JacobianOptions, jacobian } from "./jacobian.ts";
export * as linalg from "./linalg.ts";
export { moments, type NormalizeOptions, normalize } from "./normalize.ts";
export type { FunctionPipeline } from "./pipeline.ts";
export { type CompiledPlan, compilePlan, type NamedTensors } from "./plan.ts";
export * as random from "./random.ts";
export { type RematOptions, type RematPolicy, type RematValue, remat } from "./remat.ts";
export { type ResizeOptions, resize } from "./resize.ts";
export { connect, deviceRuntime } from "./runtime.ts";
export { type GridSampleOptions, gridSample } from "./sampling.ts";
export {
  fftfreq,
  type IstftOptions,
  istft,
  rfftfreq,
  type SpectrumOptions,
  type StftOptions,
  stft,
} from "./spectrum.ts";
export { isTensor, Tensor, type TensorLike } from "./tensor.ts";
export { tensorFunction } from "./tensor-function.ts";
export type { Tensors } from "./tensors.ts";
export {
  type CompiledFunction,
  compilePipeline,
  type FunctionOptions,
  type JitOptions,
  jit,
  type PipelineOptions,
  type PlannedFunction,
  planFunction,
} from "./transforms.ts";
export { fold, type UnfoldOptions, unfold } from "./unfold.ts";
export { type Unique, type UniqueOptions, unique } from "./unique.ts";
export { type DimTree, type VmapOptions, vmap } from "./vmap.ts";
export { xlogy } from "./zero-terms.ts";
