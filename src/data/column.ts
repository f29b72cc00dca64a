/** @module A column: one tensor whose first dim counts the rows of a dataset; its values are read when they are needed. */

import { converted, type NumberArray, ofNested } from "../functions/create.ts";
import { isTensor } from "../functions/index.ts";
import { arrayKind, type DType, dtypes, isDType, type Stored, storedArray, type TypedArray } from "../ir/dtype.ts";
import { formatShape, type Shape, sizeOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { isRecord } from "../util/tree.ts";

/**
 * What the graph does to a column's values before the model sees them: `cast(stored, dtype) * scale + offset`.
 * It is applied inside the step, so that bytes stay bytes in memory.
 */
export interface Transform {
  readonly dtype: DType;
  /** Default 1. */
  readonly scale?: number;
  /** Default 0. */
  readonly offset?: number;
}

/** Row numbers: 32 bits where they suffice, else doubles, which hold every row that a dataset may have. */
export type RowIndices = Int32Array | Float64Array;

/** Consecutive rows. */
export interface RowRange {
  readonly first: number;
  readonly count: number;
}

/** When rows are read: rows that are made of records may differ by epoch. */
export interface ReadMoment {
  /** Counted from 0. */
  readonly epoch: number;
  /** The run's seed. */
  readonly seed: number;
}

/** One column of a dataset. */
export interface Column {
  readonly name: string;
  /** Shape of the whole column, rows first. */
  readonly shape: Shape;
  /** Dtype as stored. */
  readonly dtype: DType;
  readonly transform: Transform | undefined;
  /**
   * All stored values, row-major, in an array that callers must not change: the same array every time, for a column with `read` as
   * long as someone holds the array. It suits columns that fit into memory.
   */
  load(): Promise<TypedArray>;
  /**
   * The stored values of the chosen rows, one after another, without reading the others. Absent where the values are in memory, or can
   * only be read as a whole.
   */
  readonly read?: (rows: RowIndices, moment?: ReadMoment) => Promise<TypedArray>;
  /** Whether the rows have other values in each epoch, as those of a stream may: then they are never kept. Default false. */
  readonly byEpoch?: boolean;
  /**
   * What the values of these rows are recognised by: two columns with the same text have the same values. `whole` reads every
   * value; without it, a sample of blocks is enough. Absent: the values themselves are hashed.
   */
  readonly identity?: (rows: RowRange, whole: boolean) => Promise<string>;
  /**
   * For each row how many of its elements along dim 1 are a sequence, after which it is padded. `Dataset.batchByLength` cuts such a
   * column to the length of each batch.
   */
  readonly lengths?: Int32Array;
}

/** Values of a column for {@link columnFromArray}. */
export interface ArrayColumn {
  readonly shape: Shape;
  /** Default: the dtype of the typed array, i32 for 16-bit integers; `"f32"` for a plain array of numbers. */
  readonly dtype?: DType;
  /**
   * Row-major values in one flat array, each a value of the dtype (integers take no fraction, NaN, or number out of range).
   * A typed array is used without a copy, unless it has 16-bit integers; an array of typed arrays holds them one after another.
   */
  readonly data: NumberArray | readonly number[] | readonly NumberArray[];
  readonly transform?: Transform;
  /** Lengths of padded sequences, as {@link Column.lengths}: one for each row, at most the second dim. */
  readonly lengths?: ArrayLike<number>;
}

/** Options of {@link padded}. */
export interface PaddedOptions {
  /** What stands after a sequence; default 0. */
  readonly pad?: number;
  /** Default `"i32"`. */
  readonly dtype?: DType;
  /** The length of a row; default that of the longest sequence. */
  readonly length?: number;
}

/**
 * Sequences of different length as a column for `data.fromArrays`, `[sequences, length]`: padded at their ends, with their lengths, by
 * which {@link Dataset.batchByLength} makes batches.
 *
 * @example data.fromArrays({ ids: data.padded([[5, 2, 9], [7]]), y: { shape: [2], data: [0, 1], dtype: "i32" } })
 * @throws HeddleError `data` for a sequence that is longer than `length`, or a value that the dtype does not have
 */
export function padded(sequences: readonly ArrayLike<number>[], options: PaddedOptions = {}): ArrayColumn {
  checkOptions("padded", options, ["pad", "dtype", "length"]);
  if (!Array.isArray(sequences) || !sequences.every((one) => Number.isInteger((one as ArrayLike<number>)?.length)))
    throw new HeddleError("argument", `padded: takes an array of arrays, got ${shown(sequences)}`);
  const { pad = 0, dtype = "i32" } = options;
  const lengths = Int32Array.from(sequences, (one: ArrayLike<number>) => one.length);
  const longest = lengths.reduce((most, length) => Math.max(most, length), 0);
  const { length = longest } = options;
  checkInteger("padded", "length", length, 0);
  const above = lengths.findIndex((one) => one > length);
  if (above >= 0)
    throw new HeddleError("data", `padded: sequence ${above} has ${lengths[above]} elements, above length ${length}`);
  const data = new Array<number>(sequences.length * length).fill(pad);
  for (const [row, sequence] of (sequences as readonly ArrayLike<number>[]).entries())
    for (let at = 0; at < sequence.length; at++) data[row * length + at] = sequence[at] as number;
  return { shape: [sequences.length, length], dtype, data, lengths };
}

/** Whether a value is a column. */
export const isColumn = (value: unknown): value is Column =>
  typeof value === "object" && value !== null && "load" in value && "shape" in value && Array.isArray(value.shape);

/** Elements in one row of a column. */
export function rowElements(column: { readonly shape: Shape }): number {
  if (!Array.isArray(column?.shape))
    throw new HeddleError("argument", `rowElements: takes a column, got ${shown(column)}`);
  return sizeOf(column.shape.slice(1));
}

/** The dtype that the model sees: the dtype of the transform, or the stored dtype. */
export function columnDType(column: Column): DType {
  if (!isColumn(column)) throw new HeddleError("argument", `columnDType: takes a column, got ${shown(column)}`);
  return column.transform?.dtype ?? column.dtype;
}

/** A column over an array in memory. Throws when shape, dtype and values do not agree. */
export function columnFromArray(name: string, source: ArrayColumn): Column {
  const value: unknown = source;
  if (!isRecord(value) || !("data" in value) || !Array.isArray(value["shape"])) {
    throw new HeddleError("data", `column "${name}" is ${shown(value)}, not { shape, data }`, {
      hint: columnHint(value),
    });
  }
  checkOptions(`column "${name}"`, source, ["shape", "dtype", "data", "transform", "lengths"]);
  const { data, dtype } = storedValues(name, source);
  if (source.shape.length === 0) {
    throw new HeddleError("shape", `column "${name}" is a scalar; the first dim of a column counts its rows`);
  }
  const size = sizeOf(source.shape);
  if (data.length !== size) {
    const shape = formatShape(source.shape);
    throw new HeddleError("shape", `column "${name}" has ${data.length} values, but its shape ${shape} holds ${size}`);
  }
  const transform = checkedTransform(name, source.transform);
  const lengths = checkedLengths(name, source);
  return Object.freeze({
    ...{ name, shape: [...source.shape], dtype, transform, load: () => Promise.resolve(data) },
    ...(lengths === undefined ? {} : { lengths }),
  });
}

/** A copy of the lengths of padded sequences, checked. */
function checkedLengths(name: string, { lengths, shape }: ArrayColumn): Int32Array | undefined {
  if (lengths === undefined) return undefined;
  const [rows, longest] = shape;
  if (longest === undefined || lengths.length !== rows)
    throw new HeddleError(
      "data",
      `column "${name}" has ${lengths.length} lengths; a column ${formatShape(shape)} has ${longest === undefined ? "none" : rows}`,
    );
  const wrong = Array.from(lengths).findIndex((one) => !Number.isInteger(one) || one < 0 || one > longest);
  if (wrong < 0) return Int32Array.from(lengths);
  const text = `column "${name}": the length of row ${wrong} is ${lengths[wrong]}, not a whole number up to ${longest}`;
  throw new HeddleError("data", text);
}

/** A hint how to write values as a column. */
function columnHint(value: unknown): string {
  if (isTensor(value))
    return `write { shape: [${value.shape.join(", ")}], dtype: "${value.dtype}", data: await x.data() }`;
  const shape: number[] = [];
  for (let part = value; Array.isArray(part) && part.length > 0; part = part[0] as unknown) shape.push(part.length);
  if (shape.length > 1)
    return `write { shape: [${shape.join(", ")}], data: rows.flat(${shape.length > 2 ? "Infinity" : ""}) }`;
  if (shape.length === 1 || ArrayBuffer.isView(value)) return "write { shape: [values.length], data: values }";
  return "such as { shape: [rows, columns], data: values in row-major order }";
}

/** A column whose values are read at the first `load()`; a failed read is tried again at the next. */
export function columnFromLoader(column: Omit<Column, "load">, read: () => Promise<TypedArray>): Column {
  if (typeof read !== "function" || typeof column !== "object" || column === null)
    throw new HeddleError(
      "argument",
      `columnFromLoader: takes a column and a function that reads it, got ${shown(column)} and ${shown(read)}`,
    );
  let loading: Promise<TypedArray> | undefined;
  const load = (): Promise<TypedArray> => {
    loading ??= read().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
  return Object.freeze({ ...column, transform: checkedTransform(column.name, column.transform), load });
}

/** A copy of a transform, checked. */
export function checkedTransform(name: string, transform: Transform | undefined): Transform | undefined {
  if (transform === undefined) return undefined;
  if (!isDType(transform.dtype)) {
    throw new HeddleError("dtype", `column "${name}": the transform's dtype "${transform.dtype}" is unknown`);
  }
  for (const part of ["scale", "offset"] as const) {
    const value = transform[part];
    if (value !== undefined && !Number.isFinite(value)) {
      throw new HeddleError("data", `column "${name}": the transform's ${part} is ${value}, not a finite number`);
    }
  }
  return Object.freeze({ ...transform });
}

function storedValues(name: string, source: ArrayColumn): Stored {
  const { data, dtype } = source;
  const what = `column "${name}"`;
  if (dtype !== undefined && !isDType(dtype)) throw new HeddleError("dtype", `${what}: dtype "${dtype}" is unknown`);
  if (Array.isArray(data)) {
    const rows: unknown = data.some(ArrayBuffer.isView) ? data : undefined;
    const nested = rows === undefined ? data.find((value) => Array.isArray(value)) : undefined;
    if (nested !== undefined) {
      throw new HeddleError("data", `${what}: a value is ${shown(nested)}, but values stand in one flat array`, {
        hint: "flatten it with .flat(Infinity), and give its shape",
      });
    }
    const numbers = rows === undefined ? { flat: data, natural: "f32" as const } : ofNested(what, rows, dtype);
    const named = dtype ?? numbers.natural;
    return { data: converted(what, named, numbers.flat), dtype: named };
  }
  const stored = storedArray(data);
  if (stored === undefined) {
    throw new HeddleError("dtype", `${what} is given as ${arrayKind(data)}, which no dtype is stored in`, {
      hint: "use an array of numbers, or a typed array",
    });
  }
  if (dtype === undefined) return stored;
  // No dtype is stored in this kind of array: the values are converted one by one.
  if (stored.data !== data) return { data: converted(what, dtype, stored.data), dtype };
  if (arrayKind(dtypes[dtype].create(0)) !== arrayKind(data))
    throw new HeddleError("dtype", `${what} is ${dtype}, but its values are given as ${arrayKind(data)}`);
  if (dtype === "bool") checkBools(what, stored.data);
  return { data: stored.data, dtype };
}

/** Stored truth values are used unconverted, so each must be 0 or 1. `first` is the index of the first value. */
export function checkBools(what: string, values: TypedArray, first = 0): void {
  const index = values.findIndex((value: number) => value > 1);
  if (index < 0) return;
  throw new HeddleError("dtype", `${what}: element ${first + index} is ${values[index]}; a bool is stored as 0 or 1`);
}
