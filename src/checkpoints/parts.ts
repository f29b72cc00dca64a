/**
 * @module Writing a checkpoint in parts. Each rank writes one safetensors file with the pieces that it owns, then a receipt that names them
 * with their hashes. When all receipts are there, rank 0 writes the manifest, which commits the checkpoint: before it the folder is no
 * checkpoint, whatever it holds. So ranks do not communicate while a checkpoint is written, and the rule is the same for file systems and
 * for object stores, which cannot rename.
 *
 * File names hold a tag of the writing run, so a step that is written again does not touch the files of the checkpoint that is there.
 */

import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { manifestName } from "../io/checkpoint-name.ts";
import type { CommitContent } from "../io/commit.ts";
import { layoutHeader } from "../io/safetensors.ts";
import { inChunks } from "../io/write.ts";
import type { TensorType } from "../ir/shape.ts";
import type { Description } from "./description.ts";
import {
  type Contents,
  chunkBytes,
  formatContents,
  formatManifest,
  largestManifest,
  parseContents,
  type StoredPiece,
  type StoredTensor,
} from "./manifest.ts";
import type { Box } from "./pieces.ts";
import { below, readSmall, type Storage, type WriteOptions } from "./storage.ts";
import { nativeFiles, type Sums, sumsNatively } from "./verified.ts";

/** A piece of a tensor and its bytes: little-endian, packed, row-major. */
export interface PieceData extends Box {
  /** The name of the tensor. */
  readonly name: string;
  /** The type of the whole tensor. */
  readonly type: TensorType;
  readonly bytes: Uint8Array;
}

/** The folder of one checkpoint while it is written. */
export interface PartsPlace {
  readonly storage: Storage;
  /** The name of the folder. */
  readonly folder: string;
  /** Marks the files of this write: 1 to 32 of `0-9 a-z`. */
  readonly tag: string;
  /** Number of ranks that write. */
  readonly ranks: number;
}

const padded = (count: number): string => String(count).padStart(5, "0");
const stemOf = ({ ranks, tag }: PartsPlace, rank: number): string => `part-${padded(rank)}-of-${padded(ranks)}-${tag}`;

/** `weight`, or for a part of the tensor `weight[0:2,4:8]`: the name of a piece in its file. */
const pieceName = ({ name, type, start, shape }: PieceData): string =>
  shape.every((size, dim) => size === type.shape[dim])
    ? name
    : `${name}[${start.map((first, dim) => `${first}:${first + (shape[dim] as number)}`).join(",")}]`;

/**
 * Writes the file and the receipt of one rank.
 *
 * Where native code loads, it makes the sums of the pieces while they are written; else they are hashed on this thread, chunk by chunk.
 *
 * @throws HeddleError `disk` or `file`; the reason of the signal
 */
export async function writePart(
  place: PartsPlace,
  rank: number,
  pieces: readonly PieceData[],
  options: WriteOptions = {},
): Promise<void> {
  const { storage, folder } = place;
  const stem = stemOf(place, rank);
  const native = pieces.length === 0 ? undefined : nativeFiles();
  const data = pieces.map(({ bytes }) => bytes);
  const summing = native === undefined ? undefined : sumsNatively(native, data, chunkBytes);
  // Who awaits it gets the error.
  summing?.catch(() => undefined);
  const { content, contents } = partContent(`${stem}.safetensors`, pieces, summing !== undefined);
  if (pieces.length > 0) await storage.write(`${folder}/${stem}.safetensors`, content, options);
  await storage.write(`${folder}/${stem}.json`, textContent(formatContents(contents(await summing))), options);
}

/** The bytes of a part, and what it holds once they have been taken: with the sums of the pieces, in their order, if `summed` says that others make them. */
export function partContent(
  file: string,
  pieces: readonly PieceData[],
  summed = false,
): { readonly content: CommitContent; readonly contents: (sums?: readonly Sums[]) => Contents } {
  const byName = new Map(pieces.map((piece) => [pieceName(piece), piece]));
  const types = new Map(
    [...byName].map(([name, { type, shape }]): [string, TensorType] => [name, { dtype: type.dtype, shape }]),
  );
  const { header, names, bytes } = layoutHeader(types);
  const stored = new Map<string, StoredPiece>();
  const order = new Map(pieces.map((piece, index) => [pieceName(piece), index]));
  function* chunks(): Generator<Uint8Array> {
    yield* inChunks(header);
    let offset = header.length;
    for (const name of names) {
      const { start, shape, bytes: data } = byName.get(name) as PieceData;
      const hashes: string[] = [];
      // An empty piece has the hash of no bytes.
      for (let first = 0; first === 0 || first < data.length; first += chunkBytes) {
        const chunk = data.subarray(first, first + chunkBytes);
        if (summed) {
          yield chunk;
          continue;
        }
        const hash = createHash("sha256");
        for (const some of inChunks(chunk)) {
          hash.update(some);
          yield some;
        }
        hashes.push(hash.digest("hex"));
      }
      stored.set(name, { file, name, start, shape, offset, bytes: data.length, sha256: hashes });
      offset += data.length;
    }
  }
  const contents = (sums: readonly Sums[] = []): Contents => {
    const tensors = new Map<string, StoredTensor>();
    for (const [name, piece] of stored) {
      const { name: tensor, type } = byName.get(name) as PieceData;
      const before = tensors.get(tensor)?.pieces ?? [];
      tensors.set(tensor, { ...type, pieces: [...before, { ...piece, ...sums[order.get(name) as number] }] });
    }
    const sha256 = createHash("sha256").update(header).digest("hex");
    const files = pieces.length === 0 ? [] : [[file, { bytes, header: header.length, sha256 }] as const];
    return { files: new Map(files), tensors };
  };
  return { content: { bytes, chunks: chunks() }, contents };
}

function textContent(text: string): CommitContent {
  const bytes = Buffer.from(text);
  return { bytes: bytes.length, chunks: inChunks(bytes) };
}

/** How often a rank looks for the receipts of the others, in milliseconds. */
const firstLook = 5;
const longestLook = 250;

/**
 * Waits for the receipts of all ranks, and commits the checkpoint; then removes from its folder what the checkpoint does not need.
 * Only rank 0 calls this function. A rank whose part failed writes no receipt: then the signal must end the wait.
 *
 * @returns bytes of the files
 * @throws HeddleError `checkpoint` if a receipt is damaged or pieces are missing, `disk` or `file`; the reason of the signal
 */
export async function commitParts(
  place: PartsPlace,
  description: Description,
  options: WriteOptions = {},
): Promise<{ readonly bytes: number }> {
  const { storage, folder, ranks } = place;
  const receipts = Array.from({ length: ranks }, (_unused, rank) => `${stemOf(place, rank)}.json`);
  for (let pause = firstLook; ; pause = Math.min(2 * pause, longestLook)) {
    options.signal?.throwIfAborted();
    const there = new Set(await storage.list(folder));
    if (receipts.every((name) => there.has(name))) break;
    await sleep(pause, undefined, options.signal === undefined ? {} : { signal: options.signal }).catch(
      () => undefined,
    );
  }
  const contents = await merged(place, receipts);
  await storage.write(`${folder}/${manifestName}`, textContent(formatManifest(description, contents)), options);
  const needed = new Set([manifestName, ...contents.files.keys()]);
  for (const name of await storage.list(folder)) if (!needed.has(name)) await storage.remove(`${folder}/${name}`);
  return { bytes: [...contents.files.values()].reduce((sum, file) => sum + file.bytes, 0) };
}

/** The contents that all receipts name together, tensors in the order of their names. */
async function merged({ storage, folder }: PartsPlace, receipts: readonly string[]): Promise<Contents> {
  const files = new Map<string, Contents["files"] extends ReadonlyMap<string, infer File> ? File : never>();
  const tensors = new Map<string, StoredTensor>();
  for (const name of receipts) {
    const text = new TextDecoder().decode(await readSmall(storage, `${folder}/${name}`, largestManifest));
    const contents = parseContents(text, below(storage.place, `${folder}/${name}`));
    for (const [file, part] of contents.files) files.set(file, part);
    for (const [tensor, { pieces, ...type }] of contents.tensors)
      tensors.set(tensor, { ...type, pieces: [...(tensors.get(tensor)?.pieces ?? []), ...pieces] });
  }
  return { files, tensors: new Map([...tensors].sort(([left], [right]) => (left < right ? -1 : 1))) };
}

/** Removes a checkpoint in parts, its manifest first: what a kill leaves is no checkpoint. */
export async function removeParts(storage: Storage, folder: string): Promise<void> {
  await storage.remove(`${folder}/${manifestName}`);
  await storage.remove(folder);
}
