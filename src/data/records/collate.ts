/** @module From records to batches: numbers become arrays, vectors are stacked or padded, texts stay lists. */
import { type DType, dtypes, isDType, type TypedArray } from "../../ir/dtype.ts";
import type { Shape } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import type { HostRows } from "../gather.ts";
import { dtypeOfArray, type Piece, placed, type Values } from "./piece.ts";

/** How values become arrays. */
export interface Collate {
  /** What stands after a vector that is shorter than the longest of the batch; default: vectors must be equally long. */
  readonly pad?: number | undefined;
  /** Vectors are padded to this length; default the longest of the batch. */
  readonly to?: number | undefined;
  /** Leave vectors of different lengths as a list. */
  readonly ragged?: boolean | undefined;
  /** Dtypes by column; default f32 for plain numbers, the dtype of typed arrays. */
  readonly dtypes?: { readonly [name: string]: DType } | undefined;
}

/** A column of a batch: an array, or a list of what has no dtype. */
export type BatchValues = HostRows | readonly unknown[];

export const isHostRows = (values: BatchValues): values is HostRows => !Array.isArray(values);

/** The columns of a batch. @throws HeddleError `data` naming the record whose value does not fit the others */
export function collate(piece: Piece, options: Collate): { [name: string]: BatchValues } {
  return Object.fromEntries(
    Object.entries(piece.columns).map(([name, values]) => [name, column(name, values, piece, options)]),
  );
}

function column(name: string, values: Values, piece: Piece, options: Collate): BatchValues {
  const wanted = options.dtypes?.[name];
  if (wanted !== undefined && !isDType(wanted))
    throw new HeddleError("dtype", `batch: dtype "${String(wanted)}" is unknown`);
  const stored = dtypeOfArray(values);
  if (stored !== undefined) {
    const data = values as TypedArray;
    return {
      shape: [piece.length],
      dtype: wanted ?? stored,
      data: wanted === undefined || wanted === stored ? data : dtypes[wanted].create(data),
    };
  }
  const [first] = values as readonly unknown[];
  if (isScalar(first)) return scalars(name, values as readonly unknown[], piece, wanted);
  if (isVector(first)) return vectors(name, values as readonly unknown[], piece, options);
  return values as readonly unknown[];
}

type Vector = ArrayLike<number | bigint> & { readonly shape?: Shape };

const isScalar = (value: unknown): value is number | bigint | boolean =>
  typeof value === "number" || typeof value === "bigint" || typeof value === "boolean";
const isVector = (value: unknown): value is Vector =>
  (ArrayBuffer.isView(value) && !(value instanceof DataView)) ||
  (Array.isArray(value) && (value.length === 0 || typeof value[0] === "number" || typeof value[0] === "bigint"));

function misfit(name: string, index: number, piece: Piece, what: string): HeddleError {
  return new HeddleError("data", `batch: ${placed(index, piece.place)}: column "${name}" ${what}`);
}

const kindOf = (value: unknown): string => (value === null ? "null" : Array.isArray(value) ? "a list" : typeof value);

function scalars(name: string, values: readonly unknown[], piece: Piece, wanted: DType | undefined): HostRows {
  const [first] = values;
  const dtype = wanted ?? (typeof first === "boolean" ? "bool" : typeof first === "bigint" ? "i64" : "f32");
  const data = dtypes[dtype].create(values.length) as { [index: number]: number | bigint; length: number };
  const isLong = typeof dtypes[dtype].create(1)[0] === "bigint";
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    if (!isScalar(value))
      throw misfit(name, index, piece, `is ${kindOf(value)}, where the first record has a ${typeof first}`);
    data[index] = isLong ? BigInt(value) : Number(value);
  }
  return {
    shape: [values.length],
    dtype,
    data: dtype === "f16" || dtype === "bf16" ? dtypes[dtype].create(data as never) : (data as unknown as TypedArray),
  };
}

function vectors(name: string, values: readonly unknown[], piece: Piece, options: Collate): BatchValues {
  const list = values.map((value, index): Vector => {
    if (!isVector(value)) throw misfit(name, index, piece, `is ${kindOf(value)}, where the first record has a vector`);
    return value;
  });
  const [first] = list as [Vector];
  const longest = list.reduce((most, { length }) => Math.max(most, length), 0);
  const isEqual = list.every(({ length }) => length === first.length);
  const { pad, ragged, to = longest } = options;
  if (ragged === true && !isEqual) return list;
  if (pad === undefined && !isEqual) {
    const at = list.findIndex(({ length }) => length !== first.length);
    throw new HeddleError(
      "data",
      `batch: ${placed(at, piece.place)}: column "${name}" has ${list[at]?.length} values, the record before it ${first.length}`,
      { hint: "pass pad: 0 to fill vectors up, or ragged: true to keep them as a list" },
    );
  }
  const width = pad === undefined ? first.length : to;
  if (longest > width) {
    const at = list.findIndex(({ length }) => length > width);
    throw misfit(name, at, piece, `has ${list[at]?.length} values, above the largest bound ${width}`);
  }
  const natural = dtypeOfArray(first) ?? (typeof first[0] === "bigint" ? "i64" : "f32");
  const dtype = options.dtypes?.[name] ?? natural;
  const data = dtypes[dtype].create(list.length * width) as {
    set(values: ArrayLike<never>, at: number): void;
    fill(value: never): void;
  };
  if (pad !== undefined && pad !== 0) data.fill((dtype === "i64" || dtype === "u64" ? BigInt(pad) : pad) as never);
  const bigs = dtype === "i64" || dtype === "u64";
  for (const [row, vector] of list.entries()) {
    const fits = vector.length === 0 || (typeof vector[0] === "bigint") === bigs;
    const convert = (value: number | bigint): number | bigint => (bigs ? BigInt(value) : Number(value));
    data.set((fits ? vector : Array.from(vector, convert)) as ArrayLike<never>, row * width);
  }
  const inner = isEqual && first.shape !== undefined && width === first.length ? first.shape : [width];
  return { shape: [list.length, ...inner], dtype, data: data as unknown as TypedArray };
}
