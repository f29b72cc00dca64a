/** @module Element types: sizes, kinds and the JavaScript arrays that hold them. */

import { decodeHalf, encodeHalf, halfFormats, roundToHalf } from "./half.ts";

/**
 * Element type of a tensor. `bool` is one byte, 0 or 1. `f16` and `bf16` take two bytes, and are held as `Float32Array` in
 * JavaScript. `i64` and `u64` are held as `BigInt64Array` and `BigUint64Array`.
 */
export type DType = "f32" | "f64" | "f16" | "bf16" | "i32" | "u32" | "u8" | "i8" | "i64" | "u64" | "bool";

/**
 * The arrays that hold values. Those of 64-bit integers are a `BigInt64Array` or a `BigUint64Array`, {@link BigArray}, which
 * this type leaves out, so that code for numbers need not ask: code that only moves elements works on all of them, and
 * code that computes asks {@link isLong}.
 */
export type TypedArray = Float32Array | Float64Array | Int32Array | Uint32Array | Uint8Array | Int8Array;

/** The arrays of 64-bit integers. */
export type BigArray = BigInt64Array | BigUint64Array;

interface DTypeInfo {
  readonly bytes: number;
  readonly kind: "float" | "int" | "uint" | "bool";
  /** Lowest and highest finite or integer value; of 64-bit integers the nearest number. */
  readonly lowest: number;
  readonly highest: number;
  /** An array of zeros, or of given values; bigints for 64-bit integers. */
  readonly create: (source: number | ArrayLike<number>) => TypedArray;
  /** The values that lie in memory: a view, or a copy where JavaScript has no array of the dtype. */
  readonly view: (buffer: ArrayBufferLike, byteOffset: number, length: number) => TypedArray;
  /** The bytes of values, as they lie in memory; shared with them where they are stored alike. */
  readonly bytesOf: (data: TypedArray) => Uint8Array;
}

const f32Max = 3.4028234663852886e38;
const sharedBytes = (data: ArrayBufferView): Uint8Array =>
  new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

function info(
  bytes: number,
  kind: DTypeInfo["kind"],
  lowest: number,
  highest: number,
  constructor: {
    new (length: number): TypedArray;
    new (source: ArrayLike<number>): TypedArray;
    new (buffer: ArrayBufferLike, byteOffset: number, length: number): TypedArray;
  },
): DTypeInfo {
  return {
    bytes,
    kind,
    lowest,
    highest,
    create: (source) => (typeof source === "number" ? new constructor(source) : new constructor(source)),
    view: (buffer, byteOffset, length) => new constructor(buffer, byteOffset, length),
    bytesOf: sharedBytes,
  };
}

function halfInfo(dtype: "f16" | "bf16"): DTypeInfo {
  const { highest } = halfFormats[dtype];
  return {
    ...info(2, "float", -highest, highest, Float32Array),
    create: (source) =>
      typeof source === "number"
        ? new Float32Array(source)
        : Float32Array.from(source, (value) => roundToHalf(dtype, value)),
    view: (buffer, byteOffset, length) => decodeHalf(dtype, new Uint16Array(buffer, byteOffset, length)),
    bytesOf: (data) => sharedBytes(encodeHalf(dtype, data)),
  };
}

function longInfo(kind: "int" | "uint", constructor: typeof BigInt64Array | typeof BigUint64Array): DTypeInfo {
  const [lowest, highest] = kind === "int" ? [-(2 ** 63), 2 ** 63] : [0, 2 ** 64];
  const longs = constructor as unknown as new (...source: unknown[]) => TypedArray;
  return {
    ...info(8, kind, lowest, highest, longs as never),
    create: (source) => (typeof source === "number" ? new longs(source) : new longs(Array.from(source, BigInt))),
  };
}

/** Everything about each dtype, in one table. */
export const dtypes: { readonly [D in DType]: DTypeInfo } = {
  f32: info(4, "float", -f32Max, f32Max, Float32Array),
  f64: info(8, "float", -Number.MAX_VALUE, Number.MAX_VALUE, Float64Array),
  f16: halfInfo("f16"),
  bf16: halfInfo("bf16"),
  i32: info(4, "int", -2147483648, 2147483647, Int32Array),
  u32: info(4, "uint", 0, 4294967295, Uint32Array),
  u8: info(1, "uint", 0, 255, Uint8Array),
  i8: info(1, "int", -128, 127, Int8Array),
  i64: longInfo("int", BigInt64Array),
  u64: longInfo("uint", BigUint64Array),
  bool: info(1, "bool", 0, 1, Uint8Array),
};

/** All dtypes, in the order of the table. */
export const dtypeNames: readonly DType[] = Object.keys(dtypes) as DType[];

/** Whether a string names a dtype. */
export function isDType(name: string): name is DType {
  return Object.hasOwn(dtypes, name);
}

/** Whether it is one of the floats, the 16-bit ones included. */
export const isFloat = (dtype: DType): boolean => dtypes[dtype].kind === "float";
/** Whether it is an integer, signed or not; bool is none. */
export const isInteger = (dtype: DType): boolean => dtypes[dtype].kind === "int" || dtypes[dtype].kind === "uint";
/** Whether it is a signed integer; floats are none. */
export const isSigned = (dtype: DType): boolean => dtypes[dtype].kind === "int";
/** Whether it is one of the 16-bit floats, in which kernels move values and compute none. */
export const isHalf = (dtype: DType): dtype is "f16" | "bf16" => dtype === "f16" || dtype === "bf16";

/** The dtype that is computed in: f32 for 16-bit floats, whose squares, sums and epsilons overflow or round to 0. */
export const wideDType = (dtype: DType): DType => (isHalf(dtype) ? "f32" : dtype);
/** Whether JavaScript holds its values as bigints. */
export const isLong = (dtype: DType): dtype is "i64" | "u64" => dtype === "i64" || dtype === "u64";

/** Rounds a JavaScript number to the nearest value of `dtype`: integers wrap, bool is `!= 0`. A bigint stays one. */
export function roundTo(dtype: DType, value: number): number {
  if (isLong(dtype) && typeof value === "bigint") return wrapLong(dtype, value) as unknown as number;
  switch (dtype) {
    case "f64":
      return value;
    case "f32":
      return Math.fround(value);
    case "f16":
    case "bf16":
      return roundToHalf(dtype, value);
    case "i32":
      return value | 0;
    case "u32":
      return value >>> 0;
    case "u8":
      return value & 255;
    case "i8":
      return (value << 24) >> 24;
    case "i64":
    case "u64":
      return Number.isFinite(value) ? Number(wrapLong(dtype, BigInt(Math.trunc(value)))) : 0;
    case "bool":
      return value !== 0 ? 1 : 0;
  }
}

/** The lowest and the highest value of a dtype of 64-bit integers. */
export const longBounds: { readonly [D in "i64" | "u64"]: readonly [lowest: bigint, highest: bigint] } = {
  i64: [-(2n ** 63n), 2n ** 63n - 1n],
  u64: [0n, 2n ** 64n - 1n],
};

/** The lowest and the highest value of a dtype, exactly. */
export const boundsOf = (dtype: DType): readonly [lowest: number | bigint, highest: number | bigint] =>
  isLong(dtype) ? longBounds[dtype] : [dtypes[dtype].lowest, dtypes[dtype].highest];

/** Whether a number is a value of the dtype as it is; of floats, all numbers that they hold without rounding. */
export function isValueOf(dtype: DType, value: number | bigint): boolean {
  if (isLong(dtype)) {
    if (typeof value === "number" && !Number.isInteger(value)) return false;
    const [lowest, highest] = longBounds[dtype];
    return BigInt(value) >= lowest && BigInt(value) <= highest;
  }
  return Object.is(roundTo(dtype, Number(value)), Number(value));
}

/** A 64-bit integer modulo 2^64. */
export const wrapLong = (dtype: "i64" | "u64", value: bigint): bigint =>
  dtype === "i64" ? BigInt.asIntN(64, value) : BigInt.asUintN(64, value);

/**
 * A number that stands for an integer when it is rounded to any float dtype: exact up to 2^53, beyond that with the last
 * bit set where bits were lost, so that nothing is rounded twice.
 */
export function numberOfLong(value: bigint): number {
  const magnitude = value < 0n ? -value : value;
  const bits = magnitude.toString(2).length;
  if (bits <= 53) return Number(value);
  const shift = BigInt(bits - 53);
  const shifted = magnitude >> shift;
  const sticky = shifted << shift === magnitude ? shifted : shifted | 1n;
  const result = Number(sticky) * 2 ** Number(shift);
  return value < 0n ? -result : result;
}

/** Integers of 16 bits, as files hold them: no dtype of tensors, but all of their values are values of i32. */
export const shortArrays = { i16: Int16Array, u16: Uint16Array } as const;
export type ShortInteger = keyof typeof shortArrays;

/** Numbers in an array in which a dtype is stored. */
export interface Stored {
  readonly data: TypedArray;
  readonly dtype: DType;
}

/** What `[object Float32Array]` names; a Node `Buffer` counts as the `Uint8Array` that it is. */
export const arrayKind = (value: unknown): string => Object.prototype.toString.call(value).slice("[object ".length, -1);

const storedKinds = new Set(Object.values(dtypes).map((info) => arrayKind(info.create(0))));
const heldBy: { readonly [kind: string]: DType } = {
  Int16Array: "i32",
  Uint16Array: "i32",
  Uint8ClampedArray: "u8",
  Float16Array: "f16",
};

/** A typed array as it is, or, of a kind in which no dtype is stored, its values in the least that holds them all; undefined for others. */
export function storedArray(data: unknown): Stored | undefined {
  const kind = arrayKind(data);
  if (storedKinds.has(kind)) return { data: data as TypedArray, dtype: dtypeOf(data as TypedArray) };
  const dtype = Object.hasOwn(heldBy, kind) ? (heldBy[kind] as DType) : undefined;
  return dtype && { data: dtypes[dtype].create(data as ArrayLike<number>), dtype };
}

/** The dtype that a typed array holds by default. */
export function dtypeOf(data: TypedArray | BigArray): DType {
  if (data instanceof Float32Array) return "f32";
  if (data instanceof Float64Array) return "f64";
  if (data instanceof Int32Array) return "i32";
  if (data instanceof Uint32Array) return "u32";
  if (data instanceof Int8Array) return "i8";
  if (data instanceof BigInt64Array) return "i64";
  if (data instanceof BigUint64Array) return "u64";
  return "u8";
}
