/** @module Files that grow by whole pieces: a line or a record is there or it is not, also on a disk that is full. */
import { mkdir, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { HeddleError } from "../../util/errors.ts";

/** A file open for appending; tests put faults here. */
export interface AppendFile {
  size(): Promise<number>;
  /** Writes at the end, maybe only a part; gives how many bytes. */
  append(bytes: Uint8Array): Promise<number>;
  truncate(size: number): Promise<void>;
  close(): Promise<void>;
}

/** Opens a file, which is made when missing, and so is its folder. */
export type OpenAppend = (path: string) => Promise<AppendFile>;

/** On this machine's disks. */
export const openAppend: OpenAppend = async (path) => {
  await mkdir(dirname(path), { recursive: true });
  const handle = await open(path, "a");
  return {
    size: async () => (await handle.stat()).size,
    append: async (bytes) => (await handle.write(bytes)).bytesWritten,
    truncate: (size) => handle.truncate(size),
    close: () => handle.close(),
  };
};

/**
 * Appends a piece to a file in one write where the system takes it whole. When that fails the file is cut back to what it was.
 *
 * @throws HeddleError `disk` when there is no room, `file` for any other reason
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

/** The error of a file that cannot be written, with its path. */
export function writeError(what: string, path: string, error: unknown): HeddleError {
  const { code, message } = error as NodeJS.ErrnoException;
  const full = code === "ENOSPC" || code === "EDQUOT";
  const reason = full ? "the disk is full" : message;
  return new HeddleError(full ? "disk" : "file", `${what}: cannot write ${resolve(path)}: ${reason}`, { cause: error });
}
