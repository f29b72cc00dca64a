/** @module Host tensors for tests: seeded values, access by index, comparison. */
import { type DType, dtypes, isFloat, roundTo } from "../../src/ir/dtype.ts";
import type { HostTensor } from "../../src/ir/node.ts";
import { formatType, type Shape, sizeOf, stridesOf } from "../../src/ir/shape.ts";

/** Uniform numbers in [0, 1) from a seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** How to make a tensor: given values, or a range (integers for integer dtypes; the high end is left out). */
export interface Source {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly values:
    | readonly number[]
    | { readonly low: number; readonly high: number; readonly seed: number; readonly kinks?: readonly number[] };
}

// Wider than the step of a difference quotient.
const kinkMargin = 0.05;

export function makeTensor({ dtype, shape, values }: Source): HostTensor {
  const size = sizeOf(shape);
  if ("seed" in values) {
    const random = randomFrom(values.seed);
    const next = (): number => {
      const value = values.low + (values.high - values.low) * random();
      if (!isFloat(dtype)) return Math.floor(value);
      return (values.kinks ?? []).some((kink) => Math.abs(value - kink) < kinkMargin) ? next() : value;
    };
    return { dtype, shape, data: dtypes[dtype].create(Array.from({ length: size }, () => roundTo(dtype, next()))) };
  }
  if (values.length !== size) throw new Error(`${values.length} values for ${formatType({ dtype, shape })}`);
  return { dtype, shape, data: dtypes[dtype].create([...values]) };
}

let nextSeed = 1;

/** Random floats in [low, high). */
export const floats = (shape: Shape, low = -2, high = 2, kinks: readonly number[] = []): Source => ({
  dtype: "f32",
  shape,
  values: { low, high, seed: nextSeed++, kinks },
});

/** Random integers in [low, high). */
export const ints = (shape: Shape, low: number, high: number, dtype: DType = "i32"): Source => ({
  dtype,
  shape,
  values: { low, high, seed: nextSeed++ },
});

export const bools = (shape: Shape): Source => ints(shape, 0, 2, "bool");

export const given = (dtype: DType, shape: Shape, values: readonly number[]): Source => ({ dtype, shape, values });

export const scalar = (dtype: DType, value: number): Source => given(dtype, [], [value]);

/** Distinct floats, so that no two elements tie and small steps change no order. */
export function distinct(shape: Shape): Source {
  const size = sizeOf(shape);
  const random = randomFrom(nextSeed++);
  const values = Array.from({ length: size }, (_unused, index) => (index - size / 2) * 0.25);
  for (let index = size - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    [values[index], values[other]] = [values[other] as number, values[index] as number];
  }
  return given("f32", shape, values);
}

/** Element at an index; `outside` where the index is. */
export function at(tensor: HostTensor, index: readonly number[], outside = 0): number {
  const strides = stridesOf(tensor.shape);
  let offset = 0;
  for (let dim = 0; dim < index.length; dim++) {
    const place = index[dim] as number;
    if (place < 0 || place >= (tensor.shape[dim] as number)) return outside;
    offset += place * (strides[dim] as number);
  }
  return tensor.data[offset] as number;
}

/** All indices of a shape in row-major order. */
export function indices(shape: Shape): number[][] {
  const index = shape.map(() => 0);
  return Array.from({ length: sizeOf(shape) }, () => {
    const now = index.slice();
    for (let dim = shape.length - 1; dim >= 0; dim--) {
      index[dim] = (index[dim] as number) + 1;
      if ((index[dim] as number) < (shape[dim] as number)) break;
      index[dim] = 0;
    }
    return now;
  });
}

/** A flat array of `value` at each index of a shape. */
export const build = (shape: Shape, value: (...index: number[]) => number): number[] =>
  indices(shape).map((index) => value(...index));

export const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/** Says where two lists of numbers differ by more than `tolerance` (relative to 1 + |expected|); 0 asks for equal bits. */
export function difference(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  tolerance: number,
): string | undefined {
  if (actual.length !== expected.length) return `${actual.length} values, expected ${expected.length}`;
  for (let index = 0; index < expected.length; index++) {
    const [a, e] = [actual[index] as number, expected[index] as number];
    const close = tolerance > 0 && Math.abs(a - e) <= tolerance * (1 + Math.abs(e));
    if (!close && !Object.is(a, e)) return `[${index}] is ${sign(a)}, expected ${sign(e)}`;
  }
  return undefined;
}

const sign = (value: number): string => (Object.is(value, -0) ? "-0" : String(value));
