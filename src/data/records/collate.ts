/** @module From records to batches: numbers become arrays, vectors are stacked or padded, texts stay lists. */
import { type DType, dtypes, isDType, isFloat, isLong, roundTo, type TypedArray } from "../../ir/dtype.ts";
import type { Shape } from "../../ir/shape.ts";
import { notOf, whyNotOf } from "../../tensor/arguments.ts";
import { HeddleError } from "../../util/errors.ts";
import { shown } from "../../util/show.ts";
import type { HostRows } from "../gather.ts";
import { dtypeOfArray, type Piece, placed, type Values } from "./piece.ts";

/** How values become arrays. */
export interface Collate {
  /** What stands after a vector that is shorter than the longest of the batch; default: vectors must be equally long. */
  readonly pad?: number | undefined;
  /** Vectors are padded to this length; default the longest of the batch. */
  readonly to?: number | undefined;
  /** Leave vectors as a list, also where they are equally long. */
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

/**
 * Checks that `dtypes`, or another record by column, names columns of the piece.
 *
 * @throws HeddleError `option` with the name that no column has
 */
export function checkNames(what: string, option: string, byColumn: object | undefined, piece: Piece): void {
  const known = Object.keys(piece.columns);
  const lacking = Object.keys(byColumn ?? {}).find((name) => !known.includes(name));
  if (lacking === undefined || known.length === 0) return;
  throw new HeddleError("option", `${what}: ${option} names "${lacking}", which the records do not have`, {
    hint: `the columns are ${known.join(", ")}`,
  });
}

/** The dtype that the caller names for a column. */
function namedDType(name: string, named: Collate["dtypes"]): DType | undefined {
  const dtype = named !== undefined && Object.hasOwn(named, name) ? named[name] : undefined;
  if (dtype !== undefined && !isDType(dtype))
    throw new HeddleError("dtype", `batch: column "${name}": dtype ${shown(dtype)} is unknown`);
  return dtype;
}

function column(name: string, values: Values, piece: Piece, options: Collate): BatchValues {
  const wanted = namedDType(name, options.dtypes);
  const stored = dtypeOfArray(values);
  if (stored !== undefined && (wanted === undefined || wanted === stored))
    return { shape: [piece.length], dtype: stored, data: values as TypedArray };
  const [first] = values as readonly unknown[];
  if (isScalar(first)) return scalars(name, values as readonly unknown[], piece, wanted);
  if (isVector(first)) return vectors(name, values as readonly unknown[], piece, { ...options, wanted });
  if (wanted !== undefined && piece.length > 0)
    throw misfit(name, 0, piece, `is ${kindOf(first)}, which dtypes cannot make ${wanted} of`);
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

/** Whole numbers up to here are counts or identifiers, which must not become others; larger numbers are measurements. */
const largestWhole = Number.MAX_SAFE_INTEGER;

/**
 * Sets values in an array of the dtype, from `start` on. `isNamed`: the caller names the dtype, so floats round as they do elsewhere.
 * Gives the index of the first value that does not fit and why, if there is one.
 */
function fill(
  data: TypedArray,
  start: number,
  values: ArrayLike<unknown>,
  dtype: DType,
  isNamed: boolean,
): { readonly index: number; readonly reason: string } | undefined {
  const [isRounded, isBig] = [isFloat(dtype), isLong(dtype)];
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    const reason = whyNotOf(dtype, value);
    if (reason !== undefined) return { index, reason };
    if (isBig) {
      data[start + index] = BigInt(value as number) as unknown as number;
      continue;
    }
    const number = Number(value);
    const rounded = roundTo(dtype, number);
    data[start + index] = rounded;
    // NaN and what is exact, the usual case.
    if (rounded === number && typeof value !== "bigint") continue;
    if (!isRounded) {
      if (rounded !== number) return { index, reason: `${shown(value)} is not a value of ${dtype}` };
    } else if (Number.isFinite(number) && !Number.isFinite(rounded))
      return { index, reason: `${value} is too large for ${dtype}` };
    else if (!isNamed && isChanged(value as number | bigint, rounded))
      return { index, reason: `${dtype} holds ${rounded} in the place of ${value}` };
  }
  return undefined;
}

/** Whether rounding makes another whole number of a whole number. */
const isChanged = (value: number | bigint, rounded: number): boolean =>
  typeof value === "bigint"
    ? BigInt(rounded) !== value
    : rounded !== value && Number.isInteger(value) && Math.abs(value) <= largestWhole;

function unfit(name: string, index: number, piece: Piece, dtype: DType, reason: string): HeddleError {
  const what = `batch: ${placed(index, piece.place)}: column "${name}"`;
  if (!reason.includes(`${dtype} holds`) && !reason.includes("too large")) return notOf(what, dtype, reason);
  return new HeddleError("dtype", `${what}: ${reason}`, {
    hint: `pass dtypes: { ${name}: "f64" }, or "i32" or "i64" for whole numbers`,
  });
}

function scalars(name: string, values: readonly unknown[], piece: Piece, wanted: DType | undefined): HostRows {
  const [first] = values;
  const dtype = wanted ?? (typeof first === "boolean" ? "bool" : typeof first === "bigint" ? "i64" : "f32");
  const data = dtypes[dtype].create(values.length);
  for (let index = 0; index < values.length; index++)
    if (!isScalar(values[index]))
      throw misfit(name, index, piece, `is ${kindOf(values[index])}, where the first record has a ${typeof first}`);
  const problem = fill(data, 0, values, dtype, wanted !== undefined);
  if (problem !== undefined) throw unfit(name, problem.index, piece, dtype, problem.reason);
  return { shape: [values.length], dtype, data };
}

function vectors(
  name: string,
  values: readonly unknown[],
  piece: Piece,
  options: Collate & { readonly wanted: DType | undefined },
): BatchValues {
  const list = values.map((value, index): Vector => {
    if (!isVector(value)) throw misfit(name, index, piece, `is ${kindOf(value)}, where the first record has a vector`);
    return value;
  });
  const [first] = list as [Vector];
  const longest = list.reduce((most, { length }) => Math.max(most, length), 0);
  const isEqual = list.every(({ length }) => length === first.length);
  const { pad, ragged, to = longest, wanted } = options;
  /** Sets the values of a record in an array. */
  const set = (data: TypedArray, start: number, row: number, dtype: DType): void => {
    const vector = list[row] as Vector;
    if (dtypeOfArray(vector) === dtype) {
      data.set(vector as ArrayLike<number>, start);
      return;
    }
    const problem = fill(data, start, vector, dtype, wanted !== undefined);
    if (problem !== undefined) throw unfit(name, row, piece, dtype, `value ${problem.index}: ${problem.reason}`);
  };
  if (ragged === true) {
    if (wanted === undefined) return list;
    return list.map((vector, row) => {
      const data = dtypes[wanted].create(vector.length);
      set(data, 0, row, wanted);
      return data;
    });
  }
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
  const dtype = wanted ?? natural;
  const inner = isEqual && first.shape !== undefined && width === first.length ? first.shape : [width];
  const stacked = isEqual && width === first.length && dtypeOfArray(first) === dtype ? oneArray(list) : undefined;
  if (stacked !== undefined) return { shape: [list.length, ...inner], dtype, data: stacked };
  const data = dtypes[dtype].create(list.length * width);
  if (pad !== undefined && pad !== 0) {
    const padding = dtypes[dtype].create(1);
    const problem = fill(padding, 0, [pad], dtype, true);
    if (problem !== undefined)
      throw new HeddleError("option", `batch: pad: column "${name}" is ${dtype}; ${problem.reason}`);
    data.fill(padding[0] as number);
  }
  for (const row of list.keys()) set(data, row * width, row, dtype);
  return { shape: [list.length, ...inner], dtype, data };
}

/** Equally long vectors that stand one after another in one buffer, as one array without a copy; undefined for others. */
function oneArray(list: readonly Vector[]): TypedArray | undefined {
  const first = list[0] as unknown as TypedArray;
  let end = first.byteOffset;
  for (const vector of list as unknown as readonly TypedArray[]) {
    if (vector.buffer !== first.buffer || vector.byteOffset !== end || vector.constructor !== first.constructor)
      return undefined;
    end += vector.byteLength;
  }
  const Kind = first.constructor as new (buffer: ArrayBufferLike, start: number, length: number) => TypedArray;
  return new Kind(first.buffer, first.byteOffset, first.length * list.length);
}
