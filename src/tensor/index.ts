/** @module Tensors: eager and traced operations, transforms of functions, values on a mesh. */

export { meshOf } from "../runtime/mesh.ts";
export { compileByStage, planByStage, type StageFunction } from "./by-stage.ts";
export { fromShards, isOnStage, placeOn } from "./distribute.ts";
export { type PlannedPipeline, planPipelineFunction } from "./pipeline.ts";
export * from "./public.ts";
export { compileFunction } from "./transforms.ts";
