/** @module Tensors: eager and traced operations, transforms of functions, values on a mesh. */
export { compileByStage, planByStage, type StageFunction } from "./by-stage.ts";
export { fromShards, isOnStage, placeOn } from "./distribute.ts";
export { type PlannedPipeline, planPipelineFunction } from "./pipeline.ts";
export * from "./public.ts";
export { meshOf } from "./runtime.ts";
export { compileFunction } from "./transforms.ts";
