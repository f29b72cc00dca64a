/** @module Running programs: executors, their memory, and the processes of a run. */
export type { Runtime } from "./devices.ts";
export type { DeviceBuffer, Executable, Executor, ExecutorOptions, LocalDevice, Run } from "./executor.ts";
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
} from "./native/profile.ts";
export { defaultThreads } from "./native/threads.ts";
export type { World, WorldOptions } from "./native/world.ts";
export { type Counts, type NullExecutor, nullExecutor } from "./null.ts";
export {
  type ExecutorName,
  type ExecutorPlugin,
  executorNames,
  type MemoryUse,
  memory,
  registerExecutor,
} from "./registry.ts";
export { type RemoteOptions, remoteRuntime } from "./remote/driver.ts";
export { serveDrivers, type WaitingWorker, type WorkerOptions } from "./remote/worker.ts";
export { localRuntime, type RuntimeOptions } from "./runtime.ts";
