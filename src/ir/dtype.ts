/** @module Element types: sizes, kinds and the JavaScript arrays that hold them. */

/** Element type of a tensor. `bool` is one byte, 0 or 1. */
export type DType = "f32" | "f64" | "i32" | "u32" | "u8" | "bool";

export type TypedArray = Float32Array | Float64Array | Int32Array | Uint32Array | Uint8Array;

interface DTypeInfo {
  readonly bytes: number;
  readonly kind: "float" | "int" | "uint" | "bool";
  /** Lowest and highest finite or integer value. */
  readonly lowest: number;
  readonly highest: number;
  readonly create: (source: number | ArrayLike<number>) => TypedArray;
  readonly view: (buffer: ArrayBufferLike, byteOffset: number, length: number) => TypedArray;
}

const f32Max = 3.4028234663852886e38;

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
  };
}

/** Everything about each dtype, in one table. */
export const dtypes: { readonly [D in DType]: DTypeInfo } = {
  f32: info(4, "float", -f32Max, f32Max, Float32Array),
  f64: info(8, "float", -Number.MAX_VALUE, Number.MAX_VALUE, Float64Array),
  i32: info(4, "int", -2147483648, 2147483647, Int32Array),
  u32: info(4, "uint", 0, 4294967295, Uint32Array),
  u8: info(1, "uint", 0, 255, Uint8Array),
  bool: info(1, "bool", 0, 1, Uint8Array),
};

export const dtypeNames: readonly DType[] = Object.keys(dtypes) as DType[];

export function isDType(name: string): name is DType {
  return Object.hasOwn(dtypes, name);
}

export const isFloat = (dtype: DType): boolean => dtypes[dtype].kind === "float";
export const isInteger = (dtype: DType): boolean => dtypes[dtype].kind === "int" || dtypes[dtype].kind === "uint";

/** Rounds a JavaScript number to the nearest value of `dtype`: integers wrap, bool is `!= 0`. */
export function roundTo(dtype: DType, value: number): number {
  switch (dtype) {
    case "f64":
      return value;
    case "f32":
      return Math.fround(value);
    case "i32":
      return value | 0;
    case "u32":
      return value >>> 0;
    case "u8":
      return value & 255;
    case "bool":
      return value !== 0 ? 1 : 0;
  }
}

/** The dtype that a typed array holds by default. */
export function dtypeOf(data: TypedArray): DType {
  if (data instanceof Float32Array) return "f32";
  if (data instanceof Float64Array) return "f64";
  if (data instanceof Int32Array) return "i32";
  if (data instanceof Uint32Array) return "u32";
  return "u8";
}
