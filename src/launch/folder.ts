/**
 * @module The folder of a run, for the workers' flight records: made, kept when the run failed, removed otherwise.
 *
 * Its name says which process of which machine it belongs to, so that what a killed launcher leaves is found by the next.
 */

import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";

const host = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);
const runName = /^heddle-run-([0-9a-f]{8})-(\d{1,10})-/;
const recordsName = /^heddle-(?:records|run)-/;

/** How long the records of a failed run stay: a week. */
const recordsMilliseconds = 7 * 24 * 3_600_000;

/** Makes the folder of this process's run, and removes those of dead launchers and the records of long ago. */
export function makeRunDirectory(): string {
  removeStale();
  return mkdtempSync(join(tmpdir(), `heddle-run-${host}-${process.pid}-`));
}

/** Keeps the folder of a failed run; returns where it is now. */
export function keepRunDirectory(path: string): string {
  const kept = path.replace(/heddle-run-[^/\\]*$/, `heddle-records-${Date.now().toString(36)}-${process.pid}`);
  try {
    renameSync(path, kept);
    return kept;
  } catch {
    return path;
  }
}

/** Removes the folder of a run. */
export function removeRunDirectory(path: string): void {
  rmSync(path, { recursive: true, force: true });
}

function removeStale(): void {
  const folder = tmpdir();
  for (const name of readdirSync(folder)) {
    const run = runName.exec(name);
    const path = join(folder, name);
    try {
      const stale =
        run === null
          ? recordsName.test(name) && Date.now() - statSync(path).mtimeMs > recordsMilliseconds
          : run[1] === host && !isRunning(Number(run[2]));
      if (stale) removeRunDirectory(path);
    } catch {
      // Another user's, or another launcher removes it at this moment.
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Not permitted to signal it: it lives, as somebody else's.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
