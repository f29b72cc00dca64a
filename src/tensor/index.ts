/** @module Tensors: eager and traced operations, transforms of functions, values on a mesh. */

export { meshOf } from "../runtime/mesh.ts";
export { fromShards, isOnStage, placeOn } from "./distribute.ts";
export * from "./public.ts";
export { compileFunction } from "./transforms.ts";
