/** @module Opens files that users name; errors name the called function and the file. */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { resolve } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** Reasons in words, by the codes of Node's errors. */
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

/** @throws HeddleError `argument` unless `path` is a text that can be a path. */
export function checkPath(what: string, path: unknown): void {
  if (typeof path === "string" && path !== "" && !path.includes("\0")) return;
  throw new HeddleError("argument", `${what}: takes the path of a file, got ${shown(path)}`);
}

/**
 * Opens a file for reads at any position, which pipes and devices do not have; `what` is the function that users call.
 * @throws HeddleError `file`.
 */
export async function openFile(what: string, path: string): Promise<FileHandle> {
  checkPath(what, path);
  // Without this flag the call would wait for a writer of a pipe.
  const handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)).catch((error: unknown) => {
    throw unreadable(what, path, error);
  });
  const stats = await handle.stat();
  if (stats.isFile()) return handle;
  await handle.close();
  const reason = stats.isDirectory() ? reasons["EISDIR"] : "it is a pipe or a device";
  throw new HeddleError("file", `${what}: cannot read ${resolve(path)}: ${reason}`);
}

/** The most bytes of one call: the system's calls take less than 2 GiB. */
const largestCall = 2 ** 30;

/** How a file is read. */
interface ReadOptions {
  /** Most bytes of one call; default 1 GiB. */
  readonly most?: number;
  /** Gets the bytes that each call has read. */
  readonly onBytes?: ((bytes: Uint8Array) => void) | undefined;
  /** Ends the reading by throwing the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Fills `target` with the bytes from `position` on; returns their number, which is less where the file ends before. */
async function readInto(
  handle: FileHandle,
  target: Uint8Array,
  position: number,
  { most = largestCall, onBytes, signal }: ReadOptions = {},
): Promise<number> {
  let filled = 0;
  while (filled < target.length) {
    signal?.throwIfAborted();
    const length = Math.min(most, target.length - filled);
    const { bytesRead } = await handle.read(target, filled, length, position + filled);
    if (bytesRead === 0) break;
    onBytes?.(target.subarray(filled, filled + bytesRead));
    filled += bytesRead;
  }
  return filled;
}

/** `length` bytes from `position` on, fewer where the file ends before. */
export async function readPart(handle: FileHandle, position: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  return bytes.subarray(0, await readInto(handle, bytes, position));
}

/** Fills `target` with the bytes from `position` on. @throws what `cut` makes when the file ends before. */
export async function fill(
  handle: FileHandle,
  target: Uint8Array,
  position: number,
  cut: () => Error,
  options: ReadOptions = {},
): Promise<void> {
  if ((await readInto(handle, target, position, options)) < target.length) throw cut();
}
