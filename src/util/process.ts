/** @module What the system says of processes: whether one runs, and how much memory this one may use. */
import { readEnvironment } from "./settings.ts";

/** Whether a process of this machine runs, also one of another user. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Without permission to signal: the process runs as another user.
    return (error as { readonly code?: string }).code === "EPERM";
  }
}

let machine: number | undefined;

/** Bytes that this process may use: HEDDLE_MEMORY, or the memory of the machine (or the container); Infinity in a browser, which does not say it. */
export function memoryLimit(): number {
  machine ??= machineMemory();
  return readEnvironment().memory ?? machine;
}

/** Memory of the machine or the container, read once, since the answer is in files. */
function machineMemory(): number {
  if (typeof process === "undefined") return Infinity;
  const all = process.getBuiltinModule?.("node:os").totalmem() ?? Infinity;
  // Without a limit the system gives a number larger than any memory.
  const container = process.constrainedMemory?.() ?? 0;
  return container > 0 ? Math.min(container, all) : all;
}
