/** @module How many threads a device has. */
import { readEnvironment } from "../../util/settings.ts";
import { loadNative } from "./binding.ts";

/** Cores of this process for each of its devices. */
export function defaultThreads(devices: number): number {
  const native = loadNative();
  const cores = readEnvironment().threads ?? ("error" in native ? 1 : native.info().cores);
  return Math.max(1, Math.floor(cores / devices));
}
