/** @module Lines of text: records of text files, and what line-based formats share. */
import { isUtf8 } from "node:buffer";
import { HeddleError } from "../../util/errors.ts";
import { cut, type Piece } from "../records/piece.ts";
import type { Records } from "../records/records.ts";
import { type ByteFile, type Places, plainBytes } from "./bytes.ts";
import { type FileOptions, type FileReader, type Format, recordsOf } from "./files.ts";

/** The longest record of a file of text, in bytes: a longer one is malformed, so that memory stays bounded. */
export const longestRecord = 64 * 2 ** 20;

/** Blocks of whole records: each block but the last ends after a record. `end` finds the end of the last whole record, or -1. */
export async function* blocks(
  file: ByteFile,
  signal: AbortSignal | undefined,
  end: (bytes: Uint8Array) => number,
): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = [];
  let count = 0;
  for await (const piece of plainBytes(file, 0, signal)) {
    signal?.throwIfAborted();
    if (count + piece.length > longestRecord + piece.length)
      throw new HeddleError(
        "format",
        `${file.name}: a record has more than ${longestRecord} bytes; is a quote left open?`,
      );
    const at = end(piece);
    if (at < 0) {
      held.push(piece);
      count += piece.length;
      continue;
    }
    yield held.length === 0 ? piece.subarray(0, at) : Buffer.concat([...held, piece.subarray(0, at)]);
    held = at < piece.length ? [piece.subarray(at)] : [];
    count = piece.length - at;
  }
  if (count > 0) yield held.length === 1 ? (held[0] as Uint8Array) : Buffer.concat(held);
}

/** Refuses UTF-16, by its mark of byte order, or by a letter with a byte 0 beside it. @throws HeddleError `format` */
export function checkEncoding(name: string, bytes: Uint8Array): void {
  const [first, second] = bytes;
  const isMarked = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
  if (isMarked || (bytes.length > 1 && (first === 0) !== (second === 0)))
    throw new HeddleError("format", `${name} is UTF-16; text files are read as UTF-8`, {
      hint: "convert it: iconv -f UTF-16 -t UTF-8",
    });
}

/** What is wrong with a record of other bytes, and what to do. */
export const notUtf8 = "its bytes are not UTF-8";
export const utf8Hint = "convert the file, from Latin-1 for instance: iconv -f LATIN1 -t UTF-8";

/** The end of the last whole line of some bytes; -1 if there is none. */
export const lastLine = (bytes: Uint8Array): number => bytes.lastIndexOf(10) + 1 || -1;

/** Consecutive lines of a file. */
interface Lines {
  readonly lines: readonly string[];
  /** The lines that are not UTF-8. */
  readonly wrong: readonly number[];
}

async function* lineBlocks(file: ByteFile, signal: AbortSignal | undefined): AsyncGenerator<Lines> {
  const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
  let isFirst = true;
  for await (const block of blocks(file, signal, lastLine)) {
    let text = decoder.decode(block);
    if (isFirst) checkEncoding(file.name, block);
    if (isFirst) text = text.replace(/^\uFEFF/, "");
    isFirst = false;
    const lines = text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    const wrong = isUtf8(block) ? [] : wrongLines(block);
    yield { lines: lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line)), wrong };
  }
}

/** The lines of some bytes that are not UTF-8. */
function wrongLines(bytes: Uint8Array): number[] {
  const found: number[] = [];
  for (let from = 0, line = 0; from < bytes.length; line++) {
    const end = bytes.indexOf(10, from);
    const to = end < 0 ? bytes.length : end;
    if (!isUtf8(bytes.subarray(from, to))) found.push(line);
    from = to + 1;
  }
  return found;
}

/** The lines of a file, without their ends; `\r\n` and `\n` end lines, a mark of byte order is left out. */
export async function* linesOf(file: ByteFile, signal: AbortSignal | undefined): AsyncGenerator<readonly string[]> {
  for await (const { lines } of lineBlocks(file, signal)) yield lines;
}

/**
 * A reader of records that are lines: `parse` makes the records of some lines, and names malformed ones by `place`; `bad` treats lines
 * that are not UTF-8, which `parse` does not get.
 */
export const lineReader = (
  file: ByteFile,
  bad: (error: HeddleError) => void,
  parse: (lines: readonly string[], place: (index: number) => string) => Piece,
): FileReader => ({
  async *read(from, signal) {
    let first = 1;
    let left = from;
    for await (const { lines, wrong } of lineBlocks(file, signal)) {
      const start = first;
      first += lines.length;
      const place = (index: number): string => `${file.name}, line ${start + index}`;
      for (const index of wrong) bad(new HeddleError("format", `${place(index)}: ${notUtf8}`, { hint: utf8Hint }));
      const kept = wrong.length === 0 ? undefined : [...lines.keys()].filter((index) => !wrong.includes(index));
      const piece =
        kept === undefined
          ? parse(lines, place)
          : parse(
              kept.map((index) => lines[index] as string),
              (index) => place(kept[index] as number),
            );
      if (left >= piece.length) {
        left -= piece.length;
        continue;
      }
      yield left === 0 ? piece : cutFrom(piece, left);
      left = 0;
    }
  },
});

const cutFrom = (piece: Piece, from: number): Piece => cut(piece, from, piece.length);

/** Options of {@link text}. */
export interface TextOptions extends FileOptions {
  /** Whether lines without a character are records; default false. */
  readonly empty?: boolean;
}

const format: Format<TextOptions> = {
  what: "text",
  options: ["empty"],
  open: async (file, { empty = false }, bad) =>
    lineReader(file, bad, (lines, place) => {
      const kept = [...lines.keys()].filter((index) => empty || lines[index] !== "");
      return {
        length: kept.length,
        columns: { text: kept.map((index) => lines[index]) },
        place: (index) => place(kept[index] as number),
      };
    }),
};

/** The lines of text files, plain or compressed: records of `text`. */
export const text = (places: Places, options: TextOptions = {}): Records<{ text: string }> =>
  recordsOf(format, places, options);
