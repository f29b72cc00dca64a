/** @module Writes files that users name; errors name the called function and the file. */
import { resolve } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { type CommitContent, type CommitOptions, commitFile } from "./commit.ts";
import { checkPath, reasons } from "./read.ts";

/** The most bytes that are handed on at once. */
export const chunkBytes = 256 * 1024;

/**
 * Writes a file whole or not at all; `what` is the function that users call.
 *
 * @throws HeddleError `argument` when `path` is not a path; `file` when it cannot be written, `disk` when it does not fit; the reason of a signal.
 */
export async function writeWhole(
  what: string,
  path: string,
  content: CommitContent,
  options: CommitOptions = {},
): Promise<void> {
  checkPath(what, path);
  try {
    await commitFile(path, content, options);
  } catch (error) {
    const { code, syscall, message } = (error ?? {}) as NodeJS.ErrnoException;
    if (error instanceof HeddleError || syscall === undefined) throw error;
    const isRefusedFolder = syscall === "mkdir" && code === "ENOENT";
    const reason = isRefusedFolder ? "no folder can be made there" : (reasons[code ?? ""] ?? message);
    throw new HeddleError("file", `${what}: cannot write ${resolve(path)}: ${reason}`, { cause: error });
  }
}

/**
 * Writes a file of these bytes, whole or not at all; `what` is the function that users call.
 *
 * @throws HeddleError `argument` when `path` is not a path; `file` when it cannot be written, `disk` when it does not fit.
 */
export const writeBytes = (what: string, path: string, bytes: Uint8Array): Promise<void> =>
  writeWhole(what, path, { bytes: bytes.length, chunks: inChunks(bytes) });

/** Views of at most 256 KiB: small enough that hashing or copying each does not hold up the event loop. */
export function* inChunks(bytes: Uint8Array): Generator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += chunkBytes) yield bytes.subarray(start, start + chunkBytes);
}
