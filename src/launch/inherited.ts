/** @module What a worker inherits from the engine that has started its agent, beyond variables. */
import type { EnvironmentVariables } from "./environment.ts";

/** The first descriptor after those that a worker has of its launcher: input, output, errors and messages. */
const first = 4;

/** The places of a worker's descriptors from the fifth on: MPICH's launcher speaks with its processes by `PMI_FD`. */
export function inheritedDescriptors(variables: EnvironmentVariables): ("ignore" | "inherit")[] {
  const descriptor = Number(variables["PMI_FD"] ?? 0);
  if (!Number.isInteger(descriptor) || descriptor < first) return [];
  return [...Array.from({ length: descriptor - first }, () => "ignore" as const), "inherit"];
}
