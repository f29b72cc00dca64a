/**
 * @module The IDX format of the MNIST files (http://yann.lecun.com/exdb/mnist): bytes 0 and 1 are zero, byte 2 the type,
 * byte 3 the number of dims, then each dim as a big-endian 32-bit integer, then the values, big-endian, row-major.
 */
import { type DType, dtypes, shortArrays, type TypedArray } from "../ir/dtype.ts";
import { formatShape, type Shape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkBytes } from "../util/options.ts";
import { checkRecognised } from "../util/recognise.ts";
import { formatBytes } from "../util/text.ts";

/** The values of an IDX file; integers of 16 bits are read as i32. */
export interface IdxArray {
  readonly shape: Shape;
  readonly dtype: DType;
  /** Row-major, in this machine's byte order. */
  readonly data: TypedArray;
}

/** The header of an IDX file. */
export interface IdxHeader {
  readonly shape: Shape;
  readonly dtype: DType;
  /** Bytes of a value in the file. */
  readonly elementBytes: number;
  readonly headerBytes: number;
  readonly dataBytes: number;
}

/** Default limit of the values' size in bytes. */
export const defaultIdxLimit = 2 ** 32;
/** Largest number of dims that is accepted. */
export const largestIdxRank = 8;
/** Bytes of the longest header that is accepted. */
export const largestIdxHeader = 4 + 4 * largestIdxRank;

const typesByCode: ReadonlyMap<number, DType | "i16"> = new Map([
  [0x08, "u8"],
  [0x09, "i8"],
  [0x0b, "i16"],
  [0x0c, "i32"],
  [0x0d, "f32"],
  [0x0e, "f64"],
] as const);

/** An error about the content of `file`. */
export function idxError(file: string, problem: string, hint?: string): HeddleError {
  return new HeddleError("format", `${file} is not a valid IDX file: ${problem}`, hint === undefined ? {} : { hint });
}

/** Size of the header that starts with these bytes; undefined when more bytes are needed. */
export function idxHeaderBytes(start: Uint8Array, file: string): number | undefined {
  if (start.length < 4) return undefined;
  const [zero0, zero1, , rank] = start as unknown as [number, number, number, number];
  if (zero0 !== 0 || zero1 !== 0) {
    checkRecognised(start, file, "IDX");
    const magic = [...start.subarray(0, 4)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    throw idxError(file, `wrong magic number ${magic}, expected 00 00 <type> <dims>`);
  }
  if (rank === 0 || rank > largestIdxRank) {
    throw idxError(file, `it declares ${rank} dims, expected 1 to ${largestIdxRank}`);
  }
  return 4 + 4 * rank;
}

/** Reads and checks a header. `bytes` may be longer. Throws for a header that is short, unknown or declares too much data. */
export function parseIdxHeader(bytes: Uint8Array, file: string, maxBytes: number = defaultIdxLimit): IdxHeader {
  const headerBytes = idxHeaderBytes(bytes, file);
  if (headerBytes === undefined || bytes.length < headerBytes) {
    throw idxError(file, `short: ${bytes.length} bytes, its header alone takes ${headerBytes ?? 4}`);
  }
  const code = bytes[2] as number;
  const type = typesByCode.get(code);
  if (type === undefined) throw idxError(file, `unknown type code 0x${code.toString(16).padStart(2, "0")}`);
  const elementBytes = type === "i16" ? shortArrays.i16.BYTES_PER_ELEMENT : dtypes[type].bytes;
  const view = new DataView(bytes.buffer, bytes.byteOffset, headerBytes);
  const shape: number[] = [];
  for (let offset = 4; offset < headerBytes; offset += 4) shape.push(view.getUint32(offset));
  const dataBytes = shape.reduce((product, size) => product * BigInt(size), BigInt(elementBytes));
  if (dataBytes > BigInt(maxBytes)) {
    throw idxError(
      file,
      `too large: shape ${formatShape(shape)} of ${type} takes ${dataBytes} bytes, the limit is ${maxBytes}`,
    );
  }
  return { shape, dtype: type === "i16" ? "i32" : type, elementBytes, headerBytes, dataBytes: Number(dataBytes) };
}

/** Throws unless `bytes`, the size of the whole file, matches the header. */
export function checkIdxSize(header: IdxHeader, bytes: number, file: string): void {
  const expected = header.headerBytes + header.dataBytes;
  if (bytes < expected) {
    throw idxError(file, `short: ${bytes} bytes, its shape ${formatShape(header.shape)} calls for ${expected}`);
  }
  if (bytes > expected) throw trailing(header, file, bytes - expected);
}

function trailing(header: IdxHeader, file: string, extra: number | undefined): HeddleError {
  const amount = extra === undefined ? "" : `${formatBytes(extra)} of `;
  return idxError(file, `${amount}trailing bytes after the values of its shape ${formatShape(header.shape)}`);
}

/** Reads a whole IDX file from memory. `file` is its name in messages. */
export function parseIdx(bytes: Uint8Array, file: string, maxBytes: number = defaultIdxLimit): IdxArray {
  checkBytes("parseIdx", bytes);
  const collector = new IdxCollector(file, maxBytes, bytes.length);
  collector.push(bytes);
  return collector.finish();
}

/** Assembles an IDX file that arrives in pieces; nothing is allocated before the header is checked. */
export class IdxCollector {
  readonly #file: string;
  readonly #maxBytes: number;
  readonly #largestFile: number;
  #start = new Uint8Array(0);
  #header: IdxHeader | undefined;
  #data = new Uint8Array(0);
  #filled = 0;
  #swapped = 0;

  /** `largestFile`: upper bound of the file's size; a header that needs more is refused at once. */
  constructor(file: string, maxBytes: number, largestFile: number) {
    this.#file = file;
    this.#maxBytes = maxBytes;
    this.#largestFile = largestFile;
  }

  push(bytes: Uint8Array): void {
    const values = this.#header === undefined ? this.#readHeader(bytes) : bytes;
    const header = this.#header;
    if (header === undefined) return;
    if (this.#filled + values.length > header.dataBytes) throw trailing(header, this.#file, undefined);
    this.#data.set(values, this.#filled);
    this.#filled += values.length;
    this.#swap(header.elementBytes);
  }

  finish(): IdxArray {
    const header = this.#header ?? parseIdxHeader(this.#start, this.#file, this.#maxBytes);
    checkIdxSize(header, header.headerBytes + this.#filled, this.#file);
    const { shape, dtype, elementBytes } = header;
    const count = this.#data.length / elementBytes;
    const isShort = elementBytes !== dtypes[dtype].bytes;
    const view = isShort ? new shortArrays.i16(this.#data.buffer) : dtypes[dtype].view(this.#data.buffer, 0, count);
    return { shape, dtype, data: isShort ? Int32Array.from(view) : (view as TypedArray) };
  }

  /** Returns the bytes after the header; keeps all bytes while the header is incomplete. */
  #readHeader(bytes: Uint8Array): Uint8Array {
    const start = new Uint8Array(this.#start.length + Math.min(bytes.length, largestIdxHeader));
    start.set(this.#start);
    start.set(bytes.subarray(0, start.length - this.#start.length), this.#start.length);
    const earlierBytes = this.#start.length;
    this.#start = start;
    const headerBytes = idxHeaderBytes(start, this.#file);
    if (headerBytes === undefined || start.length < headerBytes) return new Uint8Array(0);
    const header = parseIdxHeader(start, this.#file, this.#maxBytes);
    const expected = header.headerBytes + header.dataBytes;
    if (expected > this.#largestFile) {
      const shape = formatShape(header.shape);
      throw idxError(this.#file, `short: at most ${this.#largestFile} bytes, its shape ${shape} calls for ${expected}`);
    }
    this.#header = header;
    this.#data = new Uint8Array(header.dataBytes);
    return bytes.subarray(headerBytes - earlierBytes);
  }

  /** Converts complete elements to this machine's byte order (little-endian everywhere Node runs). */
  #swap(elementBytes: number): void {
    const end = this.#filled - (this.#filled % elementBytes);
    for (let offset = this.#swapped; elementBytes > 1 && offset < end; offset += elementBytes) {
      for (let low = offset, high = offset + elementBytes - 1; low < high; low++, high--) {
        const byte = this.#data[low] as number;
        this.#data[low] = this.#data[high] as number;
        this.#data[high] = byte;
      }
    }
    this.#swapped = end;
  }
}
