/** @module Tensors: eager and traced operations, transforms of functions, values on a mesh. */

export { meshOf } from "../runtime/mesh.ts";
export { fromShards, isOnStage, placeOn } from "../tensor/distribute.ts";
export { type TracedApart, traceApart } from "../tensor/nested.ts";
export { isTracing, type TracedFunction, traceFunction } from "../tensor/tracing.ts";
export { compileFunction } from "../tensor/transforms.ts";
export { toIndices } from "./indices.ts";
export * from "./public.ts";
export { type RowBlock, randomRows } from "./random-uniform.ts";
export { resampled, type TapKernel, type Taps, tapsOf } from "./resize.ts";
export { type Sampling, sampleAt } from "./sampling.ts";
