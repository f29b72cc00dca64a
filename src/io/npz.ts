/** @module NumPy's npz format: a zip of npy files, whose sizes are checked against a bound before they are allocated. */
import { zipSync } from "fflate";
import type { HostTensor } from "../ir/node.ts";
import { HeddleError } from "../util/errors.ts";
import { checkBytes, checkNumber, checkOptions, chosenBy } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { called } from "../util/source.ts";
import { formatBytes } from "../util/text.ts";
import { isRecord } from "../util/tree.ts";
import { type TensorOrHost, toHost } from "./host-tensors.ts";
import { decodeNpy, encodeNpy } from "./npy.ts";
import { writeBytes } from "./write.ts";
import {
  type Archive,
  type ByteSource,
  endLength,
  openSource,
  readDirectory,
  readEntry,
  type ZipEntry,
} from "./zip.ts";

/** Options of {@link readNpz} and {@link decodeNpz}. */
export interface ReadNpzOptions {
  /** Which arrays to read, by name; default all. Members of the archive that are not named `.npy` are not arrays. */
  readonly only?: (name: string) => boolean;
  /** Most bytes that the arrays read may take, uncompressed; default 4 GiB. */
  readonly limit?: number;
}

/** Options of {@link writeNpz}. */
export interface WriteNpzOptions {
  /** Compresses as `numpy.savez_compressed`; default false, as `numpy.savez`. */
  readonly compress?: boolean;
}

const defaultLimit = 4 * 2 ** 30;
/** The limits of the fields in zips that are written; zip64 is only read. */
const mostEntries = 65_534;
const mostBytes = 2 ** 32 - 2;

const archiveOf = (file: string): Archive => ({ file, format: "npz" });
const malformed = (file: string, problem: string): HeddleError =>
  new HeddleError("format", `${file} is not a valid npz file: ${problem}`);

async function readArrays(
  source: ByteSource,
  file: string,
  options: ReadNpzOptions,
): Promise<Record<string, HostTensor>> {
  checkOptions("readNpz", options, ["only", "limit"]);
  const { limit = defaultLimit } = options;
  const only = chosenBy("readNpz", options.only);
  checkNumber("readNpz", "limit", limit, 0);
  const wanted = new Map<string, ZipEntry>();
  let total = 0;
  for (const entry of await readDirectory(source, archiveOf(file))) {
    // Other files of the archive are not arrays.
    if (!entry.name.endsWith(".npy")) continue;
    const name = entry.name.slice(0, -".npy".length);
    if (!only(name)) continue;
    if (wanted.has(name)) throw malformed(file, `"${entry.name}" appears twice`);
    wanted.set(name, entry);
    total += entry.size;
  }
  if (total > limit) {
    throw new HeddleError("memory", `${file} holds ${formatBytes(total)}, the limit is ${formatBytes(limit)}`, {
      hint: "name the arrays with the option only, or raise the option limit",
    });
  }
  const arrays: [string, HostTensor][] = [];
  for (const [name, entry] of wanted)
    arrays.push([name, decodeNpy(await readEntry(source, entry, archiveOf(file)), `"${entry.name}" of ${file}`)]);
  return Object.fromEntries(arrays);
}

/**
 * Reads the arrays of an npz file by name: `data.fromArrays(await io.readNpz("digits.npz"))` is a dataset. Only the
 * chosen arrays are read.
 *
 * @throws HeddleError `format` when it is malformed, cut or damaged; `memory` when the arrays take more than `limit`;
 * `dtype` as {@link decodeNpy}; `file` when it cannot be read.
 */
export function readNpz(path: string, options: ReadNpzOptions = {}): Promise<Record<string, HostTensor>> {
  return called(async () => {
    const source = await openSource("readNpz", path, archiveOf(path));
    try {
      return await readArrays(source, path, options);
    } finally {
      await source.close();
    }
  });
}

/** Like {@link readNpz}, for a file in memory. */
export function decodeNpz(
  bytes: Uint8Array,
  file = "npz data",
  options: ReadNpzOptions = {},
): Promise<Record<string, HostTensor>> {
  try {
    checkBytes("decodeNpz", bytes);
  } catch (error) {
    return Promise.reject(error);
  }
  const read = (start: number, length: number): Promise<Uint8Array> =>
    Promise.resolve(bytes.subarray(start, start + length));
  return readArrays({ bytes: bytes.length, read }, file, options);
}

function checkArrays(arrays: unknown): void {
  if (!isRecord(arrays))
    throw new HeddleError("argument", `writeNpz: takes a record of arrays by name, got ${shown(arrays)}`);
}

/** An npz file of arrays by name. The same arrays always give the same bytes. @throws as `encodeNpy`; `format` for more than a zip holds. */
export function encodeNpz(arrays: { readonly [name: string]: HostTensor }, options: WriteNpzOptions = {}): Uint8Array {
  checkOptions("writeNpz", options, ["compress"]);
  checkArrays(arrays);
  const files = Object.entries(arrays).map(([name, array]) => [`${name}.npy`, encodeNpy(array)] as const);
  const total = files.reduce((sum, [name, bytes]) => sum + bytes.length + 2 * name.length + 100, endLength);
  if (files.length > mostEntries || total > mostBytes) {
    throw new HeddleError(
      "format",
      `writeNpz: ${files.length} arrays of ${formatBytes(total)} are more than a zip holds (${mostEntries} of 4 GiB)`,
      { hint: "write several files, or saveTensors, which has no such limit" },
    );
  }
  // The earliest date that a zip holds, in any time zone.
  const date = new Date(1980, 0, 1);
  return zipSync(Object.fromEntries(files), { level: options.compress === true ? 6 : 0, mtime: date });
}

/** Writes an npz file, which appears whole or not at all. @throws as `encodeNpy`; `disk` when it does not fit. */
export function writeNpz(
  path: string,
  arrays: { readonly [name: string]: TensorOrHost },
  options: WriteNpzOptions = {},
): Promise<void> {
  return called(async () => {
    checkArrays(arrays);
    const host: [string, HostTensor][] = [];
    for (const [name, array] of Object.entries(arrays)) host.push([name, await toHost(array)]);
    const bytes = encodeNpz(Object.fromEntries(host), options);
    await writeBytes("writeNpz", path, bytes);
  });
}
