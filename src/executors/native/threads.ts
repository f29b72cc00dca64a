/** @module The number of threads of a device. */
import { readEnvironment } from "../../util/settings.ts";
import { loadNative } from "./binding.ts";

/** An equal share of this process's cores for each of its devices. */
export function defaultThreads(devices: number): number {
  const native = loadNative();
  const cores = readEnvironment().threads ?? ("error" in native ? 1 : native.info().cores);
  return Math.max(1, Math.floor(cores / devices));
}
