/** @module Making tensors from numbers. */

import { replicatedValue } from "../compile/value.ts";
import {
  arrayKind,
  type BigArray,
  type DType,
  dtypes,
  isFloat,
  isLong,
  roundTo,
  type Stored,
  storedArray,
  type TypedArray,
} from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatShape, type Shape, sizeOf } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkDType, checkShape, checkValue, notOf, whyNotOf } from "../tensor/arguments.ts";
import { deviceRuntime } from "../tensor/runtime.ts";
import { checkTensor, operate, Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";

/** Numbers, bigints or booleans in any nesting, rows also as typed arrays; all rows of a level have one length. */
export type NestedNumbers = number | bigint | boolean | NumberArray | readonly NestedNumbers[];

/** Arrays that a tensor can be made from: arrays of its dtypes, and arrays whose values all fit some dtype. */
export type NumberArray = TypedArray | BigArray | Int16Array | Uint16Array | Uint8ClampedArray;

/** Options of functions that make tensors. */
export interface CreateOptions {
  /** Default f32, unless the function says otherwise. */
  readonly dtype?: DType;
}

/**
 * Makes a tensor from nested arrays, a number, or a typed array with a shape. The dtype is f32 by default; bool if all values are
 * booleans, i64 if all are bigints, and the dtype of a typed array, or of rows that are typed arrays: i32 for 16-bit integers, u8
 * for clamped bytes.
 *
 * Values must be values of the dtype: an integer dtype takes whole numbers in its range, not NaN. (NumPy and PyTorch also
 * refuse numbers out of range, but truncate fractions; make a float tensor and `cast` it for that.) Floats are rounded to the
 * nearest, f32 beyond its range to infinity; bool is true for all numbers but 0.
 *
 * @throws HeddleError `shape` if rows differ in length or the shape does not fit; `dtype` for a value that the dtype does not
 * have, for anything but numbers, and for rows that are typed arrays of several dtypes; `option` for an unknown option.
 * @example tensor([[1, 2], [3, 4]]).shape // [2, 2]
 */
export function tensor(data: NestedNumbers, options: CreateOptions & { readonly shape?: Shape } = {}): Tensor {
  checkOptions("tensor", options, ["dtype", "shape"]);
  if (options.dtype !== undefined) checkDType("tensor", options.dtype);
  if (options.shape !== undefined) checkShape("tensor", options.shape);
  const { flat, shape, natural } = givenNumbers("tensor", data, options.dtype);
  const dtype = options.dtype ?? natural;
  const wanted = options.shape ?? shape;
  if (flat.length !== sizeOf(wanted))
    throw new HeddleError("shape", `tensor: ${flat.length} numbers do not fill ${formatShape(wanted)}`);
  const ready = ArrayBuffer.isView(flat) && dtype === natural;
  const values = ready ? (flat as TypedArray) : converted("tensor", dtype, flat);
  return Tensor.ofValue(replicatedValue(deviceRuntime(), { shape: wanted, dtype }, values));
}

interface Numbers {
  readonly flat: TypedArray | readonly unknown[];
  readonly shape: Shape;
  /** The dtype if the user names none. */
  readonly natural: DType;
}

/** The numbers that a user gives, in order; @throws HeddleError `dtype` or `shape` as {@link tensor} does. */
export function givenNumbers(what: string, numbers: NestedNumbers, named?: DType): Numbers {
  if (!ArrayBuffer.isView(numbers)) return ofNested(what, numbers, named);
  const { data, dtype } = storedIn(what, numbers);
  return { flat: data, shape: [data.length], natural: dtype };
}

function storedIn(what: string, array: unknown): Stored {
  const stored = storedArray(array);
  if (stored !== undefined) return stored;
  throw new HeddleError("dtype", `${what}: no dtype is stored in a ${arrayKind(array)}`, {
    hint: "give a typed array of numbers",
  });
}

/** Values in any nesting; rows may be typed arrays, whose dtype is used if the user names none. */
export function ofNested(what: string, data: unknown, named?: DType): Numbers {
  const shape = nestedShape(data);
  const { flat, stored } = flatten(what, data, shape);
  const [first, ...more] = stored;
  if (more.length > 0 && named === undefined)
    throw new HeddleError("dtype", `${what}: rows are typed arrays of ${[...stored].join(" and ")}`, {
      hint: "name one with the option dtype",
    });
  const bool = flat.length > 0 && flat.every((value) => typeof value === "boolean");
  const big = flat.length > 0 && flat.every((value) => typeof value === "bigint");
  return { flat, shape, natural: first ?? (bool ? "bool" : big ? "i64" : "f32") };
}

/** Values as the array of a dtype. @throws HeddleError `dtype` with the value that does not fit the dtype, and its place. */
export function converted(what: string, dtype: DType, values: ArrayLike<unknown>): TypedArray {
  const array = dtypes[dtype].create(values.length);
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    const reason = whyNotOf(dtype, value);
    if (reason !== undefined) throw notOf(`${what}: element ${index}`, dtype, reason);
    array[index] = isLong(dtype) ? (BigInt(value as number) as unknown as number) : roundTo(dtype, Number(value));
  }
  return array;
}

const isRow = (part: unknown): part is ArrayLike<unknown> => Array.isArray(part) || ArrayBuffer.isView(part);

function nestedShape(data: unknown): number[] {
  return isRow(data) ? [data.length, ...(data.length === 0 ? [] : nestedShape(data[0]))] : [];
}

/** All values in order, and the dtypes of rows that are typed arrays. */
function flatten(what: string, data: unknown, shape: Shape): { flat: unknown[]; stored: Set<DType> } {
  const flat: unknown[] = [];
  const stored = new Set<DType>();
  const visit = (part: unknown, depth: number): void => {
    if (!isRow(part)) {
      if (typeof part === "object" && part !== null) throw notNumbers(what, part);
      if (depth !== shape.length)
        throw new HeddleError("shape", `${what}: rows are nested to different depths (expected ${shape.length})`);
      flat.push(part);
      return;
    }
    const typed = Array.isArray(part) ? undefined : storedIn(what, part);
    if (typed !== undefined) stored.add(typed.dtype);
    const row: ArrayLike<unknown> = typed?.data ?? part;
    if (row.length !== shape[depth])
      throw new HeddleError("shape", `${what}: a row of ${row.length} stands among rows of ${shape[depth] ?? "none"}`);
    for (let index = 0; index < row.length; index++) visit(row[index], depth + 1);
  };
  visit(data, 0);
  return { flat, stored };
}

const notNumbers = (what: string, part: object): HeddleError =>
  new HeddleError("dtype", `${what}: ${shown(part)} stands where a number should be`, {
    hint: part instanceof Tensor ? "join tensors with concat()" : "give numbers, booleans, or nested arrays of them",
  });

/** A tensor of one repeated value, f32 by default. @throws HeddleError `dtype` for a value that the dtype does not have. */
export function full(shape: Shape, value: number | bigint, options: CreateOptions = {}): Tensor {
  return filled("full", shape, value, options);
}
/** A tensor of zeros, f32 by default. */
export const zeros = (shape: Shape, options: CreateOptions = {}): Tensor => filled("zeros", shape, 0, options);
/** A tensor of ones, f32 by default. */
export const ones = (shape: Shape, options: CreateOptions = {}): Tensor => filled("ones", shape, 1, options);
/** Zeros of the shape and dtype of `x`. */
export function zerosLike(x: Tensor): Tensor {
  checkTensor("zerosLike", x);
  return filled("zerosLike", x.shape, 0, { dtype: x.dtype });
}

/** Ones of the shape and dtype of `x`. */
export function onesLike(x: Tensor): Tensor {
  checkTensor("onesLike", x);
  return filled("onesLike", x.shape, 1, { dtype: x.dtype });
}

function filled(name: string, shape: Shape, value: number | bigint, options: CreateOptions): Tensor {
  checkOptions(name, options, ["dtype"]);
  const { dtype = "f32" } = options;
  checkDType(name, dtype);
  checkShape(name, shape);
  checkValue(name, dtype, value);
  return operate(
    "full",
    () => ops.full(dtype, shape, typeof value === "bigint" ? value : Number(value)),
    [],
    dtype,
    shape,
    String(value),
  );
}

/** `[0, 1, …, count - 1]`; i32 by default. @throws HeddleError `option` for a count that is not a whole number from 0 on; `dtype` if it is too large for the dtype. */
export function arange(count: number, options: CreateOptions = {}): Tensor {
  if (typeof options === "number")
    throw new HeddleError("option", `arange: takes a count, and counts from 0; got ${shown(count)} and ${options}`, {
      hint: "start elsewhere by arange(count).add(start)",
    });
  checkOptions("arange", options, ["dtype"]);
  const { dtype = "i32" } = options;
  checkDType("arange", dtype);
  checkInteger("arange", "count", count, 0);
  if (count > 0) checkValue("arange", dtype, count - 1);
  return operate("arange", () => ops.iota(dtype, [count], 0), [], dtype, count);
}

/**
 * `count` numbers from `start` to `stop` in equal steps, NumPy's `linspace`: the last number is `stop`, or, without `endpoint`
 * (default true), one step before it. They are computed in f64 and rounded once; integer dtypes round down. f32 by default.
 *
 * @throws HeddleError `option` for a bound that is not finite or a count that is not a whole number from 0 on; `dtype` for a bound
 * outside an integer dtype
 * @example linspace(0, 1, 5) // [0, 0.25, 0.5, 0.75, 1]
 */
export function linspace(
  start: number,
  stop: number,
  count: number,
  options: CreateOptions & { readonly endpoint?: boolean } = {},
): Tensor {
  checkOptions("linspace", options, ["dtype", "endpoint"]);
  const { dtype = "f32", endpoint = true } = options;
  checkDType("linspace", dtype);
  checkNumber("linspace", "start", start);
  checkNumber("linspace", "stop", stop);
  checkInteger("linspace", "count", count, 0);
  const rounds = !isFloat(dtype);
  for (const bound of [start, stop]) checkValue("linspace", dtype, rounds ? Math.floor(bound) : bound);
  const steps = Math.max(1, endpoint ? count - 1 : count);
  const width = stop - start;
  // If the width overflows, the step is computed from both bounds; a single step is never taken.
  const step = Number.isFinite(width) ? width / steps : steps === 1 ? 0 : stop / steps - start / steps;
  const build = (): Node => {
    const positions = ops.iota("f64", [count], 0);
    const along = ops.add(ops.mul(positions, step), start);
    const values = endpoint && count > 1 ? ops.select(ops.eq(positions, count - 1), stop, along) : along;
    return ops.cast(rounds ? ops.floor(values) : values, dtype);
  };
  return operate("linspace", build, [], dtype, start, stop, count, endpoint);
}
