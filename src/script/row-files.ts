/**
 * @module csv files whose rows lie on several workers: each looks for the lines of a part of the file, and reads those of its own rows. Where
 * rows begin follows from how many lines the parts have.
 */

import { constants } from "node:buffer";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { HeddleError } from "../util/errors.ts";

/** Bytes of one call. */
const chunk = 2 ** 20;
const newline = 10;
/** What lines have that are no rows: blanks of ASCII, among them the end of a line of Windows. */
const blanks = " \t\v\f\r";
const blankBytes: ReadonlySet<number> = new Set(Buffer.from(blanks));
const written = new RegExp(`[^${blanks}]`);

/** Whether a line is no row. */
export const isBlank = (line: string): boolean => !written.test(line);

/** How the workers of a run add up what each of them has found. */
export interface Adding {
  readonly rank: number;
  readonly size: number;
  /** The sums of the numbers of all workers, element by element. */
  sum(numbers: readonly number[]): readonly number[];
}

/** An open file that is read by ranges of bytes. */
export class RowFile {
  readonly bytes: number;
  private readonly path: string;
  private readonly file: number;
  /** How many bytes were read. */
  private count = 0;

  /** @throws HeddleError `file` for a folder, and for a file that cannot be opened */
  constructor(path: string) {
    this.path = path;
    try {
      this.file = openSync(path, "r");
    } catch (error) {
      throw new HeddleError("file", `read: ${path}: ${(error as Error).message}`, { cause: error });
    }
    const stats = fstatSync(this.file);
    this.bytes = stats.size;
    if (stats.isFile()) return;
    this.close();
    throw new HeddleError("file", `read: ${path} is a folder, or no file that can be read by parts`);
  }

  /** Bytes that were read so far, those that were read twice counted twice. */
  get bytesRead(): number {
    return this.count;
  }

  /** The bytes `[from, to)`. @throws HeddleError `file` where the file ends before */
  read(from: number, to: number): Buffer {
    const bytes = Buffer.allocUnsafe(to - from);
    for (let at = 0; at < bytes.length; ) {
      const got = readSync(this.file, bytes, at, Math.min(chunk, bytes.length - at), from + at);
      if (got === 0) throw new HeddleError("file", `read: ${this.path} became shorter while it was read`);
      at += got;
    }
    this.count += bytes.length;
    return bytes;
  }

  /**
   * The bytes `[from, to)` in pieces that end with a line, of at most `most` bytes; where a line is longer, of less than twice that line.
   *
   * @throws HeddleError `file` where a line is too long for a text
   */
  *pieces(from: number, to: number, most: number): Generator<Buffer, void> {
    for (let [at, size] = [from, most]; at < to; ) {
      const bytes = this.read(at, Math.min(to, at + size));
      const end = at + bytes.length === to ? bytes.length : bytes.lastIndexOf(newline) + 1;
      if (end === 0 && size === constants.MAX_STRING_LENGTH)
        throw new HeddleError(
          "file",
          `read: ${this.path} has a line of more than 512 MiB, the most that a text can have`,
        );
      if (end > 0) yield bytes.subarray(0, end);
      at += end;
      size = end > 0 ? most : Math.min(2 * size, constants.MAX_STRING_LENGTH);
    }
  }

  close(): void {
    closeSync(this.file);
  }
}

/** A row: where its line begins, and the line's number from 1. */
interface Line {
  readonly at: number;
  readonly line: number;
}

/** Lines of a part of a file that are not blank. */
interface Lines {
  /** Where each of them begins, and its number among the lines of the part, from 1. */
  readonly starts: readonly number[];
  readonly numbers: readonly number[];
  /** The line ends in the part. */
  readonly ends: number;
}

/** Bytes that are read after a part, where it ends within a line of which nothing is seen yet. */
const step = 4096;

/** The lines that begin in `[from, to)`; a line that began before belongs to the part before. */
function linesWithin(file: RowFile, from: number, to: number): Lines {
  const [starts, numbers]: [number[], number[]] = [[], []];
  let ends = 0;
  if (from >= to) return { starts, numbers, ends };
  // A line begins after the end of another: the byte before the part says whether one begins with it.
  let start = from === 0 || file.read(from - 1, from)[0] === newline ? from : -1;
  for (let at = from; at < file.bytes && (at < to || start >= 0); ) {
    const bytes = file.read(at, at < to ? Math.min(to, at + chunk) : Math.min(file.bytes, at + step));
    for (let index = 0; index < bytes.length; index++) {
      const byte = bytes[index] as number;
      const position = at + index;
      if (byte === newline) {
        if (position < to) ends++;
        start = position + 1 < to ? position + 1 : -1;
      } else if (start >= 0 && !blankBytes.has(byte)) {
        starts.push(start);
        numbers.push(ends + 1);
        start = -1;
      }
      if (position >= to && start < 0) break;
    }
    at += bytes.length;
  }
  return { starts, numbers, ends };
}

/** Where the rows of a csv file lie. */
export interface RowIndex {
  /** The number of rows, without the header. */
  readonly rows: number;
  /** The number of fields in the first row. */
  readonly columns: number;
  /** The number of the first row's line. */
  readonly line: number;
  /** The texts of this worker's rows, one after another, of some MiB each, and the number of each one's first line. */
  readonly own: (most?: number) => Iterable<{ readonly text: string; readonly line: number }>;
}

/**
 * Finds the rows of a file together with the other workers: each counts the lines of a part, and goes over it once more for where the rows of
 * all workers begin. `header`: the first line is no row.
 */
export function indexRows(
  file: RowFile,
  { header, separator }: { readonly header: boolean; readonly separator: string },
  { rank, size, sum }: Adding,
  startOf: (rows: number, rank: number) => number,
): RowIndex {
  const part = (which: number): number => Math.floor((file.bytes * which) / size);
  const [from, to] = [part(rank), part(rank + 1)];
  const mine = linesWithin(file, from, to);
  const counts = sum(
    Array.from({ length: size }, (_unused, which) =>
      which === rank ? [mine.starts.length, mine.ends] : [0, 0],
    ).flat(),
  );
  const total = (which: 0 | 1, workers: number): number =>
    counts.slice(0, 2 * workers).reduce((all, count, at) => (at % 2 === which ? all + count : all), 0);
  const skipped = header ? 1 : 0;
  const rows = Math.max(0, total(0, size) - skipped);
  // The first row, and those with which the rows of each worker begin: each worker tells where the ones of its part lie.
  const wanted = [0, ...Array.from({ length: size }, (_unused, which) => startOf(rows, which))];
  const places = sum(
    wanted.flatMap((row) => {
      const at = row + skipped - total(0, rank);
      const start = mine.starts[at];
      return start === undefined ? [0, 0, 0] : [start, (mine.numbers[at] as number) + total(1, rank), 1];
    }),
  );
  const placeOf = (index: number): Line =>
    places[3 * index + 2] === 0 || places[3 * index + 2] === undefined
      ? { at: file.bytes, line: 0 }
      : { at: places[3 * index] as number, line: places[3 * index + 1] as number };
  return {
    rows,
    columns: rows === 0 ? 0 : fieldsOfFirst(file, placeOf(0).at, separator),
    line: placeOf(0).line,
    *own(most = 4 * chunk) {
      let { at, line } = placeOf(rank + 1);
      for (const bytes of file.pieces(at, placeOf(rank + 2).at, most)) {
        yield { text: bytes.toString("utf8"), line };
        for (at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) line++;
      }
    },
  };
}

/** The number of fields of the line that begins at a place. */
function fieldsOfFirst(file: RowFile, from: number, separator: string): number {
  const [piece = Buffer.of()] = file.pieces(from, file.bytes, chunk / 16);
  return (piece.toString("utf8").split("\n")[0] as string).split(separator).length;
}
