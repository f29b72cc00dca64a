/** @module Opening the files that users name: what cannot be read is told with the function that was called and the file. */
import { constants } from "node:fs";
import { type FileHandle, open, readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** What Node says of a file, in words. */
export const reasons: { readonly [code: string]: string } = {
  ENOENT: "no such file",
  EISDIR: "it is a folder",
  ENOTDIR: "a part of its path is a file",
  EEXIST: "a part of its path is a file",
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the disk is read-only",
};

/** The error for a file that cannot be read, of code `file`, with Node's as its cause; other errors stay what they are. */
export function unreadable(what: string, path: string, error: unknown): unknown {
  const { code, syscall, message } = (error ?? {}) as NodeJS.ErrnoException;
  if (error instanceof HeddleError || syscall === undefined) return error;
  const reason = reasons[code ?? ""] ?? message;
  return new HeddleError("file", `${what}: cannot read ${resolve(path)}: ${reason}`, { cause: error });
}

/** @throws HeddleError `argument` unless it is a path. */
export function checkPath(what: string, path: unknown): void {
  if (typeof path === "string" && path !== "" && !path.includes("\0")) return;
  throw new HeddleError("argument", `${what}: takes the path of a file, got ${shown(path)}`);
}

/** Opens a file of which parts are read at their places, so no pipe or device; `what` is the function that users call. @throws HeddleError `file`. */
export async function openFile(what: string, path: string): Promise<FileHandle> {
  checkPath(what, path);
  // Without this flag a pipe that nobody writes to would be waited for.
  const handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)).catch((error: unknown) => {
    throw unreadable(what, path, error);
  });
  const stats = await handle.stat();
  if (stats.isFile()) return handle;
  await handle.close();
  const reason = stats.isDirectory() ? reasons["EISDIR"] : "it is a pipe or a device";
  throw new HeddleError("file", `${what}: cannot read ${resolve(path)}: ${reason}`);
}

/** One call reads no more than this: the system's own limit is 2 GiB. */
const largestRead = 2 ** 30;

/** `length` bytes from `position` on, fewer where the file ends before. */
export async function readPart(handle: FileHandle, position: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let filled = 0;
  while (filled < length) {
    const most = Math.min(largestRead, length - filled);
    const { bytesRead } = await handle.read(bytes, filled, most, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return bytes.subarray(0, filled);
}

/** All bytes of a file. @throws HeddleError `file`; the reason of a signal. */
export async function readWhole(
  what: string,
  path: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<Uint8Array> {
  checkPath(what, path);
  return await readFile(path, options).catch((error: unknown) => {
    // Node reads no more than 2 GiB at once.
    if ((error as NodeJS.ErrnoException).code === "ERR_FS_FILE_TOO_LARGE") return readLarge(what, path);
    throw unreadable(what, path, error);
  });
}

async function readLarge(what: string, path: string): Promise<Uint8Array> {
  const handle = await openFile(what, path);
  try {
    return await readPart(handle, 0, (await handle.stat()).size);
  } finally {
    await handle.close();
  }
}

/** The text of a file, as UTF-8. @throws as {@link readWhole}. */
export const readText = async (what: string, path: string): Promise<string> =>
  new TextDecoder().decode(await readWhole(what, path));
