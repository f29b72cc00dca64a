/**
 * @module Where checkpoints are kept: the interface that a driver implements.
 */
import type { CommitContent, CommitOptions } from "../io/commit.ts";
import { HeddleError } from "../util/errors.ts";

/** An open file. */
export interface StoredFile {
  readonly bytes: number;
  /** `length` bytes from `offset` on, in `into` (of that length) if the driver fills it, else in new memory. @throws HeddleError `format` if the file ends before, `file` if it cannot be read */
  read(offset: number, length: number, signal?: AbortSignal, into?: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Options of a write. */
export type WriteOptions = Pick<CommitOptions, "runId" | "onTemporary" | "signal">;

/** A place that keeps files under names such as `step-00000468/manifest.json`. */
export interface Storage {
  /** The place in messages: an absolute path, or an address. */
  readonly place: string;
  /** The absolute path of the folder, where it is one of this machine. */
  readonly folder?: string;
  /** Names of the files and folders directly in a folder (`""` is the place itself), without slashes; empty if there is none. */
  list(folder: string): Promise<readonly string[]>;
  /** @throws HeddleError `file` if there is no such file, with the code `ENOENT` in its cause, or if it cannot be read */
  open(name: string): Promise<StoredFile>;
  /**
   * Writes a file that appears whole or not at all, and is durable when the promise resolves; a file of that name is replaced.
   *
   * @throws HeddleError `disk` if there is no room, `file` if the file cannot be written; the reason of a signal
   */
  write(name: string, content: CommitContent, options?: WriteOptions): Promise<void>;
  /** Writes a small file unless there is one of that name, which no other writer can overtake; whether it was written. */
  create(name: string, bytes: Uint8Array): Promise<boolean>;
  /** Removes a file, or a folder with what is in it; harmless if there is none. */
  remove(name: string): Promise<void>;
  /** Milliseconds since a file was last written, by the clock of the storage; undefined if there is no such file. */
  age(name: string): Promise<number | undefined>;
}

/** A driver of places whose addresses begin with `scheme://`. */
export interface StorageDriver {
  readonly scheme: string;
  /** @param address the whole address, such as `s3://bucket/runs/1` */
  open(address: string): Promise<Storage>;
}

/** A name below a place. */
export const below = (place: string, name: string): string => (name === "" ? place : `${place}/${name}`);

/** The whole content of a small file. @throws HeddleError `format` if the file has more than `most` bytes */
export async function readSmall(storage: Storage, name: string, most: number): Promise<Uint8Array> {
  const file = await storage.open(name);
  try {
    if (file.bytes <= most) return await file.read(0, file.bytes);
    throw new HeddleError("format", `${below(storage.place, name)} has ${file.bytes} bytes, the limit is ${most}`);
  } finally {
    await file.close();
  }
}
