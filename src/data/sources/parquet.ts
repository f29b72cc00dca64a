/** @module Parquet: row groups are read by their columns, one at a time; `hyparquet` decodes them. */
import { HeddleError } from "../../util/errors.ts";
import type { AnyRow } from "../records/piece.ts";
import { cut, joined, type Piece, type Values } from "../records/piece.ts";
import type { Records } from "../records/records.ts";
import { type ByteFile, type Places, packageNamed } from "./bytes.ts";
import { checkTexts, type FileOptions, type Format, openAll, recordsOf } from "./files.ts";

/** Options of {@link parquet}. */
export interface ParquetOptions extends FileOptions {
  /** The columns to read; default all. */
  readonly columns?: readonly string[];
}

/** What is used of `hyparquet`. */
interface HyParquet {
  parquetMetadataAsync(file: AsyncBuffer): Promise<Metadata>;
  parquetSchema(metadata: Metadata): { readonly children: readonly { readonly element: { readonly name: string } }[] };
  parquetRead(options: {
    readonly file: AsyncBuffer;
    readonly metadata: Metadata;
    readonly columns: readonly string[];
    readonly rowStart: number;
    readonly rowEnd: number;
    readonly compressors: object;
    readonly onChunk: (chunk: {
      readonly columnName: string;
      readonly columnData: Values;
      readonly rowStart: number;
    }) => void;
  }): Promise<void>;
}
interface AsyncBuffer {
  readonly byteLength: number;
  slice(start: number, end?: number): Promise<ArrayBuffer>;
}
interface Metadata {
  readonly num_rows: bigint;
  readonly row_groups: readonly { readonly num_rows: bigint; readonly total_byte_size: bigint }[];
}

/** The largest metadata of a file that is read, in bytes. */
const largestFooter = 2 ** 28;

const format: Format<ParquetOptions> = {
  what: "parquet",
  options: ["columns"],
  check: ({ columns }) => checkTexts("parquet", "columns", columns),
  async open(file, { columns }) {
    const { parquetMetadataAsync, parquetSchema, parquetRead } = packageNamed<HyParquet>(
      "hyparquet",
      `read ${file.name}`,
    );
    const { compressors } = packageNamed<{ compressors: object }>("hyparquet-compressors", `read ${file.name}`);
    const malformed = (cause: unknown): HeddleError =>
      cause instanceof HeddleError
        ? cause
        : new HeddleError("format", `${file.name} is not a valid Parquet file: ${(cause as Error).message}`, { cause });
    const buffer: AsyncBuffer = {
      byteLength: file.size,
      slice: async (start, end = file.size) => (await file.read(start, end - start)).buffer as ArrayBuffer,
    };
    await checkEnds(file);
    const metadata = await parquetMetadataAsync(buffer).catch((error: unknown) => {
      throw malformed(error);
    });
    const known = parquetSchema(metadata).children.map(({ element }) => element.name);
    const names = columns ?? known;
    const lacking = names.find((name) => !known.includes(name));
    if (lacking !== undefined)
      throw new HeddleError("data", `${file.name} has no column "${lacking}"`, {
        hint: `its columns are ${known.join(", ")}`,
      });
    const sizes = metadata.row_groups.map(({ num_rows }) => Number(num_rows));
    const starts = sizes.map((_size, group) => sizes.slice(0, group).reduce((sum, size) => sum + size, 0));
    const length = sizes.reduce((sum, size) => sum + size, 0);
    if (length !== Number(metadata.num_rows) || sizes.some((size) => size < 0))
      throw malformed(new Error(`its row groups have ${length} rows, it says ${metadata.num_rows}`));
    const group = async (at: number): Promise<Piece> => {
      const [rowStart, count] = [starts[at] as number, sizes[at] as number];
      const parts = new Map<string, Values[]>(names.map((name) => [name, []]));
      await parquetRead({
        ...{ file: buffer, metadata, columns: names, rowStart, rowEnd: rowStart + count, compressors },
        onChunk: ({ columnName, columnData }) => parts.get(columnName)?.push(columnData),
      }).catch((error: unknown) => {
        throw malformed(error);
      });
      const entries = names.map((name): [string, Values] => {
        const pieces = (parts.get(name) ?? []).map((values) => ({ length: values.length, columns: { values } }));
        const { columns: found, length: rows } = joined(file.name, pieces);
        if (rows !== count)
          throw malformed(new Error(`column "${name}" has ${rows} rows in row group ${at}, not ${count}`));
        return [name, found["values"] ?? []];
      });
      return {
        length: count,
        columns: Object.fromEntries(entries),
        place: (index) => `${file.name}, row ${rowStart + index}`,
      };
    };
    return {
      length,
      parts: starts,
      async *read(from, signal) {
        for (const [at, start] of starts.entries()) {
          const size = sizes[at] as number;
          if (from >= start + size || size === 0) continue;
          signal?.throwIfAborted();
          const piece = await group(at);
          yield cut(piece, Math.max(0, from - start), size);
        }
      },
    };
  },
};

/** A file begins and ends with its name, and its footer fits into it: checked before anything is decoded. */
async function checkEnds(file: ByteFile): Promise<void> {
  const problem = (text: string): HeddleError =>
    new HeddleError("format", `${file.name} is not a valid Parquet file: ${text}`);
  if (file.size < 12) throw problem(`it has ${file.size} bytes`);
  const [start, end] = [await file.read(0, 4), await file.read(file.size - 8, 8)];
  const text = (bytes: Uint8Array): string => String.fromCharCode(...bytes);
  if (text(start) !== "PAR1" || text(end.subarray(4)) !== "PAR1") throw problem("it does not begin and end with PAR1");
  const footer = new DataView(end.buffer, end.byteOffset).getUint32(0, true);
  if (footer > file.size - 12 || footer > largestFooter) throw problem(`its footer has ${footer} bytes`);
}

/**
 * The rows of Parquet files, by row groups: memory holds one row group of the columns that are read. A shuffle takes row groups in another
 * order, and rows within its window. Needs the packages `hyparquet` and `hyparquet-compressors`.
 */
export const parquet = <Row extends object = AnyRow>(places: Places, options: ParquetOptions = {}): Records<Row> =>
  recordsOf(format, places, options);

/** As {@link parquet}, with the footers of all files read now: the number of rows is known. */
export const openParquet = <Row extends object = AnyRow>(
  places: Places,
  options: ParquetOptions = {},
): Promise<Records<Row>> => openAll(format, places, options);
