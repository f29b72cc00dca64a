/**
 * @module The manifest of a checkpoint in parts, `manifest.json`: what the run was at, and for each tensor the files that have its
 * pieces, with byte offsets and hashes. A folder is a checkpoint if its manifest is there and matches its own SHA-256, which is computed
 * with zeros in the place of its digits.
 */
import { createHash } from "node:crypto";
import { largestRank } from "../io/host-tensors.ts";
import { dtypeSpelled, spelledDType } from "../io/safetensors.ts";
import { type DType, dtypes } from "../ir/dtype.ts";
import { type Shape, sizeOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { isRecord } from "../util/tree.ts";
import { version } from "../util/version.ts";
import { checkedDescription, type Description, onlyFinite, problemOf } from "./description.ts";
import type { Box } from "./pieces.ts";

/** The most bytes of a manifest that is read. */
export const largestManifest = 2 ** 28;
/** Bytes of a piece that have one hash. A reader of a few bytes reads and verifies whole chunks. */
export const chunkBytes = 2 ** 22;

const formatVersion = 3;
const blank = "0".repeat(64);

/** A piece of a tensor in a file. */
export interface StoredPiece extends Box {
  /** The file's name in the folder. */
  readonly file: string;
  /** The name of the piece in the file. */
  readonly name: string;
  /** The first byte, counted from the start of the file. */
  readonly offset: number;
  readonly bytes: number;
  /** The SHA-256 of each chunk of its bytes, in hexadecimal digits. */
  readonly sha256: readonly string[];
  /** The CRC32C of each chunk, by which a load finds damage in a third of the time; absent where no native code wrote it. */
  readonly crc32c?: readonly number[];
}

/** A tensor and its pieces. */
export interface StoredTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly pieces: readonly StoredPiece[];
}

/** A file of a checkpoint, and the SHA-256 of its header. */
export interface PartFile {
  readonly bytes: number;
  readonly header: number;
  readonly sha256: string;
}

/** What the folder of a checkpoint holds. */
export interface Contents {
  readonly files: ReadonlyMap<string, PartFile>;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
}

/** A manifest that has been read and verified. */
export interface Manifest extends Contents {
  readonly description: Description;
  /** Bytes of a piece that have one hash. */
  readonly chunk: number;
}

/** The text of a manifest. @throws HeddleError `checkpoint` if the pieces are not all there, or something cannot be kept */
export function formatManifest(given: Description, { files, tensors }: Contents): string {
  for (const [name, tensor] of tensors) {
    const problem = tilingProblem(tensor);
    if (problem !== undefined) throw new HeddleError("checkpoint", `cannot save a checkpoint: ${name} ${problem}`);
  }
  const { library, ...description } = checkedDescription(given);
  const lines = [
    `"heddle.manifest":${formatVersion}`,
    `"sha256":"${blank}"`,
    `"library":${JSON.stringify(library)}`,
    ...Object.entries(description).map(
      ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value, onlyFinite)}`,
    ),
    `"chunk":${chunkBytes}`,
    `"files":${formatFiles(files)}`,
    `"tensors":${formatTensors(tensors)}`,
  ];
  const text = `{\n${lines.join(",\n")}\n}\n`;
  return text.replace(blank, createHash("sha256").update(text).digest("hex"));
}

const inLines = (entries: readonly string[]): string =>
  entries.length === 0 ? "{}" : `{\n  ${entries.join(",\n  ")}\n}`;

const formatFiles = (files: Contents["files"]): string =>
  inLines([...files].map(([name, file]) => `${JSON.stringify(name)}:${JSON.stringify(file)}`));

/** Tensors and their pieces as JSON, a line each. */
const formatTensors = (tensors: Contents["tensors"]): string =>
  inLines(
    [...tensors].map(([name, { dtype, shape, pieces }]) => {
      const entry = { dtype: spelledDType(dtype), shape, pieces };
      return `${JSON.stringify(name)}:${JSON.stringify(entry)}`;
    }),
  );

/** What one rank has written, as JSON; {@link parseContents} reads it. */
export const formatContents = ({ files, tensors }: Contents): string =>
  `{"files":${formatFiles(files)},"tensors":${formatTensors(tensors)}}\n`;

/** The contents in a text of {@link formatContents}; pieces may be missing. @throws HeddleError `checkpoint` */
export const parseContents = (text: string, where: string): Contents => contentsOf(parsed(text, where), where, false);

/**
 * Reads and verifies a manifest. `where` is its place in messages.
 *
 * @throws HeddleError `checkpoint` if it is damaged, `version` if a newer version of Heddle wrote it
 */
export function parseManifest(text: string, where: string): Manifest {
  const fields = parsed(text, where);
  const { "heddle.manifest": format, sha256, chunk, files: _files, tensors: _tensors, ...description } = fields;
  if (Number.isSafeInteger(format) && (format as number) > formatVersion)
    throw new HeddleError(
      "version",
      `${where} has checkpoint format ${format}, this Heddle (${version}) reads up to ${formatVersion}`,
      { hint: `use the Heddle that wrote it: ${String(description["library"] ?? "a newer one")}` },
    );
  if (format !== formatVersion) throw malformed(where, "it has no format version");
  const digits = typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256) ? sha256 : "";
  const start = text.indexOf(`"sha256":"${digits}"`) + '"sha256":"'.length;
  const zeroed = `${text.slice(0, start)}${blank}${text.slice(start + blank.length)}`;
  if (digits === "" || createHash("sha256").update(zeroed).digest("hex") !== digits)
    throw malformed(where, "its content does not match its SHA-256");
  const problem = problemOf(description as Partial<Description>);
  if (problem !== undefined) throw malformed(where, problem);
  if (!isCount(chunk) || chunk === 0) throw malformed(where, `its chunk is ${String(chunk)}`);
  const contents = contentsOf(fields, where, true);
  for (const [name, { pieces }] of contents.tensors)
    for (const { bytes, sha256, crc32c = sha256 } of pieces)
      for (const { length } of [sha256, crc32c])
        if (length !== Math.max(1, Math.ceil(bytes / chunk)))
          throw malformed(where, `${name} has ${length} hashes for ${bytes} bytes`);
  return { description: checkedDescription(description as unknown as Description), chunk, ...contents };
}

const malformed = (where: string, problem: string): HeddleError =>
  new HeddleError("checkpoint", `${where} is not a whole manifest: ${problem}`);

type Fields = { readonly [name: string]: unknown };

function parsed(text: string, where: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed(where, "it is not JSON");
  }
  if (!isRecord(value)) throw malformed(where, "it is not an object");
  return value as Fields;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isCounts = (value: unknown): value is number[] => Array.isArray(value) && value.every(isCount);
const isSums = (value: unknown): boolean => isCounts(value) && value.every((sum) => sum < 2 ** 32);
const isDigest = (value: unknown): value is string => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
/** The name of a file directly in the folder. */
const isFileName = (value: unknown): value is string =>
  typeof value === "string" && /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(value);

function contentsOf(fields: Fields, where: string, whole: boolean): Contents {
  const { files: givenFiles, tensors: givenTensors } = fields;
  if (!isRecord(givenFiles) || !isRecord(givenTensors)) throw malformed(where, "it lacks files or tensors");
  const files = new Map(
    Object.entries(givenFiles as Fields).map(([name, file]): [string, PartFile] => {
      const { bytes, header, sha256 } = (file ?? {}) as Fields;
      if (!isFileName(name) || !isCount(bytes) || !isCount(header) || header > bytes || !isDigest(sha256))
        throw malformed(where, `the file ${JSON.stringify(name)} is not { bytes, header, sha256 }`);
      return [name, { bytes, header, sha256 }];
    }),
  );
  const tensors = new Map(
    Object.entries(givenTensors as Fields).map(([name, value]): [string, StoredTensor] => {
      const tensor = tensorOf(value, files);
      const problem = typeof tensor === "string" ? tensor : whole ? tilingProblem(tensor) : undefined;
      if (problem !== undefined) throw malformed(where, `the tensor ${JSON.stringify(name)} ${problem}`);
      return [name, tensor as StoredTensor];
    }),
  );
  return { files, tensors };
}

/** A tensor of a manifest, or what is wrong with it. */
function tensorOf(value: unknown, files: Contents["files"]): StoredTensor | string {
  const { dtype: spelling, shape, pieces } = (value ?? {}) as Fields;
  const dtype = dtypeSpelled(String(spelling));
  if (dtype === undefined) return `has the dtype ${String(spelling)}`;
  if (!isCounts(shape) || shape.length > largestRank) return `has no shape of at most ${largestRank} sizes`;
  if (!Array.isArray(pieces)) return "has no pieces";
  const elementBytes = dtypes[dtype].bytes;
  for (const piece of pieces as readonly unknown[]) {
    const { file, name, start, shape: sizes, offset, bytes, sha256, crc32c } = (piece ?? {}) as Fields;
    const holder = files.get(String(file));
    if (holder === undefined) return `has a piece in ${JSON.stringify(file)}, which is not one of the files`;
    if (typeof name !== "string" || !isCounts(start) || !isCounts(sizes) || !isCount(offset) || !isCount(bytes))
      return "has a piece that is not { file, name, start, shape, offset, bytes, sha256 }";
    const inside =
      start.length === shape.length &&
      sizes.length === shape.length &&
      start.every((first, dim) => first + (sizes[dim] as number) <= (shape[dim] as number));
    if (!inside) return `has a piece at [${start}] of sizes [${sizes}], outside of [${shape}]`;
    if (bytes !== sizeOf(sizes) * elementBytes || offset < holder.header || offset + bytes > holder.bytes)
      return `has a piece of ${bytes} bytes at ${offset} of ${file}, which does not fit`;
    if (!Array.isArray(sha256) || sha256.length === 0 || !sha256.every(isDigest)) return "has a piece without hashes";
    if (crc32c !== undefined && !isSums(crc32c)) return "has a piece whose CRC32C are not whole numbers below 2^32";
  }
  return { dtype, shape, pieces: pieces as readonly StoredPiece[] };
}

/** Why the pieces of a tensor do not make it up; undefined if they do, each element once. */
function tilingProblem({ shape, pieces }: StoredTensor): string | undefined {
  const elements = pieces.reduce((sum, piece) => sum + sizeOf(piece.shape), 0);
  if (elements !== sizeOf(shape) || pieces.length === 0)
    return `has pieces of ${elements} elements, not of ${sizeOf(shape)}`;
  const overlap = pieces.some((left, index) => pieces.slice(index + 1).some((right) => overlaps(left, right)));
  return overlap ? "has pieces that overlap" : undefined;
}

const overlaps = (left: Box, right: Box): boolean =>
  left.start.every((start, dim) => {
    const [other, size, otherSize] = [right.start[dim], left.shape[dim], right.shape[dim]] as [number, number, number];
    return start < other + otherSize && other < start + size;
  });
