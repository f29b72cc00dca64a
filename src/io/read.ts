/** @module Opening the files that users name: what cannot be read is told with the function that was called and the file. */
import { type FileHandle, open, readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { HeddleError } from "../util/errors.ts";

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
  if (typeof path === "string" && path !== "") return;
  throw new HeddleError("argument", `${what}: takes the path of a file, got ${String(path) || '""'}`);
}

/** Opens a file for reading; `what` is the function that users call. @throws HeddleError `file`. */
export async function openFile(what: string, path: string): Promise<FileHandle> {
  checkPath(what, path);
  const handle = await open(path).catch((error: unknown) => {
    throw unreadable(what, path, error);
  });
  if (!(await handle.stat()).isDirectory()) return handle;
  await handle.close();
  throw new HeddleError("file", `${what}: cannot read ${resolve(path)}: ${reasons["EISDIR"]}`);
}

/** All bytes of a file. @throws HeddleError `file`; the reason of a signal. */
export async function readWhole(
  what: string,
  path: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<Uint8Array> {
  checkPath(what, path);
  return await readFile(path, options).catch((error: unknown) => {
    throw unreadable(what, path, error);
  });
}

/** The text of a file, as UTF-8. @throws as {@link readWhole}. */
export const readText = async (what: string, path: string): Promise<string> =>
  new TextDecoder().decode(await readWhole(what, path));
