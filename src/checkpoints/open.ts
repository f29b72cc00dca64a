/** @module Opening a checkpoint, in one file or in parts: what it says, and its values, read and verified on request. */

import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { checkpointFolderStep, checkpointStep, manifestName } from "../io/checkpoint-name.ts";
import type { HostTensor, HostTensors } from "../io/safetensors.ts";
import { dtypes } from "../ir/dtype.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import type { Description } from "./description.ts";
import { isLocal, openStorage } from "./drivers.ts";
import { openFileCheckpoint } from "./file.ts";
import { largestManifest, type Manifest, parseManifest, type StoredPiece, type StoredTensor } from "./manifest.ts";
import { type Box, sharedRuns, wholeBox } from "./pieces.ts";
import { below, readSmall, type Storage, type StoredFile } from "./storage.ts";
import type { OpenCheckpoint } from "./types.ts";

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

/** An open checkpoint in parts. */
export class PartsCheckpoint implements OpenCheckpoint {
  readonly path: string;
  readonly description: Description;
  readonly entries: ReadonlyMap<string, TensorType>;
  readonly manifest: Manifest;
  private readonly storage: Storage;
  private readonly signal: AbortSignal | undefined;
  private readonly files = new Map<string, Promise<StoredFile>>();

  constructor(storage: Storage, manifest: Manifest, signal: AbortSignal | undefined) {
    this.storage = storage;
    this.path = storage.place;
    this.manifest = manifest;
    this.description = manifest.description;
    this.signal = signal;
    this.entries = new Map([...manifest.tensors].map(([name, { dtype, shape }]) => [name, { dtype, shape }]));
  }

  async readBytes(name: string, box?: Box, into?: Uint8Array): Promise<Uint8Array> {
    const tensor = this.manifest.tensors.get(name);
    if (tensor === undefined) throw new HeddleError("argument", `${this.path} has no tensor "${name}"`);
    const wanted = box ?? wholeBox(tensor.shape);
    const elementBytes = dtypes[tensor.dtype].bytes;
    const bytes = sizeOf(wanted.shape) * elementBytes;
    // The pieces of a manifest cover their tensor.
    const target = into !== undefined && into.length >= bytes ? into.subarray(0, bytes) : new Uint8Array(bytes);
    for (const piece of tensor.pieces) await this.copyPiece(name, piece, wanted, elementBytes, target);
    if (tensor.dtype === "bool" && target.some((value) => value > 1))
      throw new HeddleError("checkpoint", `${this.path}: tensor "${name}" is BOOL, but holds bytes other than 0 and 1`);
    return target;
  }

  async read(name: string): Promise<HostTensor> {
    const bytes = await this.readBytes(name);
    const { dtype, shape } = this.manifest.tensors.get(name) as StoredTensor;
    return { dtype, shape, data: dtypes[dtype].view(bytes.buffer as ArrayBuffer, 0, sizeOf(shape)) };
  }

  /** Copies what a piece and a box share: only the chunks with these bytes are read, and each is verified. */
  private async copyPiece(name: string, piece: StoredPiece, wanted: Box, elementBytes: number, target: Uint8Array) {
    const { chunk } = this.manifest;
    let index = -1;
    let bytes = new Uint8Array();
    let verify = (): void => {};
    for (const run of sharedRuns(piece, wanted, elementBytes)) {
      for (let done = 0; done < run.bytes; ) {
        const at = run.from + done;
        const wantedIndex = Math.floor(at / chunk);
        const start = at - wantedIndex * chunk;
        const size = Math.min(chunk, piece.bytes - wantedIndex * chunk);
        const length = Math.min(run.bytes - done, size - start);
        if (length === size) {
          // A whole chunk is read into its place, while the one before it is hashed.
          const reading = this.chunkOf(piece, wantedIndex, target.subarray(run.to + done, run.to + done + size));
          reading.catch(() => undefined);
          verify();
          const found = await reading;
          verify = () => this.check(name, piece, wantedIndex, found);
        } else {
          if (wantedIndex !== index) {
            index = wantedIndex;
            if (bytes.length < size) bytes = new Uint8Array(size);
            this.check(name, piece, index, await this.chunkOf(piece, index, bytes.subarray(0, size)));
          }
          target.set(bytes.subarray(start, start + length), run.to + done);
        }
        done += length;
      }
    }
    verify();
  }

  /** Reads a chunk of a piece into `target`, which has its size. */
  private async chunkOf(piece: StoredPiece, index: number, target: Uint8Array): Promise<Uint8Array> {
    const file = await this.opened(piece.file);
    const bytes = await file.read(piece.offset + index * this.manifest.chunk, target.length, this.signal, target);
    if (bytes !== target) target.set(bytes);
    return target;
  }

  private check(name: string, piece: StoredPiece, index: number, bytes: Uint8Array): void {
    if (createHash("sha256").update(bytes).digest("hex") === piece.sha256[index]) return;
    throw new HeddleError("checkpoint", `${below(this.path, piece.file)}: tensor "${name}" does not match its SHA-256`);
  }

  /** Verifies everything, also what nobody would read. @throws HeddleError `checkpoint`, `format` or `file` naming what is damaged */
  async verify(): Promise<void> {
    for (const [name, { header, sha256 }] of this.manifest.files) {
      const bytes = await (await this.opened(name)).read(0, header, this.signal);
      if (createHash("sha256").update(bytes).digest("hex") !== sha256)
        throw new HeddleError("checkpoint", `${below(this.path, name)}: its header does not match its SHA-256`);
    }
    const { chunk, tensors } = this.manifest;
    let buffer = new Uint8Array();
    for (const [name, { pieces }] of tensors)
      for (const piece of pieces)
        for (let index = 0; index < piece.sha256.length; index++) {
          const size = Math.min(chunk, piece.bytes - index * chunk);
          if (buffer.length < size) buffer = new Uint8Array(size);
          this.check(name, piece, index, await this.chunkOf(piece, index, buffer.subarray(0, size)));
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
    const { bytes } = this.manifest.files.get(name) as { bytes: number };
    if (file.bytes === bytes) return file;
    await file.close();
    throw new HeddleError("checkpoint", `${below(this.path, name)} has ${file.bytes} bytes, not ${bytes}`);
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
