/** @module Reads IDX files, plain or gzipped, and makes datasets of two of them. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { Readable } from "node:stream";
import { constants, createGunzip, gunzipSync } from "node:zlib";
import { dtypes, isInteger } from "../ir/dtype.ts";
import { formatShape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord } from "../util/options.ts";
import { type Column, columnFromLoader, type Transform } from "./column.ts";
import { type Dataset, fromColumns } from "./dataset.ts";
import { fileRanges } from "./file-ranges.ts";
import {
  checkIdxSize,
  defaultIdxLimit,
  type IdxArray,
  IdxCollector,
  type IdxHeader,
  idxError,
  parseIdxHeader,
} from "./idx.ts";
import { columnFromRanges } from "./ranges.ts";

/** Options of {@link readIdx}. */
export interface IdxOptions {
  /** Largest size of the values in bytes; default 4 GiB. */
  readonly maxBytes?: number;
  /** Ends the reading by throwing the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Bytes read at once: small enough that copying them does not hold up the event loop. */
const pieceBytes = 256 * 1024;
/** Enough of a file, gzipped or not, to hold the header. */
const startBytes = 1024;
/** Deflate never makes more than this many bytes from one (zlib's technical notes), plus room for one short block. */
const largestRatio = 1032;

const isGzip = (start: Uint8Array): boolean => start[0] === 0x1f && start[1] === 0x8b;

/**
 * Reads an IDX file; gzip is recognised by its first bytes. The header is checked against the file's size before
 * memory for the values is allocated. Throws `file` for an unreadable file, `format` for a malformed one.
 */
export async function readIdx(path: string, options: IdxOptions = {}): Promise<IdxArray> {
  const { maxBytes = defaultIdxLimit, signal } = asRecord("readIdx", options);
  const handle = await open(path).catch((error: unknown) => {
    throw unreadable(path, error);
  });
  try {
    const { size } = await handle.stat();
    const start = new Uint8Array(2);
    await handle.read(start, 0, 2, 0);
    const compressed = isGzip(start);
    const collector = new IdxCollector(path, maxBytes, compressed ? size * largestRatio : size);
    for await (const piece of compressed ? inflated(handle, path) : pieces(handle)) {
      signal?.throwIfAborted();
      collector.push(piece);
    }
    return collector.finish();
  } catch (error) {
    throw (error as NodeJS.ErrnoException).syscall === undefined ? error : unreadable(path, error);
  } finally {
    await handle.close();
  }
}

/** Whether a file begins as gzip does. */
function compressedFile(path: string): boolean {
  const file = openSync(path, "r");
  try {
    const start = new Uint8Array(2);
    readSync(file, start, 0, 2, 0);
    return isGzip(start);
  } finally {
    closeSync(file);
  }
}

/** Reads only the header of an IDX file, synchronously; the size of a plain file is checked, too. */
export function readIdxHeader(path: string, maxBytes: number = defaultIdxLimit): IdxHeader {
  try {
    const file = openSync(path, "r");
    try {
      const start = new Uint8Array(startBytes);
      const length = readSync(file, start, 0, startBytes, 0);
      const bytes = start.subarray(0, length);
      if (isGzip(bytes)) return parseIdxHeader(inflatedStart(bytes, path), path, maxBytes);
      const header = parseIdxHeader(bytes, path, maxBytes);
      checkIdxSize(header, fstatSync(file).size, path);
      return header;
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw error instanceof HeddleError ? error : unreadable(path, error);
  }
}

/** The pieces of a file, one after another in the same buffer. */
async function* pieces(handle: FileHandle): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(pieceBytes);
  for (let position = 0; ; ) {
    const { bytesRead } = await handle.read(buffer, 0, pieceBytes, position);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
    position += bytesRead;
  }
}

async function* inflated(handle: FileHandle, path: string): AsyncGenerator<Uint8Array> {
  // A stream may hold on to a piece while the next is read, so each gets a buffer of its own.
  const copies = (async function* () {
    for await (const piece of pieces(handle)) yield Buffer.from(piece);
  })();
  const source = Readable.from(copies);
  const gunzip = createGunzip({ chunkSize: pieceBytes });
  source.on("error", (error) => gunzip.destroy(error));
  source.pipe(gunzip);
  try {
    for await (const piece of gunzip) yield piece as Uint8Array;
  } catch (error) {
    throw zlibProblem(path, error);
  } finally {
    source.destroy();
    gunzip.destroy();
  }
}

/** Inflates the first bytes of a gzipped file. */
function inflatedStart(bytes: Uint8Array, path: string): Uint8Array {
  try {
    return gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH });
  } catch (error) {
    throw zlibProblem(path, error);
  }
}

function zlibProblem(path: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  return code?.startsWith("Z_") ? idxError(path, `its gzip data is damaged (${message})`) : error;
}

function unreadable(path: string, error: unknown): HeddleError {
  const { code, message } = error as NodeJS.ErrnoException;
  const reason = code === "ENOENT" ? "no such file" : code === "EISDIR" ? "it is a folder" : message;
  return new HeddleError("file", `cannot read ${path}: ${reason}`, { cause: error });
}

/** Options of {@link idx}. */
export interface IdxDatasetOptions {
  /** Transform of the images; default for u8 to f32 in [0, 1], for other dtypes none. */
  readonly imageTransform?: Transform;
  /** Transform of the labels; default for integers to i32, for floats none. */
  readonly labelTransform?: Transform;
  /** Largest size of the values of each file in bytes; default 4 GiB. */
  readonly maxBytes?: number;
  /** The dataset's name in messages; default the path of the images. */
  readonly name?: string;
}

/**
 * A dataset of images and labels in two IDX files, plain or gzipped. Column `x` is `[n, 1, height, width]` for images of
 * two dims (other ranks stay as they are) and `y` is `[n]`; both keep the dtype of the files. The headers are read
 * immediately, the values when they are first needed.
 */
export function idx(imagesPath: string, labelsPath: string, options: IdxDatasetOptions = {}): Dataset {
  asRecord("idx", options);
  const images = readIdxHeader(imagesPath, options.maxBytes);
  const labels = readIdxHeader(labelsPath, options.maxBytes);
  if (labels.shape.length !== 1) {
    throw idxError(
      labelsPath,
      `labels have one dim, but its shape is ${formatShape(labels.shape)}`,
      "give the images first",
    );
  }
  if (images.shape[0] !== labels.shape[0]) {
    throw new HeddleError(
      "shape",
      `${imagesPath} holds ${images.shape[0]} images, ${labelsPath} ${labels.shape[0]} labels`,
    );
  }
  const [count, ...rest] = images.shape as [number, ...number[]];
  const shape = rest.length === 2 ? [count, 1, ...rest] : images.shape;
  const imageTransform =
    options.imageTransform ?? (images.dtype === "u8" ? { dtype: "f32", scale: 1 / 255 } : undefined);
  const labelTransform = options.labelTransform ?? (isInteger(labels.dtype) ? { dtype: "i32" } : undefined);
  return fromColumns(options.name ?? imagesPath, [
    fileColumn("x", imagesPath, { ...images, shape }, imageTransform, options.maxBytes),
    fileColumn("y", labelsPath, labels, labelTransform, options.maxBytes),
  ]);
}

function fileColumn(
  name: string,
  path: string,
  header: IdxHeader,
  transform: Transform | undefined,
  maxBytes: number | undefined,
): Column {
  const { shape, dtype, elementBytes, headerBytes } = header;
  // A compressed file has no place for a row: it is read as a whole.
  if (!compressedFile(path)) {
    const short = elementBytes === dtypes[dtype].bytes ? undefined : ("i16" as const);
    const values = { start: headerBytes, dtype, short, bigEndian: true };
    return columnFromRanges({ name, shape, dtype, transform }, fileRanges("idx", path, { shape, ...values }));
  }
  return columnFromLoader({ name, shape: header.shape, dtype: header.dtype, transform }, async () => {
    const read = await readIdx(path, maxBytes === undefined ? {} : { maxBytes });
    if (read.dtype !== header.dtype || read.data.length * read.data.BYTES_PER_ELEMENT !== header.dataBytes) {
      throw new HeddleError("file", `${path} has changed since the dataset was made`);
    }
    return read.data;
  });
}
