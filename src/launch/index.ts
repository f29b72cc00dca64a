/** @module Starts runs: the workers of a user's file, on this machine. */

export { type Cores, threadsPerWorker, usableCores } from "./cores.ts";
export type { LaunchOptions, LaunchResult } from "./launch-options.ts";
export { launchLocal } from "./local.ts";
export { describeFailures, type WorkerFailure } from "./report.ts";
export type { StartStore, Store, StoreOptions } from "./store.ts";
