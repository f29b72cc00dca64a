/** @module Runs programs: the part of this folder that runs in a browser. */
export type { Runtime } from "../runtime/devices.ts";
export type { DeviceBuffer, Executable, Executor, ExecutorOptions, LocalDevice, Run } from "../runtime/executor.ts";
export {
  type ExecutorName,
  type ExecutorPlugin,
  executorNames,
  type MemoryUse,
  memory,
  registerExecutor,
} from "../runtime/registry.ts";
export { type Counts, type NullExecutor, nullExecutor } from "./null.ts";
export { referenceExecutor } from "./reference.ts";
export { localRuntime, type RuntimeOptions } from "./runtime.ts";
