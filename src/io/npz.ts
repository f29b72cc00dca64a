/**
 * @module NumPy's npz format: a zip of npy files. The directory at the end is read first; every size is checked
 * against it and against a bound before it is allocated, and every file against its CRC-32.
 */
import { crc32 } from "node:zlib";
import { inflateSync, zipSync } from "fflate";
import type { HostTensor } from "../ir/node.ts";
import { HeddleError } from "../util/errors.ts";
import { checkBytes, checkNumber, checkOptions, chosenBy } from "../util/options.ts";
import { checkRecognised, recognisedBytes } from "../util/recognise.ts";
import { shown } from "../util/show.ts";
import { called } from "../util/source.ts";
import { formatBytes } from "../util/text.ts";
import { isRecord } from "../util/tree.ts";
import { type TensorOrHost, toHost } from "./host.ts";
import { decodeNpy, encodeNpy } from "./npy.ts";
import { fill, openFile } from "./read.ts";
import { writeBytes } from "./write.ts";

/** Options of {@link readNpz} and {@link decodeNpz}. */
export interface ReadNpzOptions {
  /** Which arrays to read, by name; default all. Members of the archive that are not named `.npy` are no arrays. */
  readonly only?: (name: string) => boolean;
  /** Most bytes that the arrays read may take, uncompressed; default 4 GiB. */
  readonly limit?: number;
}

/** Options of {@link writeNpz}. */
export interface WriteNpzOptions {
  /** As `numpy.savez_compressed`; default false, as `numpy.savez`. */
  readonly compress?: boolean;
}

interface Entry {
  readonly name: string;
  readonly encrypted: boolean;
  readonly method: number;
  readonly crc: number;
  readonly packed: number;
  readonly size: number;
  readonly offset: number;
}

/** Where bytes come from: a file, of which only what is needed is read, or memory. */
interface Source {
  readonly bytes: number;
  read(start: number, length: number): Promise<Uint8Array>;
}

const defaultLimit = 4 * 2 ** 30;
const largestDirectory = 64 * 2 ** 20;
/** What the fields of a zip hold that is written; longer ones are read. */
const mostEntries = 65_534;
const mostBytes = 2 ** 32 - 2;
const endMark = 0x06054b50;
const endLength = 22;

const malformed = (file: string, problem: string): HeddleError =>
  new HeddleError("format", `${file} is not a valid npz file: ${problem}`);

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Numbers of 64 bits that a JavaScript number holds. */
function wide(view: DataView, at: number, file: string): number {
  const value = view.getBigUint64(at, true);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw malformed(file, `a size of ${value}`);
  return Number(value);
}

/** Place, length and count of the directory. */
async function findDirectory(source: Source, file: string): Promise<{ start: number; length: number; count: number }> {
  const tailLength = Math.min(source.bytes, endLength + 65_535);
  const tail = await source.read(source.bytes - tailLength, tailLength);
  const view = viewOf(tail);
  let at = tail.length - endLength;
  while (at >= 0 && view.getUint32(at, true) !== endMark) at--;
  if (at < 0) {
    checkRecognised(await source.read(0, Math.min(source.bytes, recognisedBytes)), file, "npz", ["zip"]);
    throw malformed(file, "it has no directory at its end");
  }
  let [count, length, start] = [
    view.getUint16(at + 10, true),
    view.getUint32(at + 12, true),
    view.getUint32(at + 16, true),
  ];
  if (at >= 20 && view.getUint32(at - 20, true) === 0x07064b50) {
    const end64 = wide(view, at - 12, file);
    if (end64 + 56 > source.bytes) throw malformed(file, "its zip64 directory lies outside");
    const wideEnd = viewOf(await source.read(end64, 56));
    if (wideEnd.getUint32(0, true) !== 0x06064b50) throw malformed(file, "its zip64 directory is missing");
    [count, length, start] = [wide(wideEnd, 32, file), wide(wideEnd, 40, file), wide(wideEnd, 48, file)];
  }
  if (start + length > source.bytes) throw malformed(file, "its directory lies outside");
  if (length > largestDirectory) throw malformed(file, `a directory of ${length} bytes`);
  return { start, length, count };
}

async function readDirectory(source: Source, file: string): Promise<Entry[]> {
  const { start, length, count } = await findDirectory(source, file);
  const bytes = await source.read(start, length);
  const view = viewOf(bytes);
  const entries: Entry[] = [];
  let at = 0;
  for (let index = 0; index < count; index++) {
    if (at + 46 > length || view.getUint32(at, true) !== 0x02014b50) throw malformed(file, "its directory is cut");
    const nameLength = view.getUint16(at + 28, true);
    const extraLength = view.getUint16(at + 30, true);
    const next = at + 46 + nameLength + extraLength + view.getUint16(at + 32, true);
    if (next > length) throw malformed(file, "its directory is cut");
    const name = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + nameLength));
    const extra = viewOf(bytes.subarray(at + 46 + nameLength, at + 46 + nameLength + extraLength));
    const fields = [view.getUint32(at + 24, true), view.getUint32(at + 20, true), view.getUint32(at + 42, true)];
    const [size, packed, offset] = zip64Fields(fields, extra, file) as [number, number, number];
    entries.push({
      name,
      encrypted: (view.getUint16(at + 8, true) & 1) !== 0,
      method: view.getUint16(at + 10, true),
      crc: view.getUint32(at + 16, true),
      packed,
      size,
      offset,
    });
    at = next;
  }
  return entries;
}

/** Sizes of 32 bits that are full stand for ones of 64 bits in an extra field. */
function zip64Fields(fields: readonly number[], extra: DataView, file: string): number[] {
  if (!fields.includes(0xffffffff)) return [...fields];
  for (let at = 0; at + 4 <= extra.byteLength; at += 4 + extra.getUint16(at + 2, true)) {
    if (extra.getUint16(at, true) !== 1) continue;
    let place = at + 4;
    return fields.map((field) => {
      if (field !== 0xffffffff) return field;
      if (place + 8 > extra.byteLength) throw malformed(file, "a zip64 field is cut");
      place += 8;
      return wide(extra, place - 8, file);
    });
  }
  throw malformed(file, "a zip64 field is missing");
}

async function readEntry(source: Source, entry: Entry, file: string): Promise<Uint8Array> {
  const { name, method, packed, size, offset } = entry;
  const wrong = (problem: string): HeddleError => malformed(file, `"${name}" ${problem}`);
  if (entry.encrypted) throw wrong("is encrypted");
  if (offset + 30 > source.bytes) throw wrong("lies outside");
  const local = viewOf(await source.read(offset, 30));
  if (local.getUint32(0, true) !== 0x04034b50) throw wrong("is not where the directory says");
  const start = offset + 30 + local.getUint16(26, true) + local.getUint16(28, true);
  if (start + packed > source.bytes) throw wrong("lies outside");
  if (method !== 0 && method !== 8) throw wrong(`is compressed by method ${method}; 0 and 8 (deflate) are read`);
  // Deflate makes at most 1032 bytes of one: a size beyond that is a lie, and is not allocated.
  if (method === 0 ? packed !== size : size > packed * 1032 + 64) throw wrong(`cannot be ${size} bytes`);
  const stored = await source.read(start, packed);
  const bytes = method === 0 ? stored : inflate(stored, size, wrong);
  if (crc32(bytes) !== entry.crc) throw wrong("has another checksum: it is damaged");
  return bytes;
}

function inflate(stored: Uint8Array, size: number, wrong: (problem: string) => HeddleError): Uint8Array {
  let bytes: Uint8Array;
  try {
    // One byte more than there should be shows one byte too many.
    bytes = inflateSync(stored, { out: new Uint8Array(size + 1) });
  } catch {
    throw wrong("cannot be decompressed: it is damaged");
  }
  if (bytes.length !== size) throw wrong(`is not ${size} bytes, as the directory says`);
  return bytes;
}

async function readArrays(source: Source, file: string, options: ReadNpzOptions): Promise<Record<string, HostTensor>> {
  checkOptions("readNpz", options, ["only", "limit"]);
  const { limit = defaultLimit } = options;
  const only = chosenBy("readNpz", options.only);
  checkNumber("readNpz", "limit", limit, 0);
  const wanted = new Map<string, Entry>();
  let total = 0;
  for (const entry of await readDirectory(source, file)) {
    // Whatever else lies in the archive is no array.
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
    arrays.push([name, decodeNpy(await readEntry(source, entry, file), `"${entry.name}" of ${file}`)]);
  return Object.fromEntries(arrays);
}

/**
 * Reads the arrays of an npz file by name: `data.fromArrays(await io.readNpz("digits.npz"))` is a dataset. Only what is asked
 * for is read.
 *
 * @throws HeddleError `format` when it is malformed, cut or damaged; `memory` when the arrays take more than `limit`;
 * `dtype` as {@link decodeNpy}; `file` when it cannot be read.
 */
export function readNpz(path: string, options: ReadNpzOptions = {}): Promise<Record<string, HostTensor>> {
  return called(async () => {
    const handle = await openFile("readNpz", path);
    try {
      const { size } = await handle.stat();
      const cut = () => malformed(path, "it became shorter while it was read");
      const read = async (start: number, length: number): Promise<Uint8Array> => {
        const bytes = new Uint8Array(length);
        await fill(handle, bytes, start, cut);
        return bytes;
      };
      return await readArrays({ bytes: size, read }, path, options);
    } finally {
      await handle.close();
    }
  });
}

/** Like {@link readNpz}, of a file in memory. */
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
