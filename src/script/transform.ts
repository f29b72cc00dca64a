/**
 * @module Encoders of frames: what `transformencode` learns of each column, how it becomes numbers, and how numbers become text again.
 * The metadata of an encoding is a frame of text, as SystemDS writes it: a row for each code of a column.
 */

import { dense, type Matrix } from "../matrix/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { Frame, numberFrom } from "./values.ts";

/** Between a token and its code, and between the ends of a bin, in metadata. */
const mark = "·";

type BinMethod = "equi-width" | "equi-height";
type ImputeMethod = "global_mean" | "global_mode" | "constant";

/** A specification: positions of columns, from 0, and what happens to them. */
export interface TransformSpec {
  readonly recode: ReadonlySet<number>;
  readonly dummycode: ReadonlySet<number>;
  readonly hash: ReadonlySet<number>;
  /** How many codes hashed columns have. */
  readonly buckets: number;
  readonly omit: ReadonlySet<number>;
  readonly bin: ReadonlyMap<number, { readonly method: BinMethod; readonly count: number }>;
  readonly impute: ReadonlyMap<number, { readonly method: ImputeMethod; readonly value: string | undefined }>;
}

/** What was learned of a column. */
export interface ColumnEncoding {
  readonly kind: "pass" | "recode" | "bin" | "hash";
  /** Codes of tokens, from 1. */
  readonly codes: ReadonlyMap<string, number>;
  /** The ends of each bin: the first of one is the last of the one before. */
  readonly bins: readonly (readonly [low: number, high: number])[];
  /** How many codes there are: so many columns a dummy-coded column has. */
  readonly count: number;
  readonly method: BinMethod;
  readonly isDummy: boolean;
  /** What stands for a missing value. */
  readonly imputed: string | undefined;
}

const malformed = (what: string): HeddleError =>
  new HeddleError("argument", `transform: ${what}`, {
    hint: 'a specification is JSON, as {"ids": true, "recode": [1, 2], "bin": [{"id": 3, "method": "equi-width", "numbins": 5}]}',
  });

/** JSON as SystemDS takes it: words may have no quotes, texts single ones. */
export function laxJson(text: string): Record<string, unknown> {
  const strict = text.replace(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_][\w.-]*/gs, (word) => {
    if (word.startsWith("'")) return JSON.stringify(word.slice(1, -1));
    return word.startsWith('"') || /^(true|false|null)$/.test(word) ? word : JSON.stringify(word);
  });
  let value: unknown;
  try {
    value = JSON.parse(strict);
  } catch (error) {
    throw new HeddleError("argument", `transform: the specification is not JSON: ${(error as Error).message}`, {
      cause: error,
    });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw malformed(`${shown(value)} is no object`);
  return value as Record<string, unknown>;
}

const keys = new Set(["ids", "recode", "dummycode", "hash", "K", "omit", "bin", "impute"]);

/** Reads a specification for the columns of a frame. @throws HeddleError `argument` */
export function specOf(text: string, names: readonly string[]): TransformSpec {
  const spec = laxJson(text);
  const unknown = Object.keys(spec).find((key) => !keys.has(key));
  if (unknown !== undefined) throw malformed(`"${unknown}" is not there: ${[...keys].join(", ")} are`);
  const byId = spec.ids === true || spec.ids === "true";
  const place = (column: unknown): number => {
    const at = byId ? Number(column) - 1 : names.indexOf(String(column));
    if (Number.isInteger(at) && at >= 0 && at < names.length) return at;
    throw malformed(
      byId
        ? `the column ${shown(column)} is outside of 1 to ${names.length}`
        : `the frame has no column ${shown(column)}`,
    );
  };
  const list = (key: string): readonly unknown[] => {
    const value = spec[key] ?? [];
    if (!Array.isArray(value)) throw malformed(`"${key}" is ${shown(value)}, not a list`);
    return value;
  };
  const places = (key: string): ReadonlySet<number> => new Set(list(key).map(place));
  const objects = (key: string): readonly (readonly [number, Record<string, unknown>])[] =>
    list(key).map((item) => {
      const one = item as Record<string, unknown>;
      if (typeof item !== "object" || item === null) throw malformed(`"${key}" holds ${shown(item)}, not an object`);
      return [place(one.id ?? one.name), one] as const;
    });
  const hash = places("hash");
  const buckets = Number(spec.K ?? 0);
  if (hash.size > 0 && !(Number.isInteger(buckets) && buckets > 0))
    throw malformed('"hash" needs "K", the number of codes');
  return {
    recode: places("recode"),
    dummycode: places("dummycode"),
    hash,
    buckets,
    omit: places("omit"),
    bin: new Map(objects("bin").map(([at, one]) => [at, binOf(one)])),
    impute: new Map(objects("impute").map(([at, one]) => [at, imputeOf(one)])),
  };
}

function binOf({ method = "equi-width", numbins }: Record<string, unknown>): {
  readonly method: BinMethod;
  readonly count: number;
} {
  const count = Number(numbins);
  if (!(Number.isInteger(count) && count > 0)) throw malformed(`"numbins" is ${shown(numbins)}, not a number of bins`);
  if (method !== "equi-width" && method !== "equi-height")
    throw malformed(`there is no method ${shown(method)} of bins: "equi-width" and "equi-height" are`);
  return { method, count };
}

function imputeOf({ method, value }: Record<string, unknown>): {
  readonly method: ImputeMethod;
  readonly value: string | undefined;
} {
  if (method !== "global_mean" && method !== "global_mode" && method !== "constant")
    throw malformed(
      `there is no method ${shown(method)} of missing values: "global_mean", "global_mode", "constant" are`,
    );
  if (method === "constant" && value === undefined) throw malformed('the method "constant" needs a "value"');
  return { method, value: value === undefined ? undefined : String(value) };
}

/** Whether a cell has no value. */
export const isMissing = (text: string): boolean => text === "" || text === "NaN";

const numberOfCell = (text: string, column: number): number => {
  if (isMissing(text)) return Number.NaN;
  const value = /^(true|false)$/i.test(text) ? Number(/^t/i.test(text)) : numberFrom(text);
  if (value !== undefined) return value;
  throw new HeddleError("value", `transform: "${text}" in column ${column + 1} is not a number`, {
    hint: "recode, dummycode or hash the column",
  });
};

const mostFrequent = (cells: readonly string[]): string | undefined => {
  const counts = new Map<string, number>();
  for (const text of cells) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].reduce<readonly [string, number] | undefined>(
    (best, one) => (best === undefined || one[1] > best[1] ? one : best),
    undefined,
  )?.[0];
};

function imputedOf(cells: readonly string[], spec: TransformSpec, column: number): string | undefined {
  const impute = spec.impute.get(column);
  if (impute === undefined) return undefined;
  const there = cells.filter((text) => !isMissing(text));
  if (impute.method === "constant") return impute.value;
  if (impute.method === "global_mode") return mostFrequent(there);
  return String(there.reduce((sum, text) => sum + numberOfCell(text, column), 0) / there.length);
}

const kindOf = (spec: TransformSpec, column: number): ColumnEncoding["kind"] => {
  if (spec.bin.has(column)) return "bin";
  if (spec.hash.has(column)) return "hash";
  return spec.recode.has(column) || spec.dummycode.has(column) ? "recode" : "pass";
};

/** What a specification learns of the columns of a frame. @throws HeddleError `value` for text where numbers are needed */
export function learned(frame: Frame, spec: TransformSpec): readonly ColumnEncoding[] {
  return frame.columns.map((column, at) => {
    const imputed = imputedOf(column, spec, at);
    const cells = imputed === undefined ? column : column.map((text) => (isMissing(text) ? imputed : text));
    const there = cells.filter((text) => !isMissing(text));
    return encodingOf(spec, at, imputed, codesOf(there), binsOf(there, spec, at));
  });
}

function encodingOf(
  spec: TransformSpec,
  at: number,
  imputed: string | undefined,
  codes: ReadonlyMap<string, number>,
  bins: ColumnEncoding["bins"],
): ColumnEncoding {
  const kind = kindOf(spec, at);
  const count = { pass: 1, recode: codes.size, bin: bins.length, hash: spec.buckets }[kind];
  const method = spec.bin.get(at)?.method ?? "equi-width";
  return {
    kind,
    codes: kind === "recode" ? codes : new Map(),
    bins,
    count,
    method,
    isDummy: spec.dummycode.has(at),
    imputed,
  };
}

/** Codes in the order in which the tokens come first. */
function codesOf(tokens: readonly string[]): ReadonlyMap<string, number> {
  const codes = new Map<string, number>();
  for (const text of tokens) if (!codes.has(text)) codes.set(text, codes.size + 1);
  return codes;
}

function binsOf(cells: readonly string[], spec: TransformSpec, at: number): ColumnEncoding["bins"] {
  const bin = spec.bin.get(at);
  if (bin === undefined) return [];
  const sorted = cells.map((text) => numberOfCell(text, at)).sort((a, b) => a - b);
  const [low, high] = [sorted[0] ?? Number.NaN, sorted.at(-1) ?? Number.NaN];
  if (bin.method === "equi-width") {
    const count = low === high ? 1 : bin.count;
    const end = (index: number): number => low + (index * (high - low)) / count;
    return Array.from({ length: count }, (_unused, index) => [end(index), end(index + 1)] as const);
  }
  const ends = Array.from({ length: bin.count }, (_unused, index) => {
    const share = (sorted.length * (index + 1)) / bin.count;
    return index === bin.count - 1 ? high : (sorted[Number.isInteger(share) ? share - 1 : Math.floor(share)] as number);
  });
  return ends.map((end, index) => [index === 0 ? low : (ends[index - 1] as number), end] as const);
}

/** Java's hash of a text. */
const hashOf = (text: string): number => {
  let hash = 0;
  for (let index = 0; index < text.length; index++) hash = (Math.imul(31, hash) + text.charCodeAt(index)) | 0;
  return hash;
};

/** The number of a cell: its code, or the number itself. NaN for a missing value or a token that was not learned. */
function codeOf(text: string, encoding: ColumnEncoding, column: number): number {
  switch (encoding.kind) {
    case "pass":
      return numberOfCell(text, column);
    case "recode":
      return encoding.codes.get(text) ?? Number.NaN;
    case "hash":
      return isMissing(text) ? Number.NaN : Math.abs(hashOf(text) % encoding.count) + 1;
    case "bin":
      return binOfNumber(numberOfCell(text, column), encoding);
  }
}

function binOfNumber(value: number, { bins, method }: ColumnEncoding): number {
  if (Number.isNaN(value)) return Number.NaN;
  const [low, high] = [bins[0]?.[0] as number, bins.at(-1)?.[1] as number];
  if (method === "equi-width") {
    const at = low === high ? 1 : Math.ceil(((value - low) / (high - low)) * bins.length);
    return Math.min(Math.max(at, 1), bins.length);
  }
  const at = bins.findIndex(([, end]) => value <= end);
  return at < 0 ? bins.length : at + 1;
}

/** The columns of the result that a column of the frame has. */
const widthOf = ({ isDummy, count }: ColumnEncoding): number => (isDummy ? count : 1);

/** A frame as numbers. Rows with a missing value in a column that is to be omitted are left out. */
export function encoded(frame: Frame, encodings: readonly ColumnEncoding[], spec: TransformSpec): Matrix {
  if (encodings.length !== frame.columns.length)
    throw new HeddleError(
      "shape",
      `transform: the metadata has ${encodings.length} columns, the frame ${frame.columns.length}`,
    );
  const kept = Array.from({ length: frame.rows }, (_unused, row) => row).filter((row) =>
    [...spec.omit].every((column) => !isMissing(frame.columns[column]?.[row] as string)),
  );
  const width = encodings.reduce((sum, one) => sum + widthOf(one), 0);
  const data = new Float64Array(kept.length * width);
  let start = 0;
  encodings.forEach((encoding, column) => {
    kept.forEach((row, at) => {
      const cell = frame.columns[column]?.[row] as string;
      const text = encoding.imputed !== undefined && isMissing(cell) ? encoding.imputed : cell;
      const code = codeOf(text, encoding, column);
      if (!encoding.isDummy) data[at * width + start] = code;
      // A missing value has a 1 in no column.
      else if (code >= 1) data[at * width + start + code - 1] = 1;
    });
    start += widthOf(encoding);
  });
  return dense(data, kept.length, width);
}

/** The metadata of encodings. */
export function metadataOf(encodings: readonly ColumnEncoding[], names: readonly string[]): Frame {
  const columns = encodings.map(({ codes, bins, kind, count }) => {
    if (kind === "bin") return bins.map(([low, high]) => `${low}${mark}${high}`);
    return kind === "hash" ? [String(count)] : [...codes].map(([token, code]) => `${token}${mark}${code}`);
  });
  const rows = columns.reduce((most, { length }) => Math.max(most, length), 1);
  return new Frame(
    columns.map((column) => [...column, ...new Array<string>(rows - column.length).fill("")]),
    names,
    undefined,
    encodings.map(({ imputed }) => imputed),
  );
}

/** The encodings of metadata. @throws HeddleError `value` for metadata that does not belong to the specification */
export function encodingsOf(meta: Frame, spec: TransformSpec): readonly ColumnEncoding[] {
  return meta.columns.map((column, at) => {
    const kind = kindOf(spec, at);
    const cells = column.filter((text) => text !== "");
    const parts = cells.map((text) => {
      const split = text.lastIndexOf(mark);
      if (split < 0 && (kind === "recode" || kind === "bin"))
        throw new HeddleError("value", `transform: "${text}" in column ${at + 1} of the metadata has no '${mark}'`);
      return [text.slice(0, split), text.slice(split + 1)] as const;
    });
    const codes = new Map(parts.map(([token, code]) => [token, Number(code)]));
    const bins = kind === "bin" ? parts.map(([low, high]) => [Number(low), Number(high)] as const) : [];
    return encodingOf(spec, at, meta.imputed?.[at], codes, bins);
  });
}

/** Numbers as text again: tokens of codes, the middle of bins. */
export function decoded(
  data: Float64Array,
  rows: number,
  encodings: readonly ColumnEncoding[],
  names: readonly string[],
): Frame {
  const width = encodings.reduce((sum, one) => sum + widthOf(one), 0);
  if (data.length !== rows * width)
    throw new HeddleError(
      "shape",
      `transformdecode: a matrix of ${data.length / Math.max(rows, 1)} columns, where the metadata has ${width}`,
    );
  let start = 0;
  const columns = encodings.map((encoding) => {
    const tokens = new Map([...encoding.codes].map(([token, code]) => [code, token]));
    const from = start;
    start += widthOf(encoding);
    return Array.from({ length: rows }, (_unused, row) => {
      const cells = data.subarray(row * width + from, row * width + start);
      const code = encoding.isDummy ? cells.findIndex((cell) => cell !== 0) + 1 : (cells[0] as number);
      if (encoding.kind === "recode") return tokens.get(Math.trunc(code)) ?? "";
      return encoding.kind === "bin" ? middleOf(code, encoding) : String(code);
    });
  });
  return new Frame(
    columns,
    names,
    encodings.map(({ kind }) => (kind === "recode" ? "STRING" : "FP64")),
  );
}

function middleOf(code: number, { bins }: ColumnEncoding): string {
  const at = Math.round(code);
  const found = bins[at - 1];
  if (found === undefined) return "NaN";
  const [low, high] = found;
  return String(low + (high - low) / 2 + (code - at) * (high - low));
}

/** For each column: itself, and the first and last column of the result that it becomes; all count from 1. */
export function columnMap(encodings: readonly ColumnEncoding[]): Matrix {
  let start = 0;
  const rows = encodings.flatMap((encoding, at) => {
    const first = start + 1;
    start += widthOf(encoding);
    return [at + 1, first, start];
  });
  return dense(Float64Array.from(rows), encodings.length, 3);
}
