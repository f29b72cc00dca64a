/**
 * @module The safetensors format (https://github.com/huggingface/safetensors): a little-endian 64-bit header length,
 * a JSON header `{ "__metadata__": { … }, "name": { "dtype", "shape", "data_offsets" } }`, then the values, packed,
 * little-endian, row-major. Everything in a header is checked before it is used, and nothing in a file is executed.
 */
import { createHash } from "node:crypto";
import { type DType, dtypes, type ShortInteger, shortArrays } from "../ir/dtype.ts";
import { formatShape, type HostTensor, type Shape, sizeOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkBytes, chosenBy } from "../util/options.ts";
import { checkRecognised, recognisedBytes } from "../util/recognise.ts";
import { shown } from "../util/show.ts";
import { called } from "../util/source.ts";
import type { CommitContent, CommitOptions } from "./commit.ts";
import { Digests, digestedContent, withDigests } from "./digests.ts";
import { checkHost, largestRank } from "./host-tensors.ts";
import { fill, openFile, readPart } from "./read.ts";
import { chunkBytes, inChunks, writeWhole } from "./write.ts";

export type { HostTensor } from "../ir/shape.ts";

export type HostTensors = ReadonlyMap<string, HostTensor>;
export type SafetensorsMetadata = ReadonlyMap<string, string>;

/** The place of one tensor in a file. */
export interface SafetensorsEntry {
  readonly name: string;
  /** The dtype as the file spells it, such as `"F32"`; also a dtype that cannot be loaded, such as `"F8_E5M2"`. */
  readonly format: string;
  readonly shape: Shape;
  /** First byte, counted from the start of the file. */
  readonly offset: number;
  readonly bytes: number;
}

/** A checked header. */
export interface SafetensorsHeader {
  readonly metadata: SafetensorsMetadata;
  /** In the order of their bytes, which fill the file without holes. */
  readonly entries: readonly SafetensorsEntry[];
}

/** Longest header that is accepted, in bytes: the limit of the format's own reader. */
export const largestHeader = 100_000_000;
const lengthBytes = 8;
const metadataKey = "__metadata__";

const formats: { readonly [D in DType]: string } = {
  f32: "F32",
  f64: "F64",
  i32: "I32",
  u32: "U32",
  u8: "U8",
  f16: "F16",
  bf16: "BF16",
  i8: "I8",
  i64: "I64",
  u64: "U64",
  bool: "BOOL",
};
/** Integers of 16 bits, which are read as i32. */
const shortFormats: ReadonlyMap<string, ShortInteger> = new Map([
  ["I16", "i16"],
  ["U16", "u16"],
]);
/** Bytes per element of the format's older dtypes; sizes of newer dtypes cannot be checked. */
const formatBytes: ReadonlyMap<string, number> = new Map([
  ...["BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"].map((name) => [name, 1] as const),
  ...["I16", "U16", "F16", "BF16"].map((name) => [name, 2] as const),
  ...["I32", "U32", "F32"].map((name) => [name, 4] as const),
  ...["I64", "U64", "F64", "C64"].map((name) => [name, 8] as const),
]);

/** A file ready to be written. */
export interface SafetensorsLayout {
  /** Length, JSON and padding. */
  readonly header: Uint8Array;
  readonly tensors: readonly HostTensor[];
  /** Size of the whole file. */
  readonly bytes: number;
}

/**
 * Lays out a file: tensors with the widest dtypes first, then by name, so that all are aligned to their size; the
 * same content always gives the same bytes. Throws when values do not fill their shape.
 */
export function layoutSafetensors(tensors: HostTensors, metadata: SafetensorsMetadata = new Map()): SafetensorsLayout {
  for (const [name, tensor] of checkNamed(tensors)) checkTensor(name, tensor);
  const { names, ...layout } = layoutHeader(tensors, metadata);
  return { ...layout, tensors: names.map((name) => tensors.get(name) as HostTensor) };
}

/** Lays out a file by the types of its tensors, as {@link layoutSafetensors}; `names` is the order of their bytes. */
export function layoutHeader(
  types: ReadonlyMap<string, TensorType>,
  metadata: SafetensorsMetadata = new Map(),
): { readonly header: Uint8Array; readonly names: readonly string[]; readonly bytes: number } {
  const sorted = [...types].sort(
    ([leftName, left], [rightName, right]) =>
      dtypes[right.dtype].bytes - dtypes[left.dtype].bytes ||
      compareText(left.dtype, right.dtype) ||
      compareText(leftName, rightName),
  );
  const fields: string[] = [];
  if (metadata.size > 0) {
    const strings = [...metadata].map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
    fields.push(`"${metadataKey}":{${strings.join(",")}}`);
  }
  let end = 0;
  for (const [name, { dtype, shape }] of sorted) {
    const begin = end;
    end += sizeOf(shape) * dtypes[dtype].bytes;
    const entry = { dtype: formats[dtype], shape, data_offsets: [begin, end] };
    fields.push(`${JSON.stringify(name)}:${JSON.stringify(entry)}`);
  }
  const json = Buffer.from(`{${fields.join(",")}}`, "utf8");
  const padded = Math.ceil(json.length / lengthBytes) * lengthBytes;
  if (padded > largestHeader)
    throw new HeddleError("format", `the safetensors header takes ${padded} bytes, the limit is ${largestHeader}`);
  const header = new Uint8Array(lengthBytes + padded).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(padded), true);
  header.set(json, lengthBytes);
  return { header, names: sorted.map(([name]) => name), bytes: header.length + end };
}

/** How the format spells a dtype, and the dtype of a spelling; undefined where Heddle lacks it or widens its values. */
export const spelledDType = (dtype: DType): string => formats[dtype];
export const dtypeSpelled = (spelling: string): DType | undefined =>
  (Object.keys(formats) as DType[]).find((name) => formats[name] === spelling);

function checkNamed(tensors: HostTensors): HostTensors {
  if (tensors instanceof Map) return tensors;
  const got = shown(tensors);
  throw new HeddleError("argument", `saveSafetensors: takes a Map of { dtype, shape, data } by name, got ${got}`, {
    hint: "saveTensors takes trees of tensors",
  });
}

function checkTensor(name: string, tensor: HostTensor): void {
  if (name === metadataKey) throw new HeddleError("format", `a tensor cannot be named "${metadataKey}"`);
  const { dtype, shape, data } = tensor;
  if (!Object.hasOwn(formats, dtype)) throw new HeddleError("dtype", `tensor "${name}" has unknown dtype "${dtype}"`);
  checkHost(`tensor "${name}"`, tensor);
  // Bytes per element in JavaScript, where floats of 16 bits are held in arrays of f32.
  const held = dtypes[dtype].create(0).BYTES_PER_ELEMENT;
  if (data.BYTES_PER_ELEMENT !== held || data.length !== sizeOf(shape)) {
    throw new HeddleError(
      "shape",
      `tensor "${name}" has ${data.length} values of ${data.BYTES_PER_ELEMENT} bytes, not those of ${dtype}${formatShape(shape)}`,
    );
  }
}

const compareText = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0);

/** The bytes of a file in pieces of at most 256 KiB: views of the tensors, not copies. */
export function* safetensorsChunks(layout: SafetensorsLayout): Generator<Uint8Array> {
  yield* inChunks(layout.header);
  for (const { dtype, data } of layout.tensors) yield* inChunks(dtypes[dtype].bytesOf(data));
}

/** The whole file in memory. */
export function encodeSafetensors(tensors: HostTensors, metadata?: SafetensorsMetadata): Uint8Array {
  const layout = layoutSafetensors(tensors, metadata);
  const bytes = new Uint8Array(layout.bytes);
  let offset = 0;
  for (const chunk of safetensorsChunks(layout)) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}

/** Options of {@link saveSafetensors}. */
export interface SaveSafetensorsOptions extends CommitOptions {
  /** Kept as the file's `__metadata__`. */
  readonly metadata?: SafetensorsMetadata;
}

/**
 * Writes a file without copying the tensors; it appears whole or not at all. A SHA-256 of each tensor is kept in the metadata.
 *
 * @throws HeddleError `file` when it cannot be written, `disk` when it does not fit.
 */
export const saveSafetensors = (
  path: string,
  tensors: HostTensors,
  options: SaveSafetensorsOptions = {},
): Promise<void> => called(() => savedBy("saveSafetensors", path, tensors, options));

/** The key under which `saveModel` of heddle/ml keeps a model in the metadata. */
export const mlKey = "heddle.ml";

/** {@link saveSafetensors} for the function `what` that users call. */
export async function savedBy(
  what: string,
  path: string,
  tensors: HostTensors,
  options: SaveSafetensorsOptions = {},
): Promise<void> {
  await writeWhole(what, path, digestedSafetensors(tensors, asRecord(what, options).metadata), options);
}

/** The bytes of a file with digests of its tensors. */
export function digestedSafetensors(tensors: HostTensors, metadata: SafetensorsMetadata = new Map()): CommitContent {
  return digestedContent(layoutSafetensors(tensors, withDigests(metadata, checkNamed(tensors).size)));
}

function malformed(file: string, problem: string): HeddleError {
  return new HeddleError("format", `${file} is not a valid safetensors file: ${problem}`);
}

/** Length of the JSON header of a file of `fileBytes` that starts with `start`. Throws when it cannot be right. */
export function safetensorsHeaderLength(start: Uint8Array, fileBytes: number, file: string): number {
  if (start.length < lengthBytes || fileBytes < lengthBytes) {
    throw malformed(file, `${fileBytes} bytes, its header length alone takes ${lengthBytes}`);
  }
  const length = new DataView(start.buffer, start.byteOffset, lengthBytes).getBigUint64(0, true);
  if (length > BigInt(largestHeader)) throw malformed(file, `header of ${length} bytes, the limit is ${largestHeader}`);
  if (length > BigInt(fileBytes - lengthBytes)) {
    throw malformed(file, `header of ${length} bytes in a file of ${fileBytes}`);
  }
  return Number(length);
}

/** Checks the JSON header of a file of `fileBytes`: dtypes, shapes, and offsets without overlap, hole or overhang. */
export function parseSafetensorsHeader(json: Uint8Array, fileBytes: number, file: string): SafetensorsHeader {
  const fields = Object.entries(parseObject(json, file));
  let metadata: SafetensorsMetadata = new Map();
  const entries: SafetensorsEntry[] = [];
  const dataStart = lengthBytes + json.length;
  for (const [name, value] of fields) {
    if (name === metadataKey) metadata = parseMetadata(value, file);
    else entries.push(parseEntry(name, value, dataStart, file));
  }
  entries.sort((left, right) => left.offset - right.offset || left.bytes - right.bytes);
  let end = dataStart;
  for (const { name, offset, bytes } of entries) {
    if (offset !== end)
      throw malformed(file, `tensor "${name}" ${offset < end ? "overlaps the one" : "leaves a hole"} before it`);
    end = offset + bytes;
  }
  if (end !== fileBytes) throw malformed(file, `its tensors end at byte ${end}, the file at ${fileBytes}`);
  return { metadata, entries };
}

function parseObject(json: Uint8Array, file: string): object {
  if (json[0] !== 0x7b) throw malformed(file, "the header does not start with {");
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(json);
    value = JSON.parse(text);
  } catch {
    throw malformed(file, "the header is not JSON");
  }
  if (!isObject(value)) throw malformed(file, "the header is not a JSON object");
  if (countKeysOfText(text) !== countKeys(value)) throw malformed(file, "a name appears twice in the header");
  return value;
}

/** Names in a valid JSON text, repeated ones included, which `JSON.parse` drops: a string followed by a colon. */
function countKeysOfText(text: string): number {
  let keys = 0;
  for (let start = text.indexOf('"'); start >= 0; ) {
    let end = start + 1;
    while (text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
    const next = text.indexOf('"', end + 1);
    if (
      text
        .slice(end + 1, next < 0 ? text.length : next)
        .trimStart()
        .startsWith(":")
    )
      keys++;
    start = next;
  }
  return keys;
}

function countKeys(value: unknown): number {
  const pending: unknown[] = [value];
  let keys = 0;
  while (pending.length > 0) {
    const next = pending.pop();
    if (typeof next !== "object" || next === null) continue;
    const values: unknown[] = Object.values(next);
    if (!Array.isArray(next)) keys += values.length;
    for (const inner of values) pending.push(inner);
  }
  return keys;
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function parseMetadata(value: unknown, file: string): SafetensorsMetadata {
  if (!isObject(value)) throw malformed(file, `${metadataKey} is not an object`);
  const strings = new Map<string, string>();
  // Values other than strings, which the format forbids, are ignored.
  for (const [key, text] of Object.entries(value)) if (typeof text === "string") strings.set(key, text);
  return strings;
}

function parseEntry(name: string, value: unknown, dataStart: number, file: string): SafetensorsEntry {
  const wrong = (problem: string): HeddleError => malformed(file, `tensor "${name}" ${problem}`);
  if (!isObject(value)) throw wrong("is not { dtype, shape, data_offsets }");
  const { dtype, shape, data_offsets: offsets } = value as { [key: string]: unknown };
  if (typeof dtype !== "string") throw wrong(`has ${JSON.stringify(dtype) ?? "nothing"} for a dtype`);
  if (!isSizes(shape) || shape.length > largestRank) throw wrong(`has no shape of at most ${largestRank} sizes`);
  if (!isSizes(offsets) || offsets.length !== 2) throw wrong("has no pair of data_offsets");
  const [begin, end] = offsets as [number, number];
  if (end < begin) throw wrong(`has offsets ${begin} to ${end}`);
  const elementBytes = formatBytes.get(dtype);
  // The size of an unknown dtype is what the file says, so that the other tensors can be read.
  const bytes = shape.reduce((product, size) => product * BigInt(size), BigInt(elementBytes ?? 0));
  if (elementBytes !== undefined && BigInt(end - begin) !== bytes) {
    throw wrong(`has offsets ${begin} to ${end}, but ${dtype}${formatShape(shape)} takes ${bytes} bytes`);
  }
  return { name, format: dtype, shape, offset: dataStart + begin, bytes: end - begin };
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && (size as number) >= 0);
}

const dtypeNamed = (format: string): DType | undefined => (shortFormats.has(format) ? "i32" : dtypeSpelled(format));

/** Makes a tensor from its bytes. @throws HeddleError `dtype` for dtypes that Heddle lacks. */
function tensorOf(entry: SafetensorsEntry, buffer: ArrayBuffer, file: string): HostTensor {
  const dtype = dtypeNamed(entry.format);
  if (dtype === undefined) {
    throw new HeddleError("dtype", `tensor "${entry.name}" of ${file} is ${entry.format}, which is not supported`, {
      hint: `supported are ${[...Object.values(formats), ...shortFormats.keys()].join(", ")}; the option only leaves tensors out`,
    });
  }
  const short = shortFormats.get(entry.format);
  if (short !== undefined) return { dtype, shape: entry.shape, data: Int32Array.from(new shortArrays[short](buffer)) };
  const data = dtypes[dtype].view(buffer, 0, entry.bytes / dtypes[dtype].bytes);
  if (dtype === "bool" && data.some((value) => value > 1)) {
    throw malformed(file, `tensor "${entry.name}" is BOOL, but holds bytes other than 0 and 1`);
  }
  return { dtype, shape: entry.shape, data };
}

/** A file's content. */
export interface Safetensors {
  readonly tensors: HostTensors;
  readonly metadata: SafetensorsMetadata;
  /** Whether the file has digests, by which the tensors were verified: files that Heddle has written do. */
  readonly verified: boolean;
}

/** Reads a whole file from memory; the tensors are copies. `file` is the name in error messages. */
export function decodeSafetensors(bytes: Uint8Array, file: string): Safetensors {
  checkBytes("decodeSafetensors", bytes);
  checkRecognised(bytes, file, "safetensors", ["safetensors"]);
  const length = safetensorsHeaderLength(bytes, bytes.length, file);
  const { entries, metadata, digests } = digestedHeader(bytes.subarray(0, lengthBytes + length), bytes.length, file);
  const tensors = entries.map((entry): [string, HostTensor] => {
    // Not `slice`, which is a view when the bytes are a Buffer.
    const copy = new Uint8Array(bytes.subarray(entry.offset, entry.offset + entry.bytes));
    digests?.verify(entry.name, createHash("sha256").update(copy), (problem) => changed(file, problem));
    return [entry.name, tensorOf(entry, copy.buffer, file)];
  });
  return { tensors: new Map(tensors), metadata, verified: digests !== undefined };
}

/** The content of a header, of which length and JSON are given, without the digests, which are checked and apart. */
function digestedHeader(header: Uint8Array, fileBytes: number, file: string) {
  const { entries, metadata: all } = parseSafetensorsHeader(header.subarray(lengthBytes), fileBytes, file);
  const metadata = new Map(all);
  const names = entries.map(({ name }) => name);
  const digests = Digests.take(header, metadata, names, (problem) => changed(file, problem));
  return { entries, metadata, digests };
}

const changed = (file: string, problem: string): HeddleError =>
  new HeddleError("format", `${file} has changed since it was written: ${problem}`, {
    hint: "take an earlier copy; a program that changes tensors, names or metadata must leave heddle.digests out of the metadata",
  });

/** Options of {@link readSafetensors}. */
export interface ReadSafetensorsOptions {
  /** Which tensors to read; default all. The header is checked whole in any case. */
  readonly only?: (name: string) => boolean;
  /** Gets the header (length and JSON) once it is checked, then the values in pieces, in the order of the file. */
  readonly onBytes?: (bytes: Uint8Array) => void;
  /** Ends the reading by throwing the signal's reason. */
  readonly signal?: AbortSignal;
}

/** An open file, whose tensors are read one by one on request. */
export interface SafetensorsFile {
  readonly metadata: SafetensorsMetadata;
  /** Whether the file has digests, by which each tensor that is read is verified. */
  readonly verified: boolean;
  /** By name, in the order of the file; `dtype` is undefined where Heddle lacks the file's dtype. */
  readonly entries: ReadonlyMap<string, SafetensorsEntry & { readonly dtype: DType | undefined }>;
  /** Reads one tensor. @throws HeddleError `argument` for an unknown name; `dtype`; `format` when the file was cut or changed. */
  read(name: string): Promise<HostTensor>;
  close(): Promise<void>;
}

/**
 * Opens a file and checks its header; no values are read. @throws HeddleError `format` when it is malformed; `file`
 * when it cannot be read.
 */
export function openSafetensors(path: string): Promise<SafetensorsFile> {
  return called(() => openedBy("openSafetensors", path));
}

/** Like {@link openSafetensors}, for the function `what` that users call. */
export async function openedBy(
  what: string,
  path: string,
  { onBytes, signal }: ReadSafetensorsOptions = {},
): Promise<SafetensorsFile> {
  const handle = await openFile(what, path);
  try {
    const { size } = await handle.stat();
    const cut = () => malformed(path, "it became shorter while it was read");
    // In pieces, so that whoever hashes them does not hold up the event loop.
    const read = (target: Uint8Array, position: number, onPiece?: (bytes: Uint8Array) => void): Promise<void> =>
      fill(handle, target, position, cut, { most: chunkBytes, signal, onBytes: onPiece });
    checkRecognised(await readPart(handle, 0, recognisedBytes), path, "safetensors", ["safetensors"]);
    const start = new Uint8Array(Math.min(lengthBytes, size));
    await read(start, 0);
    const whole = new Uint8Array(lengthBytes + safetensorsHeaderLength(start, size, path));
    await read(whole, 0);
    const header = digestedHeader(whole, size, path);
    const { metadata, digests } = header;
    onBytes?.(whole);
    const entries = new Map(header.entries.map((entry) => [entry.name, { ...entry, dtype: dtypeNamed(entry.format) }]));
    return {
      metadata,
      entries,
      verified: digests !== undefined,
      read: async (name) => {
        const entry = entries.get(name);
        if (entry === undefined) throw new HeddleError("argument", `${path} has no tensor "${name}"`);
        const bytes = new Uint8Array(entry.bytes);
        const hash = digests && createHash("sha256");
        await read(bytes, entry.offset, (piece) => {
          hash?.update(piece);
          onBytes?.(piece);
        });
        if (hash !== undefined) digests?.verify(name, hash, (problem) => changed(path, problem));
        return tensorOf(entry, bytes.buffer, path);
      },
      close: () => handle.close(),
    };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Reads a file, tensor by tensor. Throws `format` when it is malformed, `file` when it cannot be read. */
export function readSafetensors(path: string, options: ReadSafetensorsOptions = {}): Promise<Safetensors> {
  return called(async () => {
    const only = chosenBy("readSafetensors", asRecord("readSafetensors", options).only);
    const file = await openedBy("readSafetensors", path, options);
    try {
      const tensors = new Map<string, HostTensor>();
      for (const name of file.entries.keys()) if (only(name)) tensors.set(name, await file.read(name));
      return { tensors, metadata: file.metadata, verified: file.verified };
    } finally {
      await file.close();
    }
  });
}
