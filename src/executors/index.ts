/** @module Runs programs: executors, their memory, and the processes of a run. */
export type { World } from "../runtime/world.ts";
export * from "./browser.ts";
export { loadNative, type NativeBinding } from "./native/binding.ts";
export { RunError } from "./native/error.ts";
export { distributedRuntime } from "./native/join.ts";
export {
  type ProfiledCall,
  type ProfileRequest,
  type ProgramProfile,
  parseRankProfile,
  profiledSteps,
  type RankProfile,
  sharedProfiler,
} from "./native/profile.ts";
export { defaultThreads } from "./native/threads.ts";
export type { WorldOptions } from "./native/world.ts";
export { type RemoteOptions, remoteRuntime } from "./remote/driver.ts";
export { serveDrivers, type WaitingWorker, type WorkerOptions } from "./remote/worker.ts";
