/**
 * @module Bodies of messages between two processes of one machine: a file in memory that both have open, beside the link on which heads go. It
 * belongs to the side that asks: a request takes a region, in which its body is, and then the answer's. The file has no name once both have
 * it open, and only its owner's processes can open it before. What is read is copied before it is looked at.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  read,
  readSync,
  rmSync,
  type Stats,
  write,
  writeSync,
} from "node:fs";
import { promisify } from "node:util";
import { leases } from "./leases.ts";

/** Bodies of fewer bytes go over the link. */
export const leastShared = 2 ** 15;
const leastRegion = 2 ** 16;
/** Bytes of the regions of one link. */
const mostShared = 2 ** 32;
const tokenBytes = 16;
/** Bytes that one thread moves. */
const pieceBytes = 2 ** 22;
const folder = "/dev/shm/";
const named = /^\/dev\/shm\/heddle-link-[0-9a-f]{32}$/;

/** A part of a file. */
export interface Region {
  readonly offset: number;
  readonly size: number;
}

const isOwn = (stat: Stats): boolean => stat.isFile() && stat.uid === process.getuid?.();

/** A file that two processes have open. */
export class SharedFile {
  /** Its name until the other side has opened it. */
  readonly path: string;
  /** What is at its beginning: that the other side reads the same shows that it has the same file. */
  readonly token: string;
  private readonly file: number;
  private readonly free = new Map<number, number[]>();
  private end = leastRegion;
  private isOpen = true;
  private uses = 0;

  private constructor(path: string, file: number, token: string) {
    this.path = path;
    this.file = file;
    this.token = token;
  }

  /** A new file; undefined where there are none in memory. */
  static create(): SharedFile | undefined {
    const path = `${folder}heddle-link-${randomBytes(16).toString("hex")}`;
    try {
      const file = openSync(path, "wx+", 0o600);
      const token = randomBytes(tokenBytes);
      writeSync(file, token, 0, tokenBytes, 0);
      return new SharedFile(path, file, token.toString("hex"));
    } catch {
      return undefined;
    }
  }

  /** The file of another process; undefined if it is not one of this machine and of the same user. */
  static open(path: string): SharedFile | undefined {
    if (!named.test(path)) return undefined;
    try {
      const file = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
      const token = Buffer.alloc(tokenBytes);
      const isShared = isOwn(fstatSync(file)) && readSync(file, token, 0, tokenBytes, 0) === tokenBytes;
      if (isShared) return new SharedFile(path, file, token.toString("hex"));
      closeSync(file);
    } catch {
      // Another machine, or another user.
    }
    return undefined;
  }

  /** Takes the name away. */
  unname(): void {
    rmSync(this.path, { force: true });
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.unname();
    this.closeUnused();
  }

  /** Takes a region of at least so many bytes, until it is given back; undefined if there are too many. */
  take(bytes: number): Region | undefined {
    const size = Math.max(leastRegion, 2 ** Math.ceil(Math.log2(bytes)));
    const known = this.free.get(size)?.pop();
    if (known !== undefined) return { offset: known, size };
    if (this.end + size > mostShared) return undefined;
    this.end += size;
    return { offset: this.end - size, size };
  }

  giveBack({ offset, size }: Region): void {
    const list = this.free.get(size) ?? [];
    this.free.set(size, list);
    list.push(offset);
  }

  /** Writes parts one after another. Whether there was memory for them. */
  write(offset: number, parts: readonly Uint8Array[]): Promise<boolean> {
    let at = offset;
    const pieces = parts.flatMap((part) => {
      const cut = piecesOf(part, at);
      at += part.length;
      return cut;
    });
    return this.each(pieces, writing);
  }

  /** Reads bytes, into an array with a lease; undefined if the file does not have so many. */
  async read(offset: number, bytes: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const into = leases.take(bytes);
    return (await this.each(piecesOf(into, offset), reading)) ? into : undefined;
  }

  /** Moves pieces side by side, on the threads that Node has for files: one alone is slower than a copy. Whether all were moved whole. */
  private async each(pieces: readonly Piece[], move: Move): Promise<boolean> {
    if (!this.isOpen) return false;
    this.uses++;
    try {
      // All have ended before the file may close: its number may be another file's then.
      const moves = await Promise.allSettled(
        pieces.map(async ({ bytes, at }) => {
          for (let done = 0; done < bytes.length; ) {
            const moved = await move(this.file, bytes, done, bytes.length - done, at + done);
            if (moved === 0) throw new RangeError("the file has ended");
            done += moved;
          }
        }),
      );
      return moves.every(({ status }) => status === "fulfilled");
    } finally {
      this.uses--;
      this.closeUnused();
    }
  }

  /** A descriptor that is still in use might already be another file's if it were closed. */
  private closeUnused(): void {
    if (!this.isOpen && this.uses === 0) closeSync(this.file);
  }
}

/** Part of a body, and its place in the file. */
interface Piece {
  readonly bytes: Uint8Array;
  readonly at: number;
}

type Move = (file: number, bytes: Uint8Array, offset: number, length: number, at: number) => Promise<number>;

const writing: Move = async (...all) => (await promisify(write)(...all)).bytesWritten;
const reading: Move = async (...all) => (await promisify(read)(...all)).bytesRead;

const piecesOf = (bytes: Uint8Array, at: number): Piece[] =>
  Array.from({ length: Math.ceil(bytes.length / pieceBytes) }, (_unused, index) => ({
    bytes: bytes.subarray(index * pieceBytes, (index + 1) * pieceBytes),
    at: at + index * pieceBytes,
  }));
