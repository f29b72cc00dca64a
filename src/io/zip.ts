/**
 * @module Zip archives, the containers of npz files and of PyTorch's files. The directory at the end is read first;
 * every size is checked against it before it is allocated, and every file against its CRC-32.
 */
import { crc32 } from "node:zlib";
import { inflateSync } from "fflate";
import { HeddleError } from "../util/errors.ts";
import { checkRecognised, recognisedBytes } from "../util/recognise.ts";
import { fill, openFile } from "./read.ts";

/** What error messages say of an archive. */
export interface Archive {
  readonly file: string;
  /** The expected format, as in "is not a valid npz file". */
  readonly format: string;
}

/** A file of an archive. */
export interface ZipEntry {
  readonly name: string;
  readonly encrypted: boolean;
  readonly method: number;
  readonly crc: number;
  readonly packed: number;
  readonly size: number;
  readonly offset: number;
}

/** The source of bytes: memory, or a file of which only the needed parts are read. */
export interface ByteSource {
  readonly bytes: number;
  read(start: number, length: number): Promise<Uint8Array>;
}

/** A file that is open, as a source. @throws HeddleError `file` when it cannot be read. */
export async function openSource(
  what: string,
  path: string,
  archive: Archive,
): Promise<ByteSource & { close(): Promise<void> }> {
  const handle = await openFile(what, path);
  const { size } = await handle.stat();
  const cut = () => malformed(archive, "it became shorter while it was read");
  return {
    bytes: size,
    async read(start, length) {
      const bytes = new Uint8Array(length);
      await fill(handle, bytes, start, cut);
      return bytes;
    },
    close: () => handle.close(),
  };
}

const largestDirectory = 64 * 2 ** 20;
const endMark = 0x06054b50;
export const endLength = 22;

const malformed = ({ file, format }: Archive, problem: string): HeddleError =>
  new HeddleError("format", `${file} is not a valid ${format} file: ${problem}`);

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Reads a number of 64 bits. @throws HeddleError `format` for one that a JavaScript number does not hold. */
function wide(view: DataView, at: number, archive: Archive): number {
  const value = view.getBigUint64(at, true);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw malformed(archive, `a size of ${value}`);
  return Number(value);
}

/** Place, length and count of the directory. */
async function findDirectory(
  source: ByteSource,
  archive: Archive,
): Promise<{ start: number; length: number; count: number }> {
  const tailLength = Math.min(source.bytes, endLength + 65_535);
  const tail = await source.read(source.bytes - tailLength, tailLength);
  const view = viewOf(tail);
  let at = tail.length - endLength;
  while (at >= 0 && view.getUint32(at, true) !== endMark) at--;
  if (at < 0) {
    checkRecognised(await source.read(0, Math.min(source.bytes, recognisedBytes)), archive.file, archive.format, [
      "zip",
    ]);
    throw malformed(archive, "it has no directory at its end");
  }
  let [count, length, start] = [
    view.getUint16(at + 10, true),
    view.getUint32(at + 12, true),
    view.getUint32(at + 16, true),
  ];
  if (at >= 20 && view.getUint32(at - 20, true) === 0x07064b50) {
    const end64 = wide(view, at - 12, archive);
    if (end64 + 56 > source.bytes) throw malformed(archive, "its zip64 directory lies outside");
    const wideEnd = viewOf(await source.read(end64, 56));
    if (wideEnd.getUint32(0, true) !== 0x06064b50) throw malformed(archive, "its zip64 directory is missing");
    [count, length, start] = [wide(wideEnd, 32, archive), wide(wideEnd, 40, archive), wide(wideEnd, 48, archive)];
  }
  if (start + length > source.bytes) throw malformed(archive, "its directory lies outside");
  if (length > largestDirectory) throw malformed(archive, `a directory of ${length} bytes`);
  return { start, length, count };
}

/** The files of an archive, by its directory. @throws HeddleError `format`. */
export async function readDirectory(source: ByteSource, archive: Archive): Promise<ZipEntry[]> {
  const { start, length, count } = await findDirectory(source, archive);
  const bytes = await source.read(start, length);
  const view = viewOf(bytes);
  const entries: ZipEntry[] = [];
  let at = 0;
  for (let index = 0; index < count; index++) {
    if (at + 46 > length || view.getUint32(at, true) !== 0x02014b50) throw malformed(archive, "its directory is cut");
    const nameLength = view.getUint16(at + 28, true);
    const extraLength = view.getUint16(at + 30, true);
    const next = at + 46 + nameLength + extraLength + view.getUint16(at + 32, true);
    if (next > length) throw malformed(archive, "its directory is cut");
    const name = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + nameLength));
    const extra = viewOf(bytes.subarray(at + 46 + nameLength, at + 46 + nameLength + extraLength));
    const fields = [view.getUint32(at + 24, true), view.getUint32(at + 20, true), view.getUint32(at + 42, true)];
    const [size, packed, offset] = zip64Fields(fields, extra, archive) as [number, number, number];
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

/** Replaces sizes of 32 bits that are all ones by the sizes of 64 bits in the extra field. */
function zip64Fields(fields: readonly number[], extra: DataView, archive: Archive): number[] {
  if (!fields.includes(0xffffffff)) return [...fields];
  for (let at = 0; at + 4 <= extra.byteLength; at += 4 + extra.getUint16(at + 2, true)) {
    if (extra.getUint16(at, true) !== 1) continue;
    let offset = at + 4;
    return fields.map((field) => {
      if (field !== 0xffffffff) return field;
      if (offset + 8 > extra.byteLength) throw malformed(archive, "a zip64 field is cut");
      offset += 8;
      return wide(extra, offset - 8, archive);
    });
  }
  throw malformed(archive, "a zip64 field is missing");
}

/** The bytes of a file of an archive, unpacked and checked. @throws HeddleError `format`. */
export async function readEntry(source: ByteSource, entry: ZipEntry, archive: Archive): Promise<Uint8Array> {
  const { name, method, packed, size, offset } = entry;
  const wrong = (problem: string): HeddleError => malformed(archive, `"${name}" ${problem}`);
  if (entry.encrypted) throw wrong("is encrypted");
  if (offset + 30 > source.bytes) throw wrong("lies outside");
  const local = viewOf(await source.read(offset, 30));
  if (local.getUint32(0, true) !== 0x04034b50) throw wrong("is not where the directory says");
  const start = offset + 30 + local.getUint16(26, true) + local.getUint16(28, true);
  if (start + packed > source.bytes) throw wrong("lies outside");
  if (method !== 0 && method !== 8) throw wrong(`is compressed by method ${method}; 0 and 8 (deflate) are read`);
  // Deflate makes at most 1032 bytes from one byte: a larger size is wrong, and is not allocated.
  if (method === 0 ? packed !== size : size > packed * 1032 + 64) throw wrong(`cannot be ${size} bytes`);
  const stored = await source.read(start, packed);
  const bytes = method === 0 ? stored : inflate(stored, size, wrong);
  if (crc32(bytes) !== entry.crc) throw wrong("has another checksum: it is damaged");
  return bytes;
}

function inflate(stored: Uint8Array, size: number, wrong: (problem: string) => HeddleError): Uint8Array {
  let bytes: Uint8Array;
  try {
    // Room for one byte more shows whether there are too many.
    bytes = inflateSync(stored, { out: new Uint8Array(size + 1) });
  } catch {
    throw wrong("cannot be decompressed: it is damaged");
  }
  if (bytes.length !== size) throw wrong(`is not ${size} bytes, as the directory says`);
  return bytes;
}
