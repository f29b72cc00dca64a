/** @module Opening a checkpoint, in one file or in parts: what it says, and its values, read and verified on request. */

import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { NativeBinding, NativeBuffer } from "../executors/native/binding.ts";
import { checkpointFolderStep, checkpointStep, manifestName } from "../io/checkpoint-name.ts";
import type { HostTensor, HostTensors } from "../io/safetensors.ts";
import { dtypes } from "../ir/dtype.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import { HeddleError } from "../util/errors.ts";
import type { Description } from "./description.ts";
import { isLocal, openStorage } from "./drivers.ts";
import { openFileCheckpoint } from "./file.ts";
import {
  largestManifest,
  type Manifest,
  type PartFile,
  parseManifest,
  type StoredPiece,
  type StoredTensor,
} from "./manifest.ts";
import { type Box, type ChunkRead, chunkReads, wholeBox } from "./pieces.ts";
import { below, readSmall, type Storage, type StoredFile } from "./storage.ts";
import type { OpenCheckpoint } from "./types.ts";
import { nativeFiles, nativeMemory, readHere, readNatively, type VerifiedRead } from "./verified.ts";

/** How a checkpoint is read. */
export interface OpenOptions {
  /** Ends the reading by throwing the signal's reason. */
  readonly signal?: AbortSignal;
}

/**
 * Opens a checkpoint: a file, a folder of parts or its manifest, or the address of such a folder.
 *
 * @throws HeddleError `checkpoint` or `format` if it is damaged or not a checkpoint, `version` if a newer version of Heddle wrote it,
 * `file` if it cannot be read
 */
export async function openCheckpoint(place: string, options: OpenOptions = {}): Promise<OpenCheckpoint> {
  const isFolder =
    !isLocal(place) ||
    (await stat(place).then(
      (found) => found.isDirectory(),
      () => false,
    ));
  if (isFolder) return openParts(await openStorage(place), options);
  if (place.endsWith(`/${manifestName}`)) return openParts(await openStorage(dirname(resolve(place))), options);
  return openFileCheckpoint(place, options);
}

/** Opens a checkpoint in parts. */
export async function openParts(storage: Storage, { signal }: OpenOptions = {}): Promise<PartsCheckpoint> {
  const where = below(storage.place, manifestName);
  const text = await readSmall(storage, manifestName, largestManifest).catch((error: unknown) => {
    const missing = (error as { cause?: { code?: string } }).cause?.code === "ENOENT";
    if (!missing) throw error;
    throw new HeddleError("file", `${storage.place} is not a checkpoint: it has no ${manifestName}`, {
      cause: (error as Error).cause,
      hint: "name the folder of a step; a folder that a killed run left unfinished has no manifest",
    });
  });
  return new PartsCheckpoint(storage, parseManifest(new TextDecoder().decode(text), where), signal);
}

/** Bytes, and runs of bytes, that are read by one call: a signal ends the reading between two. */
const mostBytes = 2 ** 26;
const mostRuns = 2 ** 17;

/** Chunks in groups for one call each. */
function* inTurns(chunks: Iterable<ChunkRead>): Generator<readonly ChunkRead[]> {
  let some: ChunkRead[] = [];
  let [bytes, runs] = [0, 0];
  for (const read of chunks) {
    some.push(read);
    bytes += read.bytes;
    runs += read.runs.length;
    if (bytes < mostBytes && runs < mostRuns) continue;
    yield some;
    some = [];
    [bytes, runs] = [0, 0];
  }
  if (some.length > 0) yield some;
}

/** An open checkpoint in parts. */
export class PartsCheckpoint implements OpenCheckpoint {
  readonly path: string;
  readonly description: Description;
  readonly entries: ReadonlyMap<string, TensorType>;
  readonly manifest: Manifest;
  readonly readInto?: NonNullable<OpenCheckpoint["readInto"]>;
  private readonly native: NativeBinding | undefined;
  private readonly storage: Storage;
  private readonly signal: AbortSignal | undefined;
  private readonly files = new Map<string, Promise<StoredFile>>();

  constructor(storage: Storage, manifest: Manifest, signal: AbortSignal | undefined) {
    this.storage = storage;
    this.path = storage.place;
    this.manifest = manifest;
    this.description = manifest.description;
    this.signal = signal;
    this.native = storage.folder === undefined ? undefined : nativeFiles();
    if (this.native !== undefined) this.readInto = (name, box, buffer) => this.readMemory(name, box, buffer);
    this.entries = new Map([...manifest.tensors].map(([name, { dtype, shape }]) => [name, { dtype, shape }]));
  }

  async readBytes(name: string, box?: Box, into?: Uint8Array): Promise<Uint8Array> {
    const tensor = this.tensor(name);
    const wanted = box ?? wholeBox(tensor.shape);
    const bytes = sizeOf(wanted.shape) * dtypes[tensor.dtype].bytes;
    // The pieces of a manifest cover their tensor.
    const target = into !== undefined && into.length >= bytes ? into.subarray(0, bytes) : new Uint8Array(bytes);
    await this.fill(name, wanted, target);
    if (tensor.dtype === "bool" && target.some((value) => value > 1))
      throw new HeddleError("checkpoint", `${this.path}: tensor "${name}" is BOOL, but holds bytes other than 0 and 1`);
    return target;
  }

  private async readMemory(name: string, box: Box, buffer: DeviceBuffer): Promise<boolean> {
    const memory = nativeMemory(buffer);
    const { dtype } = this.tensor(name);
    // The bytes of booleans are looked at.
    if (memory === undefined || dtype === "bool") return false;
    return this.fill(name, box, memory);
  }

  private tensor(name: string): StoredTensor {
    const tensor = this.manifest.tensors.get(name);
    if (tensor === undefined) throw new HeddleError("argument", `${this.path} has no tensor "${name}"`);
    return tensor;
  }

  async read(name: string): Promise<HostTensor> {
    const bytes = await this.readBytes(name);
    const { dtype, shape } = this.manifest.tensors.get(name) as StoredTensor;
    return { dtype, shape, data: dtypes[dtype].view(bytes.buffer as ArrayBuffer, 0, sizeOf(shape)) };
  }

  /** Fills memory with a box of a value: only chunks with bytes of it are read, and each is verified. False if native memory could not be read into. */
  private async fill(name: string, wanted: Box, target: Uint8Array | NativeBuffer): Promise<boolean> {
    const { pieces, dtype } = this.tensor(name);
    const { chunk } = this.manifest;
    for (const piece of pieces)
      for (const some of inTurns(chunkReads(piece, wanted, dtypes[dtype].bytes, chunk)))
        if (!(await this.take(name, piece, some, target))) return false;
    return true;
  }

  /** Reads chunks of a piece and verifies them, `quick` by CRC32C where that is known. */
  private async take(
    name: string,
    piece: StoredPiece,
    chunks: readonly ChunkRead[],
    target: Uint8Array | NativeBuffer,
    quick = true,
  ): Promise<boolean> {
    this.signal?.throwIfAborted();
    const crc32c = quick ? piece.crc32c : undefined;
    const reads = chunks.map((read): VerifiedRead => {
      const offset = piece.offset + read.index * this.manifest.chunk;
      return { ...read, offset, sha256: piece.sha256[read.index] as string, crc32c: crc32c?.[read.index] };
    });
    const file = await this.opened(piece.file);
    const differs = (read: VerifiedRead | undefined, sum: string): void => {
      if (read === undefined) return;
      const where = below(this.path, piece.file);
      throw new HeddleError("checkpoint", `${where}: tensor "${name}" does not match its ${sum}`);
    };
    const { native } = this;
    const { folder } = this.storage;
    if (native !== undefined && folder !== undefined) {
      const outcome = await readNatively(native, join(folder, piece.file), reads, target).then(
        (read) => ({ read }),
        () => undefined,
      );
      if (outcome !== undefined) {
        differs(outcome.read, crc32c === undefined ? "SHA-256" : "CRC32C");
        return true;
      }
    }
    if (!(target instanceof Uint8Array)) return false;
    differs(await readHere(file, reads, target, this.signal), "SHA-256");
    return true;
  }

  /** Verifies everything by all sums, also what nobody would read. @throws HeddleError `checkpoint`, `format` or `file` naming what is damaged */
  async verify(): Promise<void> {
    for (const name of this.manifest.files.keys()) await this.opened(name);
    const { chunk, tensors } = this.manifest;
    for (const [name, { pieces }] of tensors)
      for (const piece of pieces) {
        const all = piece.sha256.map((_unused, index) => ({
          index,
          bytes: Math.min(chunk, piece.bytes - index * chunk),
          runs: [],
        }));
        const kinds = this.native === undefined || piece.crc32c === undefined ? [false] : [true, false];
        for (const some of inTurns(all))
          for (const quick of kinds) await this.take(name, piece, some, new Uint8Array(), quick);
      }
  }

  private opened(name: string): Promise<StoredFile> {
    const known = this.files.get(name);
    if (known !== undefined) return known;
    const opening = this.openPart(name);
    this.files.set(name, opening);
    // Who awaits it gets the error.
    opening.catch(() => undefined);
    return opening;
  }

  private async openPart(name: string): Promise<StoredFile> {
    const file = await this.storage.open(name).catch((error: unknown) => {
      const missing = (error as { cause?: { code?: string } }).cause?.code === "ENOENT";
      throw missing
        ? new HeddleError("checkpoint", `${this.path} is not whole: ${name} is missing`, { cause: error })
        : error;
    });
    try {
      await this.checkHeader(name, file);
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** The values come by the manifest, but other readers go by the header. */
  private async checkHeader(name: string, file: StoredFile): Promise<void> {
    const { bytes, header, sha256 } = this.manifest.files.get(name) as PartFile;
    const where = below(this.path, name);
    if (file.bytes !== bytes) throw new HeddleError("checkpoint", `${where} has ${file.bytes} bytes, not ${bytes}`);
    const found = await file.read(0, header, this.signal);
    if (createHash("sha256").update(found).digest("hex") !== sha256)
      throw new HeddleError("checkpoint", `${where}: its header does not match its SHA-256`);
  }

  async close(): Promise<void> {
    const files = await Promise.allSettled(this.files.values());
    this.files.clear();
    for (const file of files) if (file.status === "fulfilled") await file.value.close();
  }
}

/** A checkpoint with all its values, read and verified. */
export interface Checkpoint extends Description {
  /** Absolute path of the file or folder, or its address. */
  readonly path: string;
  /** The values, named `params/…`, `optimizer/…`, `state/…`. */
  readonly tensors: HostTensors;
}

/**
 * Reads and verifies a whole checkpoint, in one file or in parts.
 *
 * @throws HeddleError as {@link openCheckpoint}
 */
export async function loadCheckpoint(path: string, options: OpenOptions = {}): Promise<Checkpoint> {
  const checkpoint = await openCheckpoint(path, options);
  try {
    const tensors = new Map<string, HostTensor>();
    for (const name of checkpoint.entries.keys()) tensors.set(name, await checkpoint.read(name));
    return { path: checkpoint.path, tensors, ...checkpoint.description };
  } finally {
    await checkpoint.close();
  }
}

/** The error of a checkpoint whose name says another step; undefined for a right one, and for other names. */
export function stepProblem({
  path,
  description,
}: Pick<OpenCheckpoint, "path" | "description">): HeddleError | undefined {
  const name = path.split(/[\\/]/).at(-1) ?? "";
  const named = checkpointStep(name) ?? checkpointFolderStep(name);
  if (named === undefined || named === description.step) return undefined;
  return new HeddleError("checkpoint", `${path} is of step ${description.step}, not of the step in its name`);
}
