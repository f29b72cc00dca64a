/** @module The number of threads of a device. */
import { cpus } from "node:os";
import { readEnvironment } from "../../util/settings.ts";
import { loadNative } from "./binding.ts";

/** An equal share of this process's cores for each of its devices. */
export function defaultThreads(devices: number): number {
  const native = loadNative();
  const { threads, localWorld = 1, launcher } = readEnvironment();
  // Heddle's launcher has shared out the cores.
  const workers = launcher === undefined ? localWorld : 1;
  const cores = threads ?? ("error" in native ? 1 : shareOf(native.info().cores, workers));
  return Math.max(1, Math.floor(cores / devices));
}

/** A worker's share of the cores, unless its launcher has pinned it to cores of its own. */
const shareOf = (usable: number, workers: number): number => (usable < cpus().length ? usable : usable / workers);
