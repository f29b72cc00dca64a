/** @module Rows of values that lie in a file one after another: read by position, and recognised by a sample of the file. */
import { createHash } from "node:crypto";
import { close, fstatSync, openSync, read, type Stats, statSync } from "node:fs";
import { promisify } from "node:util";
import { type DType, dtypes, isDType, type ShortInteger, shortArrays, type TypedArray } from "../ir/dtype.ts";
import { type Shape, sizeOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { RowRange } from "./column.ts";
import { checkBools } from "./column.ts";
import type { RangeSource } from "./ranges.ts";

/** Where values lie in a file. */
export interface FileValues {
  /** Rows first. */
  readonly shape: Shape;
  readonly dtype: DType;
  /** Position of the first value, in bytes. */
  readonly start: number;
  /** The file's integers of 16 bits, which are read as i32; default: the file has values of `dtype`. */
  readonly short?: ShortInteger | undefined;
  /** Default false. */
  readonly bigEndian?: boolean;
}

/** Blocks of a file that are hashed for its identity, and their size. */
const sampledBlocks = 64;
const blockBytes = 16 * 1024;
/** Bytes that are hashed as a whole. */
const smallBytes = sampledBlocks * blockBytes;
/** Bytes of one call. */
const largestCall = 2 ** 27;

/** Milliseconds after which a file is looked at again for changes. */
const checkEvery = 1000;

const readAt = promisify(
  (
    fd: number,
    bytes: Uint8Array,
    where: { readonly offset: number; readonly length: number; readonly position: number },
    done: (error: Error | null, result: { readonly bytesRead: number }) => void,
  ) => read(fd, bytes, where.offset, where.length, where.position, (error, bytesRead) => done(error, { bytesRead })),
);
/** Closes the files of columns that nobody holds. */
const closing = new FinalizationRegistry<number>((fd) => close(fd));

/** What a file is at a moment: another size or time means another content. */
const stampOf = ({ size, mtimeMs }: { readonly size: number; readonly mtimeMs: number }): string =>
  `${size} ${mtimeMs}`;

/**
 * The values of a file by ranges of rows, for `data.columnFromRanges`. The file stays open until no column holds it. `what` is the
 * function that users call.
 *
 * @throws HeddleError `file` when the file cannot be read, ends before its values, or is changed while the dataset is used
 */
export function fileRanges(what: string, path: string, values: FileValues): RangeSource {
  if (typeof path !== "string" || !Array.isArray(values?.shape) || !isDType(values.dtype))
    throw new HeddleError(
      "argument",
      `fileRanges: takes a name, a path, and { shape, dtype, start }, got ${shown(path)} and ${shown(values)}`,
    );
  const { shape, dtype, start, short, bigEndian = false } = values;
  checkInteger("fileRanges", "start", start, 0);
  const elementBytes = short === undefined ? dtypes[dtype].bytes : shortArrays[short].BYTES_PER_ELEMENT;
  const width = sizeOf(shape.slice(1));
  const rowBytes = width * elementBytes;
  const stats = statsOf(what, path);
  const stamp = stampOf(stats);
  const needed = start + (shape[0] as number) * rowBytes;
  if (needed > stats.size)
    throw new HeddleError(
      "file",
      `${what}: ${path} is too short: ${shape[0]} rows of ${rowBytes} bytes from byte ${start} on need ${needed}, it has ${stats.size}`,
    );
  const changed = (): HeddleError =>
    new HeddleError("file", `${what}: ${path} has changed since the dataset was made`, {
      hint: "make the dataset again",
    });
  const file = { fd: undefined as number | undefined, checked: 0 };
  const opened = (): number => {
    const now = Date.now();
    if (file.fd === undefined) {
      const fd = openSync(path, "r");
      file.fd = fd;
      closing.register(file, fd);
    } else if (now - file.checked < checkEvery) return file.fd;
    if (stampOf(fstatSync(file.fd)) !== stamp) throw changed();
    file.checked = now;
    return file.fd;
  };
  const bytesAt = async (position: number, length: number): Promise<Uint8Array<ArrayBuffer>> => {
    const bytes = new Uint8Array(length);
    for (let filled = 0; filled < length; ) {
      const { bytesRead } = await readAt(opened(), bytes, {
        offset: filled,
        length: Math.min(largestCall, length - filled),
        position: start + position + filled,
      }).catch((cause: unknown) => {
        throw new HeddleError("file", `${what}: cannot read ${path}: ${(cause as Error).message}`, { cause });
      });
      if (bytesRead === 0) throw changed();
      filled += bytesRead;
    }
    return bytes;
  };
  return {
    async range(first, count) {
      const bytes = await bytesAt(first * rowBytes, count * rowBytes);
      if (bigEndian) swap(bytes, elementBytes);
      if (dtype === "bool") checkBools(path, bytes, first * width);
      return short === undefined
        ? dtypes[dtype].view(bytes.buffer, 0, count * width)
        : (Int32Array.from(new shortArrays[short](bytes.buffer)) as TypedArray);
    },
    async identity({ first, count }: RowRange, whole) {
      const hash = createHash("sha256");
      const [from, length] = [first * rowBytes, count * rowBytes];
      hash.update(`${dtype} ${short ?? ""} ${bigEndian} ${length} `);
      for (const [position, bytes] of blocks(length, whole)) hash.update(await bytesAt(from + position, bytes));
      return hash.digest("hex");
    },
  };
}

function statsOf(what: string, path: string): Stats {
  try {
    return statSync(path);
  } catch (cause) {
    throw new HeddleError("file", `${what}: cannot read ${path}: ${(cause as Error).message}`, { cause });
  }
}

/** Positions and sizes of the blocks that are hashed: all of them, or as many from the first to the last, equally far apart. */
export function* blocks(length: number, whole: boolean): Generator<readonly [position: number, bytes: number]> {
  if (whole || length <= smallBytes) {
    const step = 2 ** 22;
    for (let position = 0; position < length; position += step) yield [position, Math.min(step, length - position)];
    return;
  }
  for (let block = 0; block < sampledBlocks; block++)
    yield [Math.floor((block * (length - blockBytes)) / (sampledBlocks - 1)), blockBytes];
}

/** Reverses the bytes of each element, in place. */
function swap(bytes: Uint8Array, size: number): void {
  if (size === 1) return;
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (size === 2) buffer.swap16();
  else if (size === 4) buffer.swap32();
  else buffer.swap64();
}
