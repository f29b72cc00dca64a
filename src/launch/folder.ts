/**
 * @module The folder of a run: the workers' flight records, events, configuration, metrics. While the run goes on it is a temporary folder; then
 * it is moved to `.heddle/runs` of the project, which has the last runs.
 *
 * The folder's name has the launcher's process and machine, so that the next launcher finds what a killed one left behind.
 */

import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { isRunning } from "../util/process.ts";

const host = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);
const runName = /^heddle-run-([0-9a-f]{8})-(\d{1,10})-/;
const recordsName = /^heddle-(?:records|run)-/;

/** The records that a failed run leaves among temporary files are kept for a week, and only those of the last runs. */
const recordsMilliseconds = 7 * 24 * 3_600_000;
/** How many runs a folder has. */
export const mostRuns = 20;

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

/** Gives the records of an epoch of an elastic run other names: a rank of the next epoch may be another worker. */
export function setRecordsAside(folder: string, epoch: number): void {
  try {
    for (const name of readdirSync(folder))
      if (/^rank-\d+\.flight$/.test(name)) renameSync(join(folder, name), join(folder, `epoch-${epoch}-${name}`));
  } catch {
    // The run goes on without its record.
  }
}

/** Keeps the folder of a run, in `.heddle/runs` beside the nearest package.json of a folder; returns its new path, or undefined. */
export function keepInProject(path: string, folder: string): string | undefined {
  const runs = runsFolder(folder);
  if (runs === undefined) return undefined;
  // Names in the order of time.
  const kept = join(runs, `${new Date().toISOString().slice(0, 19).replaceAll(":", "-")}-${process.pid}`);
  try {
    mkdirSync(runs, { recursive: true });
    move(path, kept);
    for (const old of readdirSync(runs).sort().slice(0, -mostRuns)) removeRunDirectory(join(runs, old));
    return kept;
  } catch {
    // The project must not be written to.
    return undefined;
  }
}

/** Renames a folder, or copies it to another file system. */
function move(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    cpSync(from, to, { recursive: true });
    removeRunDirectory(from);
  }
}

function runsFolder(folder: string): string | undefined {
  if (existsSync(join(folder, "package.json"))) return join(folder, ".heddle", "runs");
  const parent = dirname(folder);
  return parent === folder ? undefined : runsFolder(parent);
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
  const records: { readonly path: string; readonly time: number }[] = [];
  const attempt = (work: () => void): void => {
    try {
      work();
    } catch {
      // The folder is another user's, or another launcher is removing it.
    }
  };
  for (const name of readdirSync(folder)) {
    const run = runName.exec(name);
    const path = join(folder, name);
    attempt(() => {
      if (run !== null && run[1] === host && !isRunning(Number(run[2]))) removeRunDirectory(path);
      if (run !== null || !recordsName.test(name)) return;
      const { mtimeMs: time, uid } = statSync(path);
      if (uid === (process.getuid?.() ?? uid)) records.push({ path, time });
    });
  }
  records.sort((left, right) => right.time - left.time);
  for (const [index, { path, time }] of records.entries())
    if (index >= mostRuns || Date.now() - time > recordsMilliseconds) attempt(() => removeRunDirectory(path));
}
