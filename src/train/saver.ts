/** @module Checkpoints of a run: copied between two steps, written beside the next ones, read back to go on. */

import { rmSync } from "node:fs";
import { mkdir, rename, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { type CommitFiles, commitFile, nodeFiles } from "../io/commit.ts";
import { reportToLauncher } from "../launcher-messages/launcher.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import type { Checkpoint } from "./checkpoint.ts";
import {
  type CheckpointState,
  cleanCheckpoints,
  latestCheckpoint,
  listCheckpoints,
  loadCheckpoint,
  saveCheckpoint,
  writeTest,
} from "./checkpoint.ts";
import { type FolderLock, lockFolder } from "./lock.ts";
import type { CheckpointOptions } from "./options.ts";

/** What a saver must know of its surroundings. */
export interface SaverOptions extends CheckpointOptions {
  /** Whether this run went on from a checkpoint of the folder, and so continues its series. */
  readonly resumed: boolean;
  readonly warn: (text: string) => void;
}

/** Writes checkpoints to one folder, one at a time, without the training waiting. */
export class Saver {
  /** Path of the newest whole checkpoint of this run. */
  path: string | undefined;
  private readonly options: SaverOptions;
  private writing: Promise<void> = Promise.resolve();
  private failure: unknown;
  private first: boolean;
  private readonly temporaries = new Set<string>();
  private readonly abort = new AbortController();

  constructor(options: SaverOptions) {
    this.options = options;
    this.first = !options.resumed;
  }

  /** Begins to write; the values must be copies. Waits for the one before. Throws what that one failed with. */
  async save(state: CheckpointState): Promise<void> {
    await this.finished();
    this.writing = this.write(state).catch((error: unknown) => {
      this.failure = error;
    });
  }

  /** Waits until nothing is being written. Throws what the last save failed with. */
  async finished(): Promise<void> {
    await this.writing;
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
  }

  /** Ends for a training that was ended: what is being written may be finished in this time, else it is dropped. */
  async end(milliseconds: number): Promise<void> {
    const late = setTimeout(() => this.abort.abort(), milliseconds);
    await this.writing;
    clearTimeout(late);
  }

  /** Throws what a save failed with, without waiting. */
  check(): void {
    if (this.failure !== undefined) throw this.failure;
  }

  /** Removes half-written files at once: for a process that is about to end. */
  removeTemporaries(): void {
    for (const path of this.temporaries) rmSync(path, { force: true });
  }

  private async write(state: CheckpointState): Promise<void> {
    const { directory, keep = 3, warn } = this.options;
    const { runId } = readEnvironment();
    if (this.first) await setAside(directory, warn);
    this.first = false;
    const saved = await saveCheckpoint(directory, state, {
      keep,
      signal: this.abort.signal,
      ...(runId === undefined ? {} : { runId }),
      onTemporary: (path, done) => {
        if (done) this.temporaries.delete(path);
        else this.temporaries.add(path);
        reportToLauncher({ type: "temporary", path, done });
      },
    });
    this.path = saved.path;
    for (const warning of saved.warnings) warn(warning);
  }
}

/**
 * Takes a folder for the checkpoints of one run, and removes what killed runs left half-written there.
 *
 * @throws HeddleError `file` when another run writes there.
 */
export async function lockCheckpoints(directory: string, warn: (text: string) => void): Promise<FolderLock> {
  const lock = await lockFolder(directory);
  for (const warning of await cleanCheckpoints(directory, { alone: lock.exclusive })) warn(warning);
  return lock;
}

/** Moves the checkpoints of an earlier run out of the way: a new run's must not be mixed with them, nor destroy them. */
async function setAside(directory: string, warn: (text: string) => void): Promise<void> {
  const earlier = await listCheckpoints(directory);
  if (earlier.length === 0) return;
  let number = 1;
  while (await exists(join(directory, `earlier-${number}`))) number++;
  const folder = resolve(directory, `earlier-${number}`);
  await mkdir(folder);
  for (const { path } of earlier) await rename(path, join(folder, basename(path)));
  const what = earlier.length === 1 ? "the checkpoint" : `the ${earlier.length} checkpoints`;
  warn(`moved ${what} of an earlier run to ${folder}`);
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/**
 * Finds out before a training whether its checkpoints can be written: makes the folder, writes a small file there and
 * removes it.
 *
 * @param bytes size of a checkpoint
 * @throws HeddleError `disk` when there is no room, `file` when the folder cannot be made or written to.
 */
export async function prepareFolder(
  directory: string,
  bytes: number,
  options: { readonly files?: CommitFiles } = {},
): Promise<void> {
  const { files = nodeFiles } = options;
  const path = resolve(directory, writeTest);
  try {
    await commitFile(path, { bytes, chunks: [Uint8Array.of(0)] }, { files });
    await files.remove(path);
  } catch (error) {
    if (error instanceof HeddleError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new HeddleError("file", `checkpoints cannot be written to ${resolve(directory)}: ${reason}`, {
      hint: "give checkpoint.directory a folder that this user may write to",
      cause: error,
    });
  }
}

/**
 * The checkpoint to go on from: a file, or the newest of a folder; undefined when the folder has none.
 *
 * @throws HeddleError of the checkpoint that cannot be read.
 */
export async function findCheckpoint(
  from: string,
  options: { readonly signal: AbortSignal; readonly warn: (text: string) => void },
): Promise<Checkpoint | undefined> {
  const found = await stat(from).catch(() => undefined);
  if (found?.isFile() === true) return loadCheckpoint(from, options);
  if (found === undefined && from.endsWith(".safetensors")) {
    throw new HeddleError("file", `there is no checkpoint ${resolve(from)}`);
  }
  const { checkpoint, warnings } = await latestCheckpoint(from, options);
  for (const warning of warnings) options.warn(warning);
  return checkpoint;
}
