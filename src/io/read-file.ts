/**
 * @module Reads bytes of files that users name, whole or in part. The signatures name no types of Node, since
 * extensions use these functions.
 */
import { type FileHandle, open } from "node:fs/promises";
import { resolve } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { formatBytes } from "../util/text.ts";
import { checkPath, fill, openFile, readPart, unreadable } from "./read.ts";

/**
 * `length` bytes of a file from `position` on, fewer where the file ends before; `what` is the function that users
 * call.
 *
 * @throws HeddleError `argument` when `path` is not a path; `file` when it cannot be read.
 */
export async function readRange(what: string, path: string, position: number, length: number): Promise<Uint8Array> {
  const handle = await openFile(what, path);
  try {
    const { size } = await handle.stat();
    return await readPart(handle, position, Math.min(length, Math.max(0, size - position)));
  } finally {
    await handle.close();
  }
}

/**
 * All bytes of a file of any size, or of a pipe; `what` is the function that users call.
 *
 * @throws HeddleError `argument` when `path` is not a path; `file` when it cannot be read, `memory` when no array is as long; the reason of a signal.
 */
export async function readWhole(
  what: string,
  path: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<Uint8Array> {
  checkPath(what, path);
  let handle: FileHandle | undefined;
  try {
    handle = await open(path);
    const stat = await handle.stat();
    // The size of a pipe is not known; for a folder this call gives the error.
    if (!stat.isFile()) return await handle.readFile(options);
    const bytes = allocate(what, path, stat.size);
    const cut = () => new HeddleError("file", `${what}: ${resolve(path)} became shorter while it was read`);
    await fill(handle, bytes, 0, cut, { signal: options.signal });
    return bytes;
  } catch (error) {
    throw unreadable(what, path, error);
  } finally {
    await handle?.close();
  }
}

function allocate(what: string, path: string, bytes: number): Uint8Array {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    throw new HeddleError("memory", `${what}: ${resolve(path)} takes ${formatBytes(bytes)}: no array is as long`, {
      cause,
    });
  }
}
