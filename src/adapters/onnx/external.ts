/**
 * @module Tensors that a model keeps in other files. Such a file must lie in one of the model's folders: the folder of
 * the path that was opened, and, where that path is a link (as in the caches of model hubs, which link into a folder of
 * blobs), the folder of the link's target. The first folder that has the file is used, and the real path of the file,
 * with links resolved, must be inside one of the two.
 */

import { realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, join, sep } from "node:path";
import { checkRecognised, HeddleError, readRange, recognisedBytes } from "../../extend/index.ts";
import type { TensorProto } from "./messages.ts";
import { rawBytesOf } from "./tensors.ts";

/** Whether a tensor's values are in another file. */
export const isExternal = (proto: TensorProto): boolean => proto.dataLocation === 1;

/** The folders in which a model's data may lie: that of its path, and that of its real path. */
async function foldersOf(modelPath: string): Promise<string[]> {
  const [named, linked] = await Promise.all([realpath(dirname(modelPath)), realpath(modelPath)]);
  return [...new Set([named, dirname(linked)])];
}

/**
 * The path of a tensor's data, which need not exist. @throws HeddleError `format` for a path outside of the model's
 * folders.
 */
async function placeOf(what: string, location: string, modelPath: string): Promise<string> {
  const refused = new HeddleError(
    "format",
    `${what} lies in ${JSON.stringify(location)}, which is not within the model's folder`,
    { hint: "put the data in the model's folder, or save the model as one file" },
  );
  const parts = location.split(/[/\\]/);
  if (location === "" || location.includes("\0") || isAbsolute(location) || parts.includes("..")) throw refused;
  const folders = await foldersOf(modelPath);
  for (const folder of folders) {
    const found = await realpath(join(folder, location)).catch(() => undefined);
    if (found === undefined) continue;
    if (folders.some((allowed) => found.startsWith(allowed.endsWith(sep) ? allowed : allowed + sep))) return found;
    throw refused;
  }
  return join(folders[0] as string, location);
}

/**
 * The bytes of a tensor that lies in another file. Where the file gives no length, or 0, the length follows from the
 * shape and the type.
 *
 * @throws HeddleError `format` for a place that is not within the folders of the model, or beyond the file's end;
 * `file` where it cannot be read; `dtype`.
 */
export async function readExternal(proto: TensorProto, modelPath: string, file: string): Promise<Uint8Array> {
  const fields = new Map((proto.externalData ?? []).map(({ key, value }) => [key, value]));
  const what = `tensor "${proto.name ?? ""}" of ${file}`;
  const number = (name: string): number => {
    const digits = fields.get(name) || "0";
    const value = /^\d+$/.test(digits) ? Number(digits) : Number.NaN;
    if (Number.isSafeInteger(value)) return value;
    throw new HeddleError("format", `${what} has ${name} ${JSON.stringify(digits)}, which is not a number of bytes`);
  };
  const [offset, length] = [number("offset"), number("length") || rawBytesOf(proto, file)];
  const path = await placeOf(what, fields.get("location") ?? "", modelPath);
  const read = (position: number, count: number): Promise<Uint8Array> =>
    readRange(`loadOnnx: ${what}`, path, position, count);
  const bytes = await read(offset, length);
  if (bytes.length === length) return bytes;
  checkRecognised(await read(0, recognisedBytes), path, "data", ["zeros"]);
  const { size } = await stat(path);
  throw new HeddleError("format", `${what} is bytes ${offset} to ${offset + length} of a file of ${size}`);
}
