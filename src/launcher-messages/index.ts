/** @module Messages between a worker and the launcher that started it. */
export {
  connectToLauncher,
  type ErrorMessage,
  type ProgressMessage,
  parseWorkerMessage,
  reportToLauncher,
  type TemporaryMessage,
  type WorkerMessage,
} from "./launcher.ts";
