/** @module Records of one size in pages. Beyond a budget of memory, pages that were not used lately are in a file. */
import { closeSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HeddleError } from "../../util/errors.ts";

const pageBytes = 2 ** 16;

interface Page {
  bytes: Uint8Array<ArrayBuffer> | undefined;
  /** The same bytes as words: records are copied word by word, which for short ones is faster than by views. */
  words: Int32Array<ArrayBuffer> | undefined;
  used: boolean;
  dirty: boolean;
}

let files = 0;

/** Pages of records. */
export class Pages {
  /** Bytes of pages in memory. */
  resident = 0;
  private readonly recordBytes: number;
  private readonly perPage: number;
  private readonly size: number;
  private readonly budget: number;
  private readonly pages: Page[] = [];
  private hand = 0;
  private file: number | undefined;

  /** @param budget bytes in memory; one page is there in any case */
  constructor(recordBytes: number, budget: number) {
    this.recordBytes = recordBytes;
    this.perPage = Math.max(1, Math.floor(pageBytes / recordBytes));
    this.size = this.perPage * recordBytes;
    this.budget = budget;
  }

  /** The bytes of a record, until the next call. With `write`, what is written to them is kept. @throws HeddleError `disk` */
  at(record: number, write: boolean): Uint8Array<ArrayBuffer> {
    const { bytes } = this.page(record, write);
    const start = (record % this.perPage) * this.recordBytes;
    return (bytes as Uint8Array<ArrayBuffer>).subarray(start, start + this.recordBytes);
  }

  /** Copies words of a record from its word `from` on into others. @throws HeddleError `disk` */
  get(record: number, from: number, into: Int32Array, at: number, count: number): void {
    const words = this.page(record, false).words as Int32Array;
    const start = (record % this.perPage) * (this.recordBytes / 4) + from;
    copyWords(words, start, into, at, count);
  }

  /** Writes words of a record from its word `to` on. @throws HeddleError `disk` */
  set(record: number, to: number, from: Int32Array, at: number, count: number): void {
    const words = this.page(record, true).words as Int32Array;
    const start = (record % this.perPage) * (this.recordBytes / 4) + to;
    copyWords(from, at, words, start, count);
  }

  private page(record: number, write: boolean): Page {
    const number = Math.floor(record / this.perPage);
    while (this.pages.length <= number)
      this.pages.push({ bytes: undefined, words: undefined, used: false, dirty: false });
    const page = this.pages[number] as Page;
    if (page.bytes === undefined) {
      page.bytes = this.load(number);
      page.words = new Int32Array(page.bytes.buffer);
    }
    page.used = true;
    page.dirty ||= write;
    return page;
  }

  /** Frees memory and file. */
  close(): void {
    this.pages.length = 0;
    this.resident = 0;
    if (this.file !== undefined) closeSync(this.file);
    this.file = undefined;
  }

  private load(number: number): Uint8Array<ArrayBuffer> {
    while (this.resident > 0 && this.resident + this.size > this.budget) this.evictOne();
    const bytes = new Uint8Array(this.size);
    this.resident += this.size;
    // A page that was never written out is new: the file, if there is one, may be shorter.
    if (this.file !== undefined) readSync(this.file, bytes, 0, this.size, number * this.size);
    return bytes;
  }

  /** Writes out the next page that was not used since the hand of the clock passed it. */
  private evictOne(): void {
    for (;;) {
      const number = this.hand;
      this.hand = (this.hand + 1) % this.pages.length;
      const page = this.pages[number] as Page;
      if (page.bytes === undefined) continue;
      if (page.used) {
        page.used = false;
        continue;
      }
      if (page.dirty) this.write(number, page.bytes);
      Object.assign(page, { bytes: undefined, words: undefined, dirty: false });
      this.resident -= this.size;
      return;
    }
  }

  private write(number: number, bytes: Uint8Array): void {
    try {
      this.file ??= openUnnamed();
      let done = 0;
      while (done < bytes.length)
        done += writeSync(this.file, bytes, done, bytes.length - done, number * this.size + done);
    } catch (error) {
      throw new HeddleError("disk", `rows of a table cannot be written to ${tmpdir()}: ${(error as Error).message}`, {
        hint: "TMPDIR names another folder; more memory for the table needs no disk",
        cause: error,
      });
    }
  }
}

/** Words of which a loop copies fewer faster than `set` does, which needs a view. */
const fewWords = 256;

function copyWords(from: Int32Array, start: number, into: Int32Array, at: number, count: number): void {
  if (count > fewWords) into.set(from.subarray(start, start + count), at);
  else for (let word = 0; word < count; word++) into[at + word] = from[start + word] as number;
}

/** A file that is gone when it is closed, also by a kill. */
function openUnnamed(): number {
  const path = join(tmpdir(), `heddle-rows-${process.pid}-${files++}`);
  const file = openSync(path, "wx+", 0o600);
  // Windows removes no open file: there it stays until the folder is emptied.
  if (process.platform !== "win32") rmSync(path);
  return file;
}
