/** @module Running programs: executors, their memory, and the processes of a run. */
export type { DeviceBuffer, Executable, Executor, ExecutorOptions, LocalDevice, Run } from "./executor.ts";
export { type MemoryUse, memory } from "./memory.ts";
export { loadNative, type NativeBinding } from "./native/binding.ts";
export { RunError } from "./native/error.ts";
export {
  type ProfiledCall,
  type ProfileRequest,
  type ProgramProfile,
  parseRankProfile,
  profiledSteps,
  type RankProfile,
} from "./native/profile.ts";
export type { World, WorldOptions } from "./native/world.ts";
export { type Counts, type NullExecutor, nullExecutor } from "./null.ts";
export { type RemoteOptions, remoteRuntime } from "./remote/driver.ts";
export { serveDrivers, type WaitingWorker, type WorkerOptions } from "./remote/worker.ts";
export { defaultThreads, distributedRuntime, localRuntime, type Runtime, type RuntimeOptions } from "./runtime.ts";
