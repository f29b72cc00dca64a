/** @module Tensors: eager and traced operations, transforms of functions, values on a mesh. */

export { meshOf } from "../runtime/mesh.ts";
export { fromShards, isOnStage, placeOn } from "../tensor/distribute.ts";
export { compileFunction } from "../tensor/transforms.ts";
export * from "./public.ts";
