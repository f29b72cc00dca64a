/**
 * @module Results on disk, found by what they were made of: a bounded folder of files that may be deleted at any time, used by several
 * processes at once. What cannot be read or written is as if it were not there.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { deserialize, serialize } from "node:v8";
import { writeWholeFile } from "./whole-file.ts";

/** How much a folder may hold. */
export interface CacheLimits {
  readonly bytes: number;
  readonly files: number;
}

/** Enough for some hundred trainings. */
const usualLimits: CacheLimits = { bytes: 64e6, files: 1000 };

const digestBytes = 32;
const digest = (content: string | Uint8Array): Buffer => createHash("sha256").update(content).digest();

/** Values on disk, by text. */
export class DiskCache {
  private readonly folder: string;
  private readonly maker: string;
  private readonly limits: CacheLimits;

  /**
   * @param folder made when something is written
   * @param maker what identifies the code that computes the values: other code finds nothing
   */
  constructor(folder: string, maker: string, limits: CacheLimits = usualLimits) {
    this.folder = folder;
    this.maker = maker;
    this.limits = limits;
  }

  /** The value of this text: from the disk, or computed and then written. */
  get<Value>(text: string, compute: () => Value): Value {
    const found = this.find<Value>(text);
    return found === undefined ? this.keep(text, compute()) : found.value;
  }

  /** The value of this text from the disk; undefined where there is none. */
  find<Value>(text: string): { readonly value: Value } | undefined {
    return readEntry(this.fileOf(text)) as { readonly value: Value } | undefined;
  }

  /** Writes the value of this text, and returns it. */
  keep<Value>(text: string, value: Value): Value {
    try {
      this.write(this.fileOf(text), serialize(value));
    } catch {
      // A disk that is full or must not be written costs time alone.
    }
    return value;
  }

  private fileOf(text: string): string {
    return join(this.folder, digest(`${this.maker}\n${text}`).toString("hex"));
  }

  private write(file: string, content: Uint8Array): void {
    makeCacheFolder(this.folder);
    this.makeRoom(content.length);
    writeWholeFile(file, Buffer.concat([digest(content), content]));
  }

  /** Removes files, the longest unused first, until one more of this size fits; half of the room is free then. */
  private makeRoom(bytes: number): void {
    const entries = readdirSync(this.folder, { withFileTypes: true });
    const names = entries.filter((entry) => entry.isFile() && !entry.name.startsWith(".")).map(({ name }) => name);
    const files = names.map((name) => statFile(join(this.folder, name)));
    let held = files.reduce((sum, { size }) => sum + size, bytes);
    let count = files.length;
    if (held <= this.limits.bytes && count < this.limits.files) return;
    for (const { file, size } of files.sort((a, b) => a.used - b.used)) {
      if (held <= this.limits.bytes / 2 && count <= this.limits.files / 2) return;
      rmSync(file, { force: true });
      held -= size;
      count--;
    }
  }
}

/** Makes the folder of a cache. It is inside of a project, whose history it is not a part of. @throws if the system refuses it */
export function makeCacheFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(folder);
  writeFileSync(join(folder, ".gitignore"), "*\n");
}

/** Makes a folder and the missing ones above it, one by one: with `recursive`, Node never returns where the system refuses folders, as in `/proc`. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another process may have been first.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** A file's size and when it was last used; another process may have removed it. */
function statFile(file: string): { readonly file: string; readonly size: number; readonly used: number } {
  const { size = 0, mtimeMs = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
  return { file, size, used: mtimeMs };
}

/** The value in a file; undefined without the file, and for a damaged one. */
function readEntry(file: string): { readonly value: unknown } | undefined {
  try {
    const whole = readFileSync(file);
    const content = whole.subarray(digestBytes);
    if (!digest(content).equals(whole.subarray(0, digestBytes))) return undefined;
    const now = new Date();
    try {
      utimesSync(file, now, now);
    } catch {
      // The files of others, or on a disk that must not be written, stay as old as they are.
    }
    return { value: deserialize(content) };
  } catch {
    return undefined;
  }
}
