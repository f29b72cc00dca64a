/** @module Checkpoints of a run: copied between two steps, written while the next steps run, read to resume. */

import { existsSync, rmSync } from "node:fs";
import { mkdir, rename, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
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
import type { CheckpointOptions, Settings } from "./options.ts";
import type { Reporter } from "./progress.ts";

/** Writes checkpoints to one folder, one at a time, while the training goes on. */
export class Saver {
  /** Path of the newest complete checkpoint of this run. */
  path: string | undefined;
  private readonly options: CheckpointOptions;
  private readonly warn: (text: string) => void;
  private writing: Promise<void> = Promise.resolve();
  private failure: unknown;
  private first: boolean;
  private readonly temporaries = new Set<string>();
  private readonly abort = new AbortController();

  /** `resumedFrom` is the checkpoint from which the run resumed, if from any; in the same folder the run continues its series. */
  constructor(options: CheckpointOptions, resumedFrom: Checkpoint | undefined, warn: (text: string) => void) {
    this.options = options;
    this.warn = warn;
    const continues = resumedFrom !== undefined && dirname(resumedFrom.path) === resolve(options.directory);
    this.first = !continues;
    if (continues) this.path = resumedFrom.path;
  }

  /** Waits for the previous save and throws its error, then starts to write. The values must be copies. */
  async save(state: CheckpointState): Promise<void> {
    await this.finished();
    this.writing = this.write(state).catch((error: unknown) => {
      this.failure = error;
    });
  }

  /** Waits for the last save and throws its error. */
  async finished(): Promise<void> {
    await this.writing;
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
  }

  /** Ends the saver of a training that was ended: waits at most this time for the current save, then drops it. */
  async end(milliseconds: number): Promise<void> {
    const late = setTimeout(() => this.abort.abort(), milliseconds);
    await this.writing;
    clearTimeout(late);
  }

  /** Throws the error of a failed save, without waiting. */
  check(): void {
    if (this.failure !== undefined) throw this.failure;
  }

  /** Removes half-written files immediately, before the process ends. */
  removeTemporaries(): void {
    for (const path of this.temporaries) rmSync(path, { force: true });
  }

  private async write(state: CheckpointState): Promise<void> {
    const { directory, keep = 3 } = this.options;
    const { runId } = readEnvironment();
    if (this.first) await setAside(directory, this.warn);
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
    for (const warning of saved.warnings) this.warn(warning);
  }
}

/** What {@link findCheckpoint} needs besides the settings. */
export interface CheckpointSearch {
  /** Size of a checkpoint of this training in bytes. */
  readonly bytes: number;
  readonly signal: AbortSignal;
  readonly reporter: Reporter;
  /** Called as soon as this process holds the folder, also if the search fails afterwards. */
  readonly onLock: (lock: FolderLock) => void;
}

/**
 * Takes the folder of the option `checkpoint` for this run, removes half-written files of killed runs, tests whether checkpoints can
 * be written there, and reads the checkpoint to resume from; undefined if the training starts at the beginning.
 *
 * @throws HeddleError `file` if another run writes to the folder, or a file cannot be read; `disk` if checkpoints do not fit;
 * `checkpoint` if there is nothing to resume from
 */
export async function findCheckpoint(
  { checkpoint: options, resumeFrom }: Pick<Settings, "checkpoint" | "resumeFrom">,
  { bytes, signal, reporter, onLock }: CheckpointSearch,
): Promise<Checkpoint | undefined> {
  const { warn } = reporter;
  if (options !== undefined) {
    const lock = await lockFolder(options.directory);
    onLock(lock);
    for (const warning of await cleanCheckpoints(options.directory, { alone: lock.exclusive })) warn(warning);
    await prepareFolder(options.directory, bytes);
  }
  if (resumeFrom === undefined) return undefined;
  const checkpoint = await readFrom(resumeFrom, { signal, warn });
  if (checkpoint !== undefined) return checkpoint;
  if (resumeFrom !== options?.directory && !existsSync(resumeFrom))
    throw new HeddleError("checkpoint", `train: resume: there is nothing at ${resolve(resumeFrom)}`);
  warn(`no checkpoint in ${resolve(resumeFrom)} yet: starting at the beginning`);
  return undefined;
}

/** Moves the checkpoints of an earlier run to a subfolder, so that the new run neither mixes with them nor removes them. */
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
 * Tests before a training whether its checkpoints can be written: creates the folder, writes a small file there and
 * removes it.
 *
 * @param bytes size of a checkpoint
 * @throws HeddleError `disk` if the disk has no room, `file` if the folder cannot be created or written to.
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
 * Reads a checkpoint: a file, or the newest one of a folder; undefined if the folder has none.
 *
 * @throws HeddleError of the checkpoint that cannot be read.
 */
async function readFrom(
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
