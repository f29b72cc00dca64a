/** @module Files of scripts: csv, text (row column value), mm (Matrix Market), libsvm, and the metadata beside them. */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { blockStart } from "../matrix/distributed/layout.ts";
import { workersNow } from "../matrix/distributed/workers.ts";
import { dense, entries, Matrix, rowBlocks } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { indexRows, isBlank, RowFile } from "./row-files.ts";
import { withSchema } from "./schema.ts";
import { boolean, double, Frame, int, kindOf, numberFrom, Scalar, string, type Value } from "./values.ts";

/** What is said about a file, in the call or in its metadata. */
export interface FileFacts {
  readonly format: string | undefined;
  readonly dataType: string | undefined;
  readonly valueType: string | undefined;
  readonly rows: number | undefined;
  readonly columns: number | undefined;
  readonly header: boolean | undefined;
  readonly separator: string | undefined;
  /** The types of a frame's columns. */
  readonly schema: string | undefined;
}

/** Below this share of entries a matrix that is given by entries keeps them. */
const sparseShare = 0.1;
const smallSize = 4096;

/** The text of a file. @throws HeddleError `file` for a folder, a file that cannot be read, and one that is too long for a text */
export function textOfFile(what: string, path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isLong = code === "ERR_STRING_TOO_LONG" || code === "ERR_FS_FILE_TOO_LARGE";
    const reason =
      code === "EISDIR" ? "is a folder" : isLong ? "has more than 512 MiB, the most that a text can have" : message;
    throw new HeddleError("file", `${what}: ${path} ${reason}`, {
      cause: error,
      ...(isLong && { hint: "cut the file into several, and join them with rbind" }),
    });
  }
}

/** Makes a folder and those around it. Node's recursive mkdir never ends where a folder such as /proc/x cannot be made. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  if (dirname(folder) !== folder) makeFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

const missingFile = (path: string): HeddleError => new HeddleError("file", `read: there is no file ${path}`);

/** The facts of `path.mtd`. */
function metadataOf(path: string): Partial<FileFacts> {
  const file = `${path}.mtd`;
  if (!existsSync(file)) return {};
  let data: Record<string, unknown>;
  try {
    data = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
  } catch (error) {
    throw new HeddleError("format", `read: ${file} is not JSON`, { cause: error });
  }
  const text = (name: string) => (data[name] === undefined ? {} : { [name]: String(data[name]) });
  return {
    ...text("format"),
    ...text("schema"),
    ...(data.data_type === undefined ? {} : { dataType: String(data.data_type) }),
    ...(data.value_type === undefined ? {} : { valueType: String(data.value_type) }),
    ...(data.rows === undefined ? {} : { rows: Number(data.rows) }),
    ...(data.cols === undefined ? {} : { columns: Number(data.cols) }),
    ...(data.header === undefined ? {} : { header: data.header === true || data.header === "true" }),
    ...(data.sep === undefined ? {} : { separator: String(data.sep) }),
  };
}

/** Reads a value. @throws HeddleError `file` for a file that is not there; `format` with the line that is malformed */
export function readFileValue(path: string, said: FileFacts): Value {
  const stored = metadataOf(path);
  const facts = {
    ...stored,
    ...Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined)),
  } as Partial<FileFacts>;
  if (!existsSync(path)) throw missingFile(path);
  const type =
    facts.dataType ??
    (facts.valueType !== undefined && facts.rows === undefined && facts.format === undefined ? "scalar" : "matrix");
  const isCsv = (facts.format ?? (path.endsWith(".csv") ? "csv" : "text")) === "csv";
  const blocks = type === "matrix" && isCsv ? csvBlocks(path, facts) : undefined;
  if (blocks !== undefined) return blocks;
  const text = textOfFile("read", path);
  if (type === "scalar") return scalarOf(path, text.trim(), facts.valueType ?? "string");
  const isMarket = text.startsWith("%%MatrixMarket");
  const format = facts.format ?? (isMarket ? "mm" : path.endsWith(".csv") ? "csv" : "text");
  if (type === "frame") {
    if (format !== "csv") throw new HeddleError("format", `read: a frame is read from csv, not from ${format}`);
    return frameOf(path, text, facts);
  }
  switch (format) {
    case "csv":
      return csvMatrix(path, text, facts);
    case "text":
      return cellMatrix(path, linesOf(text), facts.rows, facts.columns);
    case "mm":
      return marketMatrix(path, text);
    case "libsvm":
      return libsvmMatrix(path, text, facts);
    default:
      throw new HeddleError("format", `read: the format "${format}" is not there`, {
        hint: "csv, text, mm and libsvm are",
      });
  }
}

function scalarOf(path: string, text: string, type: string): Scalar {
  if (/^bool/i.test(type)) {
    if (!/^(true|false)$/i.test(text)) throw malformed(path, 1, `"${text}" is not TRUE or FALSE`);
    return boolean(/^true$/i.test(text));
  }
  if (!/^(double|fp|int)/i.test(type)) return string(text);
  const value = numberFrom(text);
  if (value === undefined || (/^int/i.test(type) && !Number.isInteger(value)))
    throw malformed(path, 1, `"${text}" is not ${/^int/i.test(type) ? "a whole number" : "a number"}`);
  return /^int/i.test(type) ? int(value) : double(value);
}

const linesOf = (text: string, before = 0): readonly (readonly [line: number, text: string])[] =>
  text
    .split("\n")
    .flatMap((line, index) => (isBlank(line) ? [] : [[before + index + 1, line.replace(/\r$/, "")] as const]));

const malformed = (path: string, line: number, what: string): HeddleError =>
  new HeddleError("format", `read: ${path}:${line}: ${what}`);

function numberOf(path: string, line: number, word: string): number {
  const text = word.trim();
  if (text === "") return 0;
  const value = text === "NA" ? Number.NaN : numberFrom(text);
  if (value === undefined) throw malformed(path, line, `"${text}" is not a number`);
  return value;
}

/** A row or a column, which count from 1 in files, as a position from 0. */
function placeOf(path: string, line: number, word: string): number {
  const value = numberOf(path, line, word);
  if (!Number.isInteger(value) || value < 1)
    throw malformed(path, line, `"${word}" is not a row or a column: they are whole numbers from 1 on`);
  return value - 1;
}

/** A csv file of which each worker reads its rows; undefined where this process computes alone, or the matrix is whole on each worker. */
function csvBlocks(path: string, facts: Partial<FileFacts>): Matrix | undefined {
  const workers = workersNow();
  if (workers === undefined) return undefined;
  const { header = false, separator = "," } = facts;
  const file = new RowFile(path);
  try {
    // A number takes two bytes at least.
    if (4 * file.bytes <= workers.wholeBytes) return undefined;
    const together = { ...workers.place, sum: (numbers: readonly number[]) => workers.sum(numbers) };
    const index = indexRows(file, { header, separator }, together, (all, rank) => blockStart(all, rank, workers.size));
    const { rows, columns } = index;
    if (!workers.isCut([rows, columns])) return undefined;
    checkCounts(path, facts, index);
    return rowBlocks([rows, columns], (from, to) => {
      const data = new Float64Array((to - from) * columns);
      let filled = 0;
      for (const { text, line } of index.own())
        filled = fillRows(path, linesOf(text, line - 1), separator, columns, data, filled);
      return data;
    });
  } finally {
    file.close();
  }
}

function csvMatrix(path: string, text: string, facts: Partial<FileFacts>): Matrix {
  const { header, separator = ",", columns: said = 0 } = facts;
  const lines = linesOf(text).slice(header === true ? 1 : 0);
  const columns = lines[0]?.[1].split(separator).length ?? (said > 0 ? said : 0);
  checkCounts(path, facts, { rows: lines.length, columns, line: lines[0]?.[0] ?? 1 });
  const data = new Float64Array(lines.length * columns);
  fillRows(path, lines, separator, columns, data, 0);
  return dense(data, lines.length, columns);
}

/** @throws HeddleError `format` where a csv file is of another size than its facts say; what is not positive says nothing */
function checkCounts(
  path: string,
  said: Partial<FileFacts>,
  { rows, columns, line }: { readonly rows: number; readonly columns: number; readonly line: number },
): void {
  if ((said.columns ?? -1) > 0 && said.columns !== columns)
    throw malformed(path, line, `${columns} columns, where ${said.columns} are said`);
  if ((said.rows ?? -1) > 0 && said.rows !== rows)
    throw malformed(path, rows, `${rows} rows, where ${said.rows} are said`);
}

/** Writes lines of csv into `data` from a position on. Returns the position after them. */
function fillRows(
  path: string,
  lines: ReturnType<typeof linesOf>,
  separator: string,
  columns: number,
  data: Float64Array,
  from: number,
): number {
  lines.forEach(([line, row], index) => {
    const words = row.split(separator);
    if (words.length !== columns)
      throw malformed(path, line, `${words.length} columns, where the first row has ${columns}`);
    words.forEach((word, column) => {
      data[from + index * columns + column] = numberOf(path, line, word);
    });
  });
  return from + lines.length * columns;
}

/** A line of csv; quotes hold separators. */
function fieldsOf(line: string, separator: string): string[] {
  const fields: string[] = [];
  let [field, quoted] = ["", false];
  for (let index = 0; index < line.length; index++) {
    const letter = line[index] as string;
    if (letter === '"' && quoted && line[index + 1] === '"') {
      field += letter;
      index++;
    } else if (letter === '"') quoted = !quoted;
    else if (letter === separator && !quoted) {
      fields.push(field);
      field = "";
    } else field += letter;
  }
  return [...fields, field];
}

/** Lines whose quotes are closed: a field in quotes may go over several lines. */
function joinedLines(lines: readonly string[]): string[] {
  const joined: string[] = [];
  let open = "";
  for (const line of lines) {
    const whole = open === "" ? line : `${open}\n${line}`;
    open = whole.split('"').length % 2 === 0 ? whole : "";
    if (open === "") joined.push(whole);
  }
  return open === "" ? joined : [...joined, open];
}

function frameOf(path: string, text: string, { header, separator = ",", schema }: Partial<FileFacts>): Frame {
  const lines = joinedLines(linesOf(text).map(([, line]) => line)).map((line) => fieldsOf(line, separator));
  const names = header === true ? lines.shift() : undefined;
  const width = lines[0]?.length ?? names?.length ?? 0;
  const columns = Array.from({ length: width }, (_unused, column) => lines.map((line) => line[column] ?? ""));
  if (schema === undefined) return new Frame(columns, names);
  const typed = withSchema(path, schema, columns);
  return new Frame(typed.columns, names, typed.schema);
}

function cellMatrix(
  path: string,
  lines: readonly (readonly [number, string])[],
  rows?: number,
  columns?: number,
): Matrix {
  const [i, j, values]: [number[], number[], number[]] = [[], [], []];
  for (const [line, text] of lines) {
    const words = text.trim().split(/\s+/);
    if (words.length !== 3) throw malformed(path, line, "a line has row, column and value");
    i.push(placeOf(path, line, words[0] as string));
    j.push(placeOf(path, line, words[1] as string));
    values.push(numberOf(path, line, words[2] as string));
  }
  const most = (places: readonly number[]): number =>
    places.reduce((largest, place) => Math.max(largest, place + 1), 0);
  return ofCells(values, i, j, rows ?? most(i), columns ?? most(j));
}

function ofCells(
  values: readonly number[],
  i: readonly number[],
  j: readonly number[],
  rows: number,
  columns: number,
): Matrix {
  if (rows * columns > smallSize && values.length < sparseShare * rows * columns)
    return entries(values, i, j, [rows, columns]);
  const data = new Float64Array(rows * columns);
  values.forEach((value, index) => {
    const [row, column] = [i[index] as number, j[index] as number];
    if (row >= rows || column < 0 || column >= columns || !Number.isInteger(column))
      throw new HeddleError("shape", `read: the place ${row + 1}, ${column + 1} is outside of ${rows}x${columns}`);
    // Entries of one place add up, as they do in a matrix of entries.
    data[row * columns + column] = (data[row * columns + column] as number) + value;
  });
  return dense(data, rows, columns);
}

function marketMatrix(path: string, text: string): Matrix {
  const lines = linesOf(text);
  const banner = lines[0]?.[1].toLowerCase().split(/\s+/) ?? [];
  const [size, ...cells] = lines.slice(1).filter(([, line]) => !line.startsWith("%"));
  if (size === undefined || !/^(coordinate|array)$/.test(banner[2] ?? "") || banner[3] === "complex")
    throw malformed(path, 1, "only real matrices of Matrix Market are read");
  const counts = size[1].trim().split(/\s+/).map(numberFrom);
  const [rows, columns, declared] = counts;
  if (
    rows === undefined ||
    columns === undefined ||
    counts.some((count) => !(Number.isInteger(count) && (count ?? -1) >= 0))
  )
    throw malformed(path, size[0], "the sizes are not whole numbers");
  const wanted = banner[2] === "array" ? rows * columns : declared;
  if (cells.length !== wanted)
    throw malformed(path, cells.at(-1)?.[0] ?? size[0], `${cells.length} entries, where ${wanted ?? "none"} are said`);
  if (banner[2] === "array")
    return dense(
      Float64Array.from(cells, ([line, word]) => numberOf(path, line, word)),
      columns,
      rows,
    ).T;
  const isPattern = banner[3] === "pattern";
  const full = cells.map(([line, cell]) => [line, isPattern ? `${cell} 1` : cell] as const);
  const mirrored = /symmetric$/.test(banner[4] ?? "")
    ? full.flatMap(([line, cell]) => {
        const [i, j, value] = cell.trim().split(/\s+/) as [string, string, string];
        const sign = banner[4] === "skew-symmetric" ? "-" : "";
        return i === j
          ? [[line, cell] as const]
          : [[line, cell] as const, [line, `${j} ${i} ${sign}${value}`.replace("--", "")] as const];
      })
    : full;
  return cellMatrix(path, mirrored, rows, columns);
}

/** The label in the last column, as SystemDS has it. */
function libsvmMatrix(path: string, text: string, { columns }: Partial<FileFacts>): Matrix {
  const [i, j, values]: [number[], number[], number[]] = [[], [], []];
  const lines = linesOf(text).filter(([, row]) => row.trim() !== "");
  const rows = lines.map(([line, row]) =>
    row
      .trim()
      .split(/\s+/)
      .map((word) => word.split(":").map((part) => numberOf(path, line, part))),
  );
  const width =
    columns ??
    1 + rows.reduce((most, row) => row.slice(1).reduce((least, [at]) => Math.max(least, at as number), most), 0);
  rows.forEach(([label, ...features], row) => {
    for (const [at, value] of [...features, [width, label?.[0] ?? 0]] as [number, number][]) {
      i.push(row);
      j.push(at - 1);
      values.push(value);
    }
  });
  return ofCells(values, i, j, rows.length, width);
}

/** Writes a value and its metadata. @throws HeddleError `file`; `format` for a format that is not there */
export function writeFileValue(
  path: string,
  value: Value,
  { format, header, separator }: { readonly format: string; readonly header: boolean; readonly separator: string },
): void {
  const facts = value instanceof Scalar ? {} : { rows: sizeOf(value)[0], cols: sizeOf(value)[1], format };
  const type = value instanceof Scalar ? "scalar" : value instanceof Frame ? "frame" : "matrix";
  const valueType =
    value instanceof Scalar ? (value.type === "int" ? "int" : value.type) : type === "frame" ? "string" : "double";
  const csv = format === "csv" ? { header, sep: separator } : {};
  const schema = value instanceof Frame ? { schema: value.schema.join(",") } : {};
  try {
    // Workers compute the same, and one of them writes; the others go on when the file is there.
    const workers = workersNow();
    const text = textOfValue(value, format, header, separator);
    if (workers === undefined || workers.place.rank === 0) {
      makeFolder(dirname(path));
      writeFileSync(path, text);
      writeFileSync(
        `${path}.mtd`,
        `${JSON.stringify({ data_type: type, value_type: valueType, ...facts, ...schema, ...csv }, null, 2)}\n`,
      );
    }
    workers?.sum([0]);
  } catch (error) {
    if (error instanceof HeddleError) throw error;
    throw new HeddleError("file", `write: ${path}: ${(error as Error).message}`, { cause: error });
  }
}

const sizeOf = (value: Value): readonly [number, number] =>
  value instanceof Frame ? [value.rows, value.columns.length] : value instanceof Matrix ? value.shape : [1, 1];

/** A field of csv: in quotes where the field holds a separator, a quote or the end of a line. */
const quoted = (field: string, separator: string): string =>
  field.includes(separator) || /["\n\r]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;

function textOfValue(value: Value, format: string, header: boolean, separator: string): string {
  if (value instanceof Scalar) return `${value.text}\n`;
  if (value instanceof Frame) {
    const line = (fields: readonly string[]): string => fields.map((field) => quoted(field, separator)).join(separator);
    const rows = Array.from({ length: value.rows }, (_unused, row) =>
      line(value.columns.map((column) => column[row] as string)),
    );
    return `${[...(header ? [line(value.names)] : []), ...rows].join("\n")}\n`;
  }
  if (!(value instanceof Matrix)) throw new HeddleError("argument", `write: cannot take ${kindOf(value)}`);
  const rows = value.arraySync();
  if (format === "csv") {
    const names = Array.from({ length: value.columns }, (_unused, column) => `C${column + 1}`).join(separator);
    return `${[...(header ? [names] : []), ...rows.map((row) => row.join(separator))].join("\n")}\n`;
  }
  const cells = rows.flatMap((row, i) => row.flatMap((cell, j) => (cell === 0 ? [] : [`${i + 1} ${j + 1} ${cell}`])));
  if (format === "text") return cells.map((cell) => `${cell}\n`).join("");
  if (format === "mm")
    return `%%MatrixMarket matrix coordinate real general\n${value.rows} ${value.columns} ${cells.length}\n${cells.map((cell) => `${cell}\n`).join("")}`;
  throw new HeddleError("format", `write: the format "${format}" is not there`, { hint: "csv, text and mm are" });
}
