/** @module Answering requests with a model: many that arrive apart are computed as one batch. */
export { type AskOptions, type Batcher, type BatcherOptions, batcher } from "./batcher.ts";
export type { Answer, Asked, TensorsOf } from "./rows.ts";
