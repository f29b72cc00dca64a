/**
 * @module CSV and TSV by RFC 4180, from bytes to typed columns: quotes, line ends of both kinds, a mark of byte order, missing values. A
 * library makes a text of each field first, which takes three to four times as long (docs/internals/departures.md).
 */
import { isUtf8 } from "node:buffer";
import type { TypedArray } from "../../ir/dtype.ts";
import { HeddleError } from "../../util/errors.ts";
import { asRecord } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { formatCount } from "../../util/text.ts";
import { cut, lastAtMost, type Piece, type Values } from "../records/piece.ts";
import type { Records } from "../records/records.ts";
import { readAhead } from "../records/steps.ts";
import type { ByteFile, Places } from "./bytes.ts";
import { Builder, type CsvColumn } from "./csv/builder.ts";
import { type PlainReader, type PlainRecords, plainReader } from "./csv/plain.ts";
import { blocksOf, type CsvMark, fileStart, marksOf, startOf } from "./csv-blocks.ts";
import { Fields } from "./csv-fields.ts";
import { ColumnTypes, type CsvType, csvTypes, widerThan } from "./csv-types.ts";
import { checkTexts, type FileOptions, type FileReader, type Format, openAll, recordsOf } from "./files.ts";
import { checkEncoding, longestRecord, notUtf8, utf8Hint } from "./lines.ts";

export type { CsvType } from "./csv-types.ts";

/** Bytes of the longest record with the end of its line. */
const longestWithEnd = longestRecord + 2;

/** Types of columns by name. */
export type CsvColumns = { readonly [name: string]: CsvType };

/** The records of a CSV file with these columns. */
export type CsvRow<Columns extends CsvColumns> = {
  readonly [Name in keyof Columns]: Columns[Name] extends "text"
    ? string
    : Columns[Name] extends "bool"
      ? boolean
      : Columns[Name] extends "i64"
        ? bigint
        : number;
};

/** Options of {@link csv}. */
export interface CsvOptions<Columns extends CsvColumns = CsvColumns> extends FileOptions {
  /**
   * The columns to read, with their types; others are left out. Default: all, with types from the first 1,000 records: `i32` for whole
   * numbers that fit, `f64` for larger ones, `i64` for those that f64 cannot hold (`text` where values are missing, or beyond i64), `f32`
   * for numbers with a fraction and where values are missing (`f64` where f32 cannot hold a whole number of them), `bool` for true and
   * false, else `text`.
   */
  readonly columns?: Columns;
  /** Types of some columns, in the place of those that follow from the records; the other columns are read, too. Not with `columns`. */
  readonly types?: CsvColumns;
  /** The type of columns of numbers whose types follow from the records, in the place of `i32`, `f32` and `f64`. Default: as `columns` says. */
  readonly numbers?: "f32" | "f64";
  /** `true` (default): the first record names the columns; a list: the names, for files without such a record. */
  readonly header?: true | readonly string[];
  /** One character between fields; default a tab for names that end in `.tsv`, also compressed, else a comma. */
  readonly separator?: string;
  /** Fields that mean a missing value; default the empty field. It is NaN among floats, empty in text, and an error in other columns. */
  readonly missing?: readonly string[];
}

/** Records that types are inferred from. */
const sampled = 1000;

/** What is wrong with a record, and what to do. */
interface Problem {
  readonly text: string;
  readonly hint?: string;
}

/** What is known of a file before its records are read. */
interface Layout {
  readonly columns: readonly CsvColumn[];
  readonly fields: number;
}

/** How often native code is asked for the next records of a block: where many are not plain, it is no faster. */
const mostTurns = 8;

/** A reading of a file: where it is, and the records since its last piece. */
interface Reading {
  readonly builders: readonly Builder[];
  readonly fields: Fields;
  /** The number of the next line. */
  line: number;
  /** The line of each record. */
  lines: number[];
  isFirst: boolean;
}

/** Bytes that are read, of which those before `sound` are UTF-8. */
interface Block {
  readonly bytes: Buffer;
  readonly isLast: boolean;
  readonly sound: number;
}

class CsvFile {
  private readonly file: ByteFile;
  private readonly options: CsvOptions;
  private readonly separator: number;
  private readonly bad: (error: HeddleError) => void;
  private readonly missing: ReadonlySet<string>;
  private readonly isMissing: (bytes: Buffer, start: number, end: number) => boolean;

  private readonly isInferred: boolean;

  constructor(file: ByteFile, options: CsvOptions, bad: (error: HeddleError) => void, isInferred = false) {
    this.isInferred = isInferred;
    this.file = file;
    this.options = options;
    this.bad = bad;
    const { separator = /\.tsv(\.\w+)?$/i.test(file.name) ? "\t" : ",", missing = [""] } = options;
    this.separator = separator.charCodeAt(0);
    this.missing = new Set(missing);
    const longest = Math.max(0, ...missing.map((text) => Buffer.byteLength(text)));
    const isEmptyMissing = this.missing.has("");
    this.isMissing = (bytes, start, end) =>
      end === start ? isEmptyMissing : end - start <= longest && this.missing.has(bytes.toString("utf8", start, end));
  }

  /** The columns of the file, with types from its first records where none are given. */
  async layout(): Promise<Layout> {
    let left = 0;
    for await (const { bytes, isLast } of blocksOf(this.file, undefined, () => left)) {
      left = bytes.length;
      const fields = new Fields();
      checkEncoding(this.file.name, bytes);
      let at = startOf(bytes);
      const end = fields.find(bytes, at, bytes.length, this.separator, isLast);
      if (end < 0) continue;
      const { header = true, columns } = this.options;
      if (at === bytes.length) throw this.malformed("it is empty");
      const names =
        header === true ? Array.from({ length: fields.count }, (_unused, field) => fields.text(bytes, field)) : header;
      if (header === true) {
        if (fields.problem !== undefined) throw this.malformed(`line 1: ${fields.problem}`);
        if (!isUtf8(bytes.subarray(0, end))) throw this.malformed(`line 1: ${notUtf8}`, utf8Hint);
        at = end;
      }
      const twice = names.find((name, index) => names.indexOf(name) !== index);
      if (twice !== undefined) throw this.malformed(`two columns have the name ${JSON.stringify(twice)}`);
      const wanted = columns ?? this.infer(names, bytes, at, isLast, fields);
      const named = columns === undefined || this.isInferred ? this.options.types : columns;
      return { columns: placesOf(this.file, names, wanted, named ?? {}), fields: names.length };
    }
    throw this.malformed("it is empty");
  }

  private malformed(problem: string, hint?: string): HeddleError {
    const text = `${this.file.name} is not a valid CSV file: ${problem}`;
    return new HeddleError("format", text, hint === undefined ? {} : { hint });
  }

  private infer(names: readonly string[], bytes: Buffer, from: number, isLast: boolean, fields: Fields): CsvColumns {
    const seen = names.map(() => new ColumnTypes());
    for (let at = from, row = 0; row < sampled && at < bytes.length; row++) {
      at = fields.find(bytes, at, bytes.length, this.separator, isLast);
      if (at < 0) break;
      for (let field = 0; field < Math.min(fields.count, names.length); field++) {
        const column = seen[field] as ColumnTypes;
        const [start, end] = [fields.starts[field] as number, fields.ends[field] as number];
        if (this.isMissing(bytes, start, end)) column.skip();
        else column.see(bytes, start, end);
      }
    }
    const { numbers, types = {} } = this.options;
    const own = names.map((name, index): [string, CsvType] => [name, (seen[index] as ColumnTypes).type(numbers)]);
    return { ...Object.fromEntries(own), ...types };
  }

  /** The places of every so many records, and the number of all. */
  marks({ fields }: Layout): ReturnType<typeof marksOf> {
    const { header = true } = this.options;
    return marksOf(this.file, { separator: this.separator, columns: fields, hasHeader: header === true });
  }

  /** The records from `from` on, counted from those at `start`. */
  async *read(
    layout: Layout,
    from: number,
    signal: AbortSignal | undefined,
    start: CsvMark = fileStart,
  ): AsyncGenerator<Piece> {
    const { columns, fields } = layout;
    const { separator } = this;
    const longest = longestWithEnd;
    const plain = plainReader({ separator, fields, missing: [...this.missing], longest }, columns);
    const builders = columns.map((column) => new Builder(column));
    const state: Reading = { builders, fields: new Fields(), line: start.line, lines: [], isFirst: start.byte === 0 };
    let unused = 0;
    let skip = from;
    let isEmpty = true;
    const left = (piece: Piece): readonly Piece[] => {
      isEmpty &&= piece.length === 0;
      const passed = Math.min(skip, piece.length);
      skip -= passed;
      return passed === piece.length ? [] : [cut(piece, passed, piece.length)];
    };
    for await (const { bytes, isLast } of blocksOf(this.file, signal, () => unused, start.byte)) {
      // Whole lines are looked at together, and one by one where that finds a fault.
      const checked = isLast ? bytes.length : bytes.lastIndexOf(10) + 1;
      const block: Block = { bytes, isLast, sound: isUtf8(bytes.subarray(0, checked)) ? checked : 0 };
      let at = state.isFirst ? startOf(bytes) : 0;
      let turns = plain === undefined ? 0 : mostTurns;
      while (at < bytes.length) {
        if (turns > 0 && !state.isFirst && at < block.sound) {
          const found = await (plain as PlainReader)(bytes, at, block.sound);
          if (found.rows > 0) {
            yield* left(this.taken(state));
            yield* left(this.plainPiece(state, bytes, found));
            at = found.next;
          }
          if (found.isFull || at >= bytes.length) continue;
          turns--;
        }
        const next = this.one(state, block, at, layout.fields);
        if (next < 0) break;
        at = next;
      }
      unused = bytes.length - at;
      yield* left(this.taken(state));
    }
    // A file without records has its columns.
    if (isEmpty) yield this.taken(state);
  }

  /** What was read record by record since the last piece. */
  private taken(state: Reading): Piece {
    const { lines } = state;
    state.lines = [];
    const entries = state.builders.map((builder): [string, Values] => [
      builder.column.name,
      builder.take(lines.length),
    ]);
    return {
      length: lines.length,
      columns: Object.fromEntries(entries),
      place: (index) => `${this.file.name}, line ${lines[index]}`,
    };
  }

  /** Records that were read together. */
  private plainPiece(state: Reading, bytes: Buffer, { rows, columns }: PlainRecords): Piece {
    const { line } = state;
    state.line += rows;
    const isMissing = (start: number, end: number): boolean => this.isMissing(bytes, start, end);
    const entries = state.builders.map((builder, at): [string, Values] => {
      const { name, type } = builder.column;
      const values = columns[at] as TypedArray;
      return [name, type === "text" ? builder.texts(bytes, values as Int32Array, rows, isMissing) : values];
    });
    return {
      length: rows,
      columns: Object.fromEntries(entries),
      place: (index) => `${this.file.name}, line ${line + index}`,
    };
  }

  /** Takes the record at a place; gives where the next begins, or -1 where the record may go on after the block. */
  private one(state: Reading, { bytes, isLast, sound }: Block, at: number, expected: number): number {
    const { fields, line } = state;
    const next = fields.find(bytes, at, bytes.length, this.separator, isLast);
    if (next < 0) return next;
    state.line += fields.lines;
    const isBlank = fields.count === 1 && fields.ends[0] === fields.starts[0] && fields.quoted[0] === 0 && expected > 1;
    const isHeader = state.isFirst && (this.options.header ?? true) === true;
    state.isFirst = false;
    if (isBlank || isHeader) return next;
    const isText = next <= sound || isUtf8(bytes.subarray(at, next));
    const problem =
      next - at > longestWithEnd
        ? { text: `: it has more than ${longestRecord} bytes` }
        : isText
          ? this.fill(state, bytes, expected)
          : { text: `: ${notUtf8}`, hint: utf8Hint };
    if (problem === undefined) state.lines.push(line);
    else {
      const { text, hint } = problem;
      const what = `${this.file.name}, line ${line}${text}`;
      this.bad(new HeddleError("format", what, hint === undefined ? {} : { hint }));
    }
    return next;
  }

  /** Sets the values of a record; gives what is wrong, with the column. */
  private fill({ builders, fields, lines }: Reading, bytes: Buffer, expected: number): Problem | undefined {
    const isMissing = (start: number, end: number): boolean => this.isMissing(bytes, start, end);
    if (fields.problem !== undefined) return { text: `: ${fields.problem}` };
    if (fields.count !== expected)
      return {
        text: `: it has ${fields.count} ${fields.count === 1 ? "field" : "fields"}, the file has ${expected} ${expected === 1 ? "column" : "columns"}`,
      };
    for (const builder of builders) {
      const problem = builder.set(lines.length, bytes, fields, isMissing);
      if (problem === undefined) continue;
      const { name, type, isInferred } = builder.column;
      const text = `, column "${name}": ${problem}`;
      if (!isInferred) return { text };
      const isWord = problem.endsWith("is not a number");
      const other = `types: { ${JSON.stringify(name)}: "${isWord ? "text" : widerThan[type]}" }`;
      const mark = isWord ? ', or say what means a missing value: missing: ["", "NA"]' : "";
      const hint = `its type, ${type}, follows from the first ${formatCount(sampled)} records; name another: ${other}${mark}`;
      return { text, hint };
    }
    return undefined;
  }
}

function placesOf(file: ByteFile, names: readonly string[], wanted: CsvColumns, named: CsvColumns): CsvColumn[] {
  return Object.entries(wanted).map(([name, type]) => {
    const field = names.indexOf(name);
    if (field < 0)
      throw new HeddleError("data", `${file.name} has no column "${name}"`, {
        hint: `its columns are ${names.slice(0, 50).join(", ")}`,
      });
    return { name, field, type, isInferred: !Object.hasOwn(named, name) };
  });
}

function checkCsv({ columns, types, numbers, header, separator, missing }: CsvOptions): void {
  checkTexts("csv", "missing", missing);
  if (numbers !== undefined && numbers !== "f32" && numbers !== "f64")
    throw new HeddleError("option", `csv: numbers must be "f32" or "f64", got ${shown(numbers)}`);
  if (columns !== undefined && (types ?? numbers) !== undefined)
    throw new HeddleError("option", "csv: columns names all types; types and numbers are for files read without it");
  if (header !== true && !Array.isArray(header) && header !== undefined)
    throw new HeddleError("option", `csv: header must be true or a list of names, got ${shown(header)}`, {
      hint: 'for a file without names, write header: ["first", "second"]',
    });
  checkTexts("csv", "header", header === true ? undefined : header);
  if (separator !== undefined && (typeof separator !== "string" || !/^[ -~\t]$/.test(separator) || separator === '"'))
    throw new HeddleError("option", `csv: separator must be one character of ASCII, got ${shown(separator)}`);
  for (const [what, wanted] of Object.entries({ columns, types }))
    for (const [name, type] of Object.entries(wanted === undefined ? {} : asRecord(`csv: ${what}`, wanted)))
      if (!csvTypes.includes(type as CsvType))
        throw new HeddleError(
          "option",
          `csv: the type of column "${name}" must be one of ${csvTypes.join(", ")}, got ${shown(type)}`,
        );
}

/** Layouts by the options of a call: the first file gives the types of all. */
const inferred = new WeakMap<object, Promise<CsvColumns>>();

const format: Format<CsvOptions> = {
  what: "csv",
  options: ["columns", "types", "numbers", "header", "separator", "missing"],
  check: checkCsv,
  async open(file, options, bad) {
    const { csvFile, layout } = await openedFile(file, options, bad);
    return { read: (from, signal) => readAhead(csvFile.read(layout, from, signal), 1) };
  },
};

/** A file with its columns, whose types are those of the first file that was read with these options. */
async function openedFile(file: ByteFile, options: CsvOptions, bad: (error: HeddleError) => void) {
  const own = async (): Promise<CsvColumns> =>
    Object.fromEntries((await new CsvFile(file, options, bad).layout()).columns.map(({ name, type }) => [name, type]));
  const columns = options.columns ?? (await (inferred.get(options) ?? inferred.set(options, own()).get(options)));
  const csvFile = new CsvFile(
    file,
    columns === undefined ? options : { ...options, columns },
    bad,
    options.columns === undefined,
  );
  return { csvFile, layout: await csvFile.layout() };
}

const indexed: Format<CsvOptions> = {
  ...format,
  what: "openCsv",
  async open(file, options, bad): Promise<FileReader> {
    const { csvFile, layout } = await openedFile(file, options, bad);
    const { marks, length } = await csvFile.marks(layout);
    const read = (from: number, signal: AbortSignal | undefined): AsyncIterable<Piece> => {
      const mark =
        marks[
          Math.max(
            0,
            lastAtMost(
              marks.map(({ record }) => record),
              from,
            ),
          )
        ] ?? fileStart;
      return readAhead(csvFile.read(layout, from - mark.record, signal, mark), 1);
    };
    return { length, parts: marks.map(({ record }) => record), read };
  },
};

/**
 * The records of CSV or TSV files (RFC 4180), plain or compressed, here or behind HTTP and S3. Columns with types are read straight into
 * typed arrays. Records of files with other names, and fields that do not fit their type, are errors with line and column, or left out by
 * `onBad`.
 *
 * @example data.csv("people/*.csv", { columns: { age: "f32", city: "text" } })
 */
export function csv<const Columns extends CsvColumns = { readonly [name: string]: never }>(
  places: Places,
  options: CsvOptions<Columns> = {},
): Records<
  [keyof Columns] extends [never]
    ? { readonly [name: string]: unknown }
    : string extends keyof Columns
      ? { readonly [name: string]: unknown }
      : CsvRow<Columns>
> {
  return recordsOf(format, places, { ...options } as CsvOptions) as never;
}

/**
 * As {@link csv}, with an index that is made now, in one pass over the files: the number of records, and where each 4,096th begins. So a reading goes on
 * from any record, a shuffle takes parts of a file in another order, and workers that share the records (`frames.fit`) read their own. Malformed
 * records are errors when they are read: their number would not be known otherwise.
 *
 * @throws HeddleError `option` for `onBad`, which leaves records out
 */
export async function openCsv<const Columns extends CsvColumns = { readonly [name: string]: never }>(
  places: Places,
  options: Omit<CsvOptions<Columns>, "onBad"> = {},
): Promise<ReturnType<typeof csv<Columns>>> {
  const { onBad = "fail" } = asRecord("openCsv", options) as CsvOptions;
  if (onBad !== "fail")
    throw new HeddleError("option", "openCsv: onBad leaves records out, so that their number would not be known", {
      hint: "data.csv takes onBad",
    });
  return (await openAll(indexed, places, { ...options } as CsvOptions)) as never;
}
