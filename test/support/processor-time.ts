/** @module Tells the reporter (`slowest.mjs`) what each test file took of the processors, with the processes it started. */
import { readFileSync } from "node:fs";
import { afterAll } from "vitest";

declare module "vitest" {
  interface TaskMeta {
    /** Seconds of all processors, from the end of the file before in this process, or its start. */
    processorTime?: number;
  }
}

/** Linux counts times of processes in hundredths of a second. */
const ticks = 100;
/** Where files share a process, each begins where the one before ended. */
const shared = globalThis as { heddleTestEnded?: number };

/** Of this process and of those that it has waited for; elsewhere than on Linux without the latter. */
function processorTime(): number {
  if (process.platform !== "linux") {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  }
  // The name of the program, in parentheses, may have spaces: user and system time, and those of children, are fields 14 to 17.
  const fields = readFileSync("/proc/self/stat", "utf8").split(") ")[1]?.split(" ") ?? [];
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / ticks;
}

// Hooks that end a file run in reverse order: this one is the last.
// biome-ignore lint/correctness/noEmptyPattern: Vitest reads from the pattern what a hook asks for
afterAll(({}, file) => {
  const now = processorTime();
  file.meta.processorTime = now - (shared.heddleTestEnded ?? 0);
  shared.heddleTestEnded = now;
});
