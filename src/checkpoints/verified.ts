/** @module Chunks of a part's file: written with their sums, read to where they are needed and compared with them; in native code, off the event loop, where it loads. */
import { createHash } from "node:crypto";
import { loadNative, type NativeBinding, type NativeBuffer } from "../executors/native/binding.ts";
import { NativeMemory } from "../executors/native/memory.ts";
import type { DeviceBuffer } from "../runtime/executor.ts";
import type { ChunkRead } from "./pieces.ts";
import type { StoredFile } from "./storage.ts";

/** A chunk to read: where it is in its file, and its sums. */
export interface VerifiedRead extends ChunkRead {
  readonly offset: number;
  /** SHA-256 in hexadecimal digits. */
  readonly sha256: string;
  /** Absent where it is unknown, and where the SHA-256 shall be compared. */
  readonly crc32c?: number | undefined;
}

/** The sums of the chunks of a piece. */
export interface Sums {
  /** In hexadecimal digits. */
  readonly sha256: readonly string[];
  readonly crc32c: readonly number[];
}

/** The native core; undefined where it does not load. */
export function nativeFiles(): NativeBinding | undefined {
  const native = loadNative();
  return "error" in native ? undefined : native;
}

/** The native memory of a buffer; undefined if it has none. */
export const nativeMemory = (buffer: DeviceBuffer): NativeBuffer | undefined =>
  buffer instanceof NativeMemory ? buffer.native : undefined;

const digestBytes = 32;
const sumBytes = digestBytes + 4;

/** The sums of pieces of a file, computed in native code. The pieces must not change meanwhile. */
export async function sumsNatively(
  native: NativeBinding,
  pieces: readonly Uint8Array[],
  chunk: number,
): Promise<readonly Sums[]> {
  const all = Buffer.from(await native.sumsOf(pieces, chunk));
  let at = 0;
  return pieces.map(({ length }) => {
    const [sha256, crc32c]: [string[], number[]] = [[], []];
    for (let first = 0; first === 0 || first < length; first += chunk, at += sumBytes) {
      sha256.push(all.toString("hex", at, at + digestBytes));
      crc32c.push(all.readUInt32LE(at + digestBytes));
    }
    return { sha256, crc32c };
  });
}

/**
 * Reads chunks in native code, and compares CRC32C if all have it, else SHA-256. Resolves to the first one with another sum, whose bytes may be in the target; undefined if all have theirs.
 * Rejects where a file cannot be read: {@link readHere} gives the reason.
 */
export async function readNatively(
  native: NativeBinding,
  path: string,
  reads: readonly VerifiedRead[],
  target: NativeBuffer | Uint8Array,
): Promise<VerifiedRead | undefined> {
  const chunks = Float64Array.from(reads.flatMap(({ offset, bytes, runs }) => [offset, bytes, runs.length]));
  const runs = new Float64Array(3 * reads.reduce((sum, read) => sum + read.runs.length, 0));
  let at = 0;
  for (const read of reads)
    for (const { from, to, bytes } of read.runs) {
      runs.set([from, to, bytes], at);
      at += 3;
    }
  const quick = reads.flatMap(({ crc32c }) => crc32c ?? []);
  const expected =
    quick.length === reads.length
      ? new Uint8Array(Uint32Array.from(quick).buffer)
      : Buffer.from(reads.map(({ sha256 }) => sha256).join(""), "hex");
  return reads[await native.readVerified(path, chunks, runs, expected, target)];
}

/** The same on this thread, by SHA-256: one chunk is hashed while the next one is read. @throws HeddleError as {@link StoredFile.read} */
export async function readHere(
  file: StoredFile,
  reads: readonly VerifiedRead[],
  target: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<VerifiedRead | undefined> {
  const rooms = [new Uint8Array(), new Uint8Array()];
  const reading = async (at: number): Promise<Uint8Array | undefined> => {
    const read = reads[at];
    if (read === undefined) return undefined;
    const { offset, bytes, runs } = read;
    const [run] = runs;
    const whole = runs.length === 1 && run?.bytes === bytes;
    if (!whole && (rooms[at % 2] as Uint8Array).length < bytes) rooms[at % 2] = new Uint8Array(bytes);
    const into = whole ? target.subarray(run.to, run.to + bytes) : (rooms[at % 2] as Uint8Array).subarray(0, bytes);
    const found = await file.read(offset, bytes, signal, into);
    if (whole && found !== into) into.set(found);
    return found;
  };
  let ahead = reading(0);
  for (const [at, read] of reads.entries()) {
    const bytes = (await ahead) as Uint8Array;
    ahead = reading(at + 1);
    // Who awaits it gets the error.
    ahead.catch(() => undefined);
    if (createHash("sha256").update(bytes).digest("hex") !== read.sha256) {
      // Its memory is the caller's.
      await ahead.catch(() => undefined);
      return read;
    }
    const isPlaced = read.runs.length === 1 && read.runs[0]?.bytes === read.bytes;
    if (!isPlaced)
      for (const { from, to, bytes: count } of read.runs) target.set(bytes.subarray(from, from + count), to);
  }
  return undefined;
}
