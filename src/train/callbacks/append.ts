/** @module Appends whole lines or records to files: even on a full disk no part of a record remains. */
import { open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { makeFolder } from "../../io/make-folder.ts";
import { HeddleError } from "../../util/errors.ts";

/** A file open for appending; tests put faults here. */
export interface AppendFile {
  size(): Promise<number>;
  /** Writes at the end, possibly only a part; resolves with the number of written bytes. */
  append(bytes: Uint8Array): Promise<number>;
  truncate(size: number): Promise<void>;
  close(): Promise<void>;
}

/** Opens a file for appending; creates the file and its folder if missing. */
export type OpenAppend = (path: string) => Promise<AppendFile>;

/** Opens a file of this machine. */
export const openAppend: OpenAppend = async (path) => {
  await makeFolder(dirname(path));
  const handle = await open(path, "a");
  return {
    size: async () => (await handle.stat()).size,
    append: async (bytes) => (await handle.write(bytes)).bytesWritten,
    truncate: (size) => handle.truncate(size),
    close: () => handle.close(),
  };
};

/**
 * Appends bytes to a file, in one write if the system accepts all of them. If a write fails, the file is truncated to its old size.
 *
 * @throws HeddleError `disk` if the disk has no room, `file` for any other reason
 */
export async function appendWhole(what: string, path: string, bytes: Uint8Array, openFile = openAppend): Promise<void> {
  try {
    const file = await openFile(path);
    try {
      const size = await file.size();
      try {
        for (let done = 0; done < bytes.length; ) done += await file.append(bytes.subarray(done));
      } catch (error) {
        await file.truncate(size).catch(() => {});
        throw error;
      }
    } finally {
      await file.close();
    }
  } catch (error) {
    throw writeError(what, path, error);
  }
}

/** The error for a file that cannot be written, with its path. */
export function writeError(what: string, path: string, error: unknown): HeddleError {
  const { code, message } = error as NodeJS.ErrnoException;
  const full = code === "ENOSPC" || code === "EDQUOT";
  const reason = full ? "the disk is full" : message;
  return new HeddleError(full ? "disk" : "file", `${what}: cannot write ${resolve(path)}: ${reason}`, { cause: error });
}
