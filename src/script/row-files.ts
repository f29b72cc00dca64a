/**
 * @module csv files whose rows lie on several workers: each looks for the lines of a part of the file, and reads those of its own rows. Where
 * rows begin follows from how many lines the parts have.
 */

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { HeddleError } from "../util/errors.ts";

/** Bytes of one call. */
const chunk = 2 ** 20;
const newline = 10;
/** Space, tab and the end of a line of Windows: a line of nothing else is no row. */
const blanks: ReadonlySet<number> = new Set([32, 9, 13]);

/** How the workers of a run add up what each of them has found. */
export interface Together {
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
      } else if (start >= 0 && !blanks.has(byte)) {
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
  /** The text of this worker's rows, and the number of its first line. */
  readonly own: () => { readonly text: string; readonly line: number };
}

/**
 * Finds the rows of a file together with the other workers: each counts the lines of a part, and goes over it once more for where the rows of
 * all workers begin. `header`: the first line is no row.
 */
export function indexRows(
  file: RowFile,
  { header, separator }: { readonly header: boolean; readonly separator: string },
  { rank, size, sum }: Together,
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
    own: () => {
      const { at, line } = placeOf(rank + 1);
      return { text: file.read(at, placeOf(rank + 2).at).toString("utf8"), line };
    },
  };
}

/** The number of fields of the line that begins at a place. */
function fieldsOfFirst(file: RowFile, from: number, separator: string): number {
  let text = "";
  for (let at = from; at < file.bytes && !text.includes("\n"); at += chunk / 16)
    text += file.read(at, Math.min(file.bytes, at + chunk / 16)).toString("latin1");
  return (text.split("\n")[0] as string).split(Buffer.from(separator).toString("latin1")).length;
}
