/** @module Answers requests with a model: requests that arrive separately are computed in batches. */
export { type AskOptions, type Batcher, type BatcherOptions, batcher } from "./batcher.ts";
export type { Answer, Asked, TensorsOf } from "./rows.ts";
