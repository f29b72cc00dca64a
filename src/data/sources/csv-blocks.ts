/** @module The bytes of a CSV file in blocks that end where records do, and the places of records in them. */
import { HeddleError } from "../../util/errors.ts";
import { type ByteFile, plainBytes } from "./bytes.ts";
import { Fields } from "./csv-fields.ts";
import { longestRecord } from "./lines.ts";

/** Bytes that are parsed at once. */
const blockBytes = 2 ** 20;
/** Records between two places of an index. */
const markedRecords = 4096;
const [quoteCode, lineFeed, carriageReturn] = [0x22, 0x0a, 0x0d];

/** Whole blocks of bytes, and what a record left of the one before. */
interface Block {
  readonly bytes: Buffer;
  readonly isLast: boolean;
}

/** The bytes of a file in blocks, from `from` on. `rest` says how many bytes of the last block were not used: they begin the next. */
export async function* blocksOf(
  file: ByteFile,
  signal: AbortSignal | undefined,
  rest: () => number,
  from = 0,
): AsyncGenerator<Block> {
  let held: Buffer = Buffer.alloc(0);
  let parts: Buffer[] = [];
  let count = 0;
  // The whole of a file without a record's end is as long as the longest record at most.
  for await (const piece of plainBytes(file, from, signal)) {
    signal?.throwIfAborted();
    parts.push(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength));
    count += piece.length;
    if (count < blockBytes || count < held.length) continue;
    const bytes = held.length === 0 && parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat([held, ...parts]);
    [parts, count] = [[], 0];
    yield { bytes, isLast: false };
    held = bytes.subarray(bytes.length - rest());
    if (held.length > longestRecord)
      throw new HeddleError(
        "format",
        `${file.name}: a record has more than ${longestRecord} bytes; is a quote left open?`,
      );
  }
  yield { bytes: Buffer.concat([held, ...parts]), isLast: true };
}

/** Where the text begins: after a mark of byte order. */
export const startOf = (bytes: Uint8Array): number =>
  bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;

/** Where a record begins. */
export interface CsvMark {
  /** Its number. */
  readonly record: number;
  readonly byte: number;
  /** The number of its line, from 1. */
  readonly line: number;
}

/** The start of a file, with the record of names if there is one. */
export const fileStart: CsvMark = { record: 0, byte: 0, line: 1 };

/** The next record in a block: where the one after it begins, its lines, and whether it is an empty line. */
interface Found {
  readonly next: number;
  readonly lines: number;
  readonly isBlank: boolean;
}

/** Finds records by their ends alone: without quotes and carriage returns they are lines. */
function finder({ bytes, isLast }: Block, separator: number, fields: Fields): (at: number) => Found | undefined {
  const { length } = bytes;
  if (bytes.indexOf(quoteCode) < 0 && bytes.indexOf(carriageReturn) < 0)
    return (at) => {
      const end = bytes.indexOf(lineFeed, at);
      if (end < 0 && !isLast) return undefined;
      return { next: end < 0 ? length : end + 1, lines: 1, isBlank: end === at };
    };
  return (at) => {
    const next = fields.find(bytes, at, length, separator, isLast);
    if (next < 0) return undefined;
    const isBlank = fields.count === 1 && fields.ends[0] === fields.starts[0] && fields.quoted[0] === 0;
    return { next, lines: fields.lines, isBlank };
  };
}

/** The places of every so many records of a file, in one pass, and the number of all its records. */
export async function marksOf(
  file: ByteFile,
  {
    separator,
    columns,
    hasHeader,
  }: { readonly separator: number; readonly columns: number; readonly hasHeader: boolean },
): Promise<{ readonly marks: readonly CsvMark[]; readonly length: number }> {
  const marks: CsvMark[] = [];
  const fields = new Fields();
  let [record, line, base, unused] = [0, 1, 0, 0];
  let isHeader = hasHeader;
  for await (const block of blocksOf(file, undefined, () => unused)) {
    const find = finder(block, separator, fields);
    let at = base === 0 ? startOf(block.bytes) : 0;
    for (let found = find(at); at < block.bytes.length && found !== undefined; found = find(at)) {
      const { next, lines, isBlank } = found;
      const isRecord = !isHeader && !(isBlank && columns > 1);
      if (isRecord && record++ % markedRecords === 0) marks.push({ record: record - 1, byte: base + at, line });
      // An empty first line is no record of names either.
      isHeader = false;
      line += lines;
      at = next;
    }
    unused = block.bytes.length - at;
    base += at;
  }
  return { marks, length: record };
}
