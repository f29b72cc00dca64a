/**
 * @module Heddle in a browser, on the reference executor: models, data in memory, steps of one's own. Bundlers for browsers take this file
 * for `heddle`; what reads files or starts processes (`train`, `io`, `keras`) is not in it.
 */
export { maxIterations } from "./adapters/autograph/bound.ts";
export * as data from "./data/browser.ts";
export { type MemoryUse, memory } from "./executors/browser.ts";
export * from "./functions/public.ts";
export * as losses from "./losses/index.ts";
export * as metrics from "./metrics/index.ts";
export { accuracy, binaryAccuracy, type Metric } from "./metrics/index.ts";
export * as nn from "./nn/index.ts";
export * as optim from "./optim/index.ts";
export { type Mesh, mesh } from "./plan/index.ts";
export type { ErrorCode } from "./util/error-codes.ts";
export { HeddleError } from "./util/errors.ts";
export type { Tree } from "./util/tree.ts";
