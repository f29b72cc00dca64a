/** @module Transforms of graphs: gradients, forward mode, batching. */
export { batchGraph } from "./batch.ts";
export { forwardGraph } from "./forward.ts";
export { gradients, pullback } from "./gradient.ts";
