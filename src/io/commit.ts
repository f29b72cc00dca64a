/**
 * @module Writing a file so that it appears whole or not at all: temporary name, fsync, rename, fsync of the folder.
 * A kill at any instant leaves the previous file of that name, or the new one, and at most a temporary one beside it.
 */
import { createHash } from "node:crypto";
import * as fs from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join, resolve } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { isRunning } from "../util/process.ts";
import { formatBytes } from "../util/text.ts";
import { makeFolder } from "./make-folder.ts";

/** A file being written. */
export interface CommitFile {
  /** Writes all of `bytes` at `position`. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  /** Returns when what was written has reached the disk. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The file system as a commit uses it; tests put faults here. */
export interface CommitFiles {
  makeFolder(path: string): Promise<void>;
  list(folder: string): Promise<string[]>;
  /** Makes a file that does not exist; `EEXIST` when it does. */
  create(path: string): Promise<CommitFile>;
  rename(from: string, to: string): Promise<void>;
  /** Removes a file, or a folder with its files. */
  remove(path: string): Promise<void>;
  /** Returns when renames and removals in `folder` have reached the disk. */
  syncFolder(folder: string): Promise<void>;
  /** Bytes that can still be written there; undefined when unknown. */
  freeBytes(folder: string): Promise<number | undefined>;
  /** Milliseconds since the file was last written to. */
  age(path: string): Promise<number>;
}

/** The file system of this machine. */
export const nodeFiles: CommitFiles = {
  async makeFolder(path) {
    const topmost = await makeFolder(path);
    // A new folder survives a power cut only when the folder that names it has been written.
    if (topmost !== undefined) await syncNodeFolder(dirname(topmost));
  },
  list: (folder) => fs.readdir(folder),
  async create(path) {
    const handle = await fs.open(path, "wx");
    return {
      async write(bytes, position) {
        for (let done = 0; done < bytes.length; ) {
          done += (await handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten;
        }
      },
      sync: () => handle.sync(),
      close: () => handle.close(),
    };
  },
  rename: (from, to) => fs.rename(from, to),
  remove: (path) => fs.rm(path, { force: true, recursive: true }),
  syncFolder: syncNodeFolder,
  async freeBytes(folder) {
    const { bavail, bsize } = await fs.statfs(folder);
    return bavail * bsize;
  },
  age: async (path) => Date.now() - (await fs.stat(path)).mtimeMs,
};

async function syncNodeFolder(folder: string): Promise<void> {
  // Windows cannot open folders; its renames are journalled.
  if (process.platform === "win32") return;
  const handle = await fs.open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Options of a commit. */
export interface CommitOptions {
  /** Names the run in the temporary's name: 1 to 64 of `A-Z a-z 0-9 . _ -`; default `"local"`. */
  readonly runId?: string;
  /**
   * Called with the absolute path of the temporary: `done` is false before it is made, true once it is gone, so that
   * whoever kills this process can remove it.
   */
  readonly onTemporary?: (path: string, done: boolean) => void;
  /** Ends the writing by throwing the signal's reason; the file of that name stays as it was. */
  readonly signal?: AbortSignal;
  /** Default the file system of this machine. */
  readonly files?: CommitFiles;
}

/** The content of a file. */
export interface CommitContent {
  /** Size of the whole file. */
  readonly bytes: number;
  /** A chunk stays as it is while the next one is made. */
  readonly chunks: Iterable<Uint8Array>;
  /** Bytes to write over earlier ones, called after the last chunk: a hash in a header. */
  readonly patch?: () => { readonly position: number; readonly bytes: Uint8Array };
}

/** Temporaries of commits under way in this process. */
const active = new Set<string>();
const hostTag = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);
const temporaryName = /^(.+)\.tmp-[A-Za-z0-9._-]{1,64}-([0-9a-f]{8})-(\d{1,10})$/;

/**
 * Writes a file under a temporary name, and renames the file when it is whole. @throws HeddleError `disk` when there is
 * no room; nothing is left then.
 */
export async function commitFile(path: string, content: CommitContent, options: CommitOptions = {}): Promise<void> {
  const { runId = "local", onTemporary, files = nodeFiles } = options;
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(runId)) {
    throw new HeddleError("file", `run id "${runId}" must be 1 to 64 letters, digits, ".", "_" or "-"`);
  }
  const target = resolve(path);
  const folder = dirname(target);
  const temporary = `${target}.tmp-${runId}-${hostTag}-${process.pid}`;
  if (active.has(temporary)) throw new HeddleError("file", `${target} is being written already`);
  active.add(temporary);
  try {
    await files.makeFolder(folder);
    await checkRoom(files, target, content.bytes);
    onTemporary?.(temporary, false);
    try {
      // A file of this name is from a dead process with the same process id.
      await files.remove(temporary);
      await writeAll(files, temporary, content, options.signal);
      await files.rename(temporary, target);
    } catch (error) {
      // Where the removal fails, too, the temporary stays announced for whoever cleans up.
      await files.remove(temporary).then(
        () => onTemporary?.(temporary, true),
        () => {},
      );
      throw error;
    }
    onTemporary?.(temporary, true);
    await files.syncFolder(folder);
  } catch (error) {
    if (isNoSpace(error)) throw await noSpace(files, target, content.bytes, error);
    if ((error as NodeJS.ErrnoException).code !== "EFBIG") throw error;
    const what = `cannot write ${target}: ${formatBytes(content.bytes)} are more than a file may have here`;
    throw new HeddleError("disk", what, { hint: "ulimit -f shows the limit of this shell", cause: error });
  } finally {
    active.delete(temporary);
  }
}

async function writeAll(files: CommitFiles, path: string, content: CommitContent, signal?: AbortSignal): Promise<void> {
  const file = await files.create(path);
  let writing = Promise.resolve();
  try {
    let position = 0;
    // A chunk is made, and hashed, while the one before it is written.
    for (const chunk of content.chunks) {
      await writing;
      signal?.throwIfAborted();
      writing = file.write(chunk, position);
      position += chunk.length;
    }
    await writing;
    const patch = content.patch?.();
    if (patch !== undefined) await file.write(patch.bytes, patch.position);
    signal?.throwIfAborted();
    await file.sync();
  } finally {
    await writing.catch(() => undefined);
    await file.close();
  }
}

function isNoSpace(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT";
}

/** Refuses a file that cannot fit before it fills the disk. */
async function checkRoom(files: CommitFiles, target: string, bytes: number): Promise<void> {
  const free = await files.freeBytes(dirname(target)).catch(() => undefined);
  if (free !== undefined && free < bytes) throw await noSpace(files, target, bytes, undefined);
}

async function noSpace(files: CommitFiles, target: string, bytes: number, cause: unknown): Promise<HeddleError> {
  const free = await files.freeBytes(dirname(target)).catch(() => undefined);
  const left = free === undefined ? "the disk is full" : `${formatBytes(free)} are free in ${dirname(target)}`;
  return new HeddleError("disk", `cannot write ${target}: it takes ${formatBytes(bytes)}, ${left}`, {
    hint: `free at least ${formatBytes(bytes)} there, or write to another folder`,
    cause,
  });
}

/** Options of {@link removeStaleTemporaries}. */
export interface StaleOptions {
  /** Only temporaries of files whose name passes; default all. */
  readonly only?: (name: string) => boolean;
  /**
   * Whether no other process of this machine writes there (`lock.ts`), so that all temporaries of this machine but
   * those of this process are stale; default false.
   */
  readonly alone?: boolean;
  /** Temporaries of other machines, and of processes that may live, count as stale when unwritten for so many milliseconds; default 1 hour. */
  readonly staleAfter?: number;
  /** Default the file system of this machine. */
  readonly files?: CommitFiles;
}

/** Removes the temporaries that killed processes left in `folder`. Returns the absolute paths that were removed. */
export async function removeStaleTemporaries(folder: string, options: StaleOptions = {}): Promise<string[]> {
  const { only = () => true, alone = false, staleAfter = 3_600_000, files = nodeFiles } = options;
  const removed: string[] = [];
  for (const name of await files.list(folder)) {
    const match = temporaryName.exec(name);
    if (match === null || !only(match[1] as string)) continue;
    const path = join(resolve(folder), name);
    const dead = match[2] === hostTag && (alone ? !active.has(path) : !isWriting(Number(match[3]), path));
    if (dead || (await files.age(path).catch(() => 0)) > staleAfter) {
      await files.remove(path);
      removed.push(path);
    }
  }
  return removed;
}

const isWriting = (pid: number, path: string): boolean => (pid === process.pid ? active.has(path) : isRunning(pid));
