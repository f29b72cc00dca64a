/**
 * @module The folder of a run, for the workers' flight records. It is kept when the run failed, and removed otherwise.
 *
 * The folder's name has the launcher's process and machine, so that the next launcher finds what a killed one left behind.
 */

import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { HeddleError } from "../util/errors.ts";

const host = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);
const runName = /^heddle-run-([0-9a-f]{8})-(\d{1,10})-/;
const recordsName = /^heddle-(?:records|run)-/;

/** The records of a failed run are kept for a week. */
const recordsMilliseconds = 7 * 24 * 3_600_000;

/** Makes the folder of this process's run, and removes folders of dead launchers and old records. @throws HeddleError `environment` */
export function makeRunDirectory(): string {
  try {
    removeStale();
    return mkdtempSync(join(tmpdir(), `heddle-run-${host}-${process.pid}-`));
  } catch (error) {
    throw new HeddleError(
      "environment",
      `no folder of the run can be made in ${tmpdir()}: ${(error as Error).message}`,
      {
        hint: "TMPDIR names a folder for temporary files that exists and can be written to",
        cause: error,
      },
    );
  }
}

/** Keeps the folder of a failed run under another name; returns its new path. */
export function keepRunDirectory(path: string): string {
  const records = path.replace(/heddle-run-[^/\\]*$/, `heddle-records-${Date.now().toString(36)}-${process.pid}`);
  try {
    renameSync(path, records);
    return records;
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
      // The folder is another user's, or another launcher is removing it.
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // The process exists, but belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
