/** @module Shape arithmetic. Sizes are static, non-negative integers. */
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { type DType, dtypes, type TypedArray } from "./dtype.ts";

export type Shape = readonly number[];

/** Shape and dtype of one tensor. */
export interface TensorType {
  readonly shape: Shape;
  readonly dtype: DType;
}

/** A tensor in JavaScript memory: row-major, contiguous. */
export interface HostTensor extends TensorType {
  /** Row-major values; bool as bytes 0 and 1. */
  readonly data: TypedArray;
}

/** Shape and dtype alone, of something that has them. */
export const typeOf = ({ dtype, shape }: TensorType): TensorType => ({ dtype, shape });

/** Whether a value of a tree is a type, or something that has one. */
export const isTensorType = (value: unknown): value is TensorType =>
  typeof value === "object" && value !== null && "dtype" in value && "shape" in value;

const largestSize = 2 ** 48;

/** Number of elements; refuses negative, fractional and absurd sizes. */
export function sizeOf(shape: Shape): number {
  let size = 1;
  for (const dim of shape) {
    if (!Number.isInteger(dim) || dim < 0)
      throw new HeddleError("shape", `invalid size ${dim} in shape ${formatShape(shape)}`);
    size *= dim;
    if (size > largestSize) throw new HeddleError("shape", `shape ${formatShape(shape)} is too large`);
  }
  return size;
}

/** Bytes of all elements of a type, which bool holds in one each. */
export function bytesOf(type: TensorType): number {
  return sizeOf(type.shape) * dtypes[type.dtype].bytes;
}

/** Row-major strides in elements. */
export function stridesOf(shape: Shape): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    strides[dim] = stride;
    stride *= shape[dim] as number;
  }
  return strides;
}

/** Whether both have the same sizes in the same order. */
export function sameShape(left: Shape, right: Shape): boolean {
  return left.length === right.length && left.every((size, dim) => size === right[dim]);
}

/** Whether dtype and shape are the same. */
export function sameType(left: TensorType, right: TensorType): boolean {
  return left.dtype === right.dtype && sameShape(left.shape, right.shape);
}

/** NumPy's broadcasting rule; undefined when the shapes do not agree. */
export function broadcastShapes(left: Shape, right: Shape): Shape | undefined {
  const rank = Math.max(left.length, right.length);
  const shape = new Array<number>(rank);
  for (let index = 0; index < rank; index++) {
    const a = left[left.length - rank + index] ?? 1;
    const b = right[right.length - rank + index] ?? 1;
    if (a !== b && a !== 1 && b !== 1) return undefined;
    shape[index] = a === 1 ? b : a;
  }
  return shape;
}

/** Resolves a possibly negative dim; throws when out of range. */
export function normalizeDim(dim: number, rank: number, what: string): number {
  if (typeof dim !== "number") {
    throw new HeddleError("argument", `${what}: dim must be a number, got ${shown(dim)}`, {
      hint: "options come after the dim: (x, -1, { … })",
    });
  }
  if (!Number.isInteger(dim) || dim < -rank || dim >= rank) {
    const range = rank === 0 ? "is not there: a scalar has no dims" : `is not in [${-rank}, ${rank - 1}]`;
    throw new HeddleError("shape", `${what}: dim ${dim} ${range}`);
  }
  return dim < 0 ? dim + rank : dim;
}

/** The dims of `shape` that are not in `dims`. */
export function otherDims(rank: number, dims: readonly number[]): number[] {
  return range(rank).filter((dim) => !dims.includes(dim));
}

/** `[0, 1, …, count - 1]`. */
export function range(count: number): number[] {
  return Array.from({ length: count }, (_unused, index) => index);
}

/** `[128,784]`; `[]` of a scalar. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(",")}]`;
}

/** `f32[128,784]`. */
export function formatType(type: TensorType): string {
  return `${type.dtype}${formatShape(type.shape)}`;
}

/** The inverse of {@link formatType}; undefined when the text is not a type. */
export function parseType(text: string): TensorType | undefined {
  const match = /^([a-z0-9]+)\[([0-9,]*)\]$/.exec(text);
  if (match === null || !Object.hasOwn(dtypes, match[1] as string)) return undefined;
  const sizes = match[2] as string;
  return { dtype: match[1] as DType, shape: sizes === "" ? [] : sizes.split(",").map(Number) };
}
