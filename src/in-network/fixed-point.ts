/** @module Values as 32-bit lanes whose sums are sums of the values: integers exactly, floats by a scale that all workers share. */
import { type DType, dtypes, isFloat, type TypedArray } from "../ir/dtype.ts";
import { HeddleError } from "../util/errors.ts";
import { allZero, notFinite } from "./packet.ts";

/** How the elements of a dtype travel. */
export interface Lanes {
  /** Lanes of an element. */
  readonly each: number;
  /** Smallest e such that every element is below 2^e, for floats. */
  exponent(data: TypedArray, from: number, to: number): number;
  /** Lanes of elements, for the largest exponent of all workers. */
  pack(data: TypedArray, from: number, to: number, exponent: number): Int32Array;
  /** Elements from sums of lanes. */
  unpack(lanes: Int32Array, into: TypedArray, from: number, exponent: number): void;
}

/** Elements of up to 32 bits are a lane: sums modulo 2^32 are sums modulo every smaller power. */
const integers: Lanes = {
  each: 1,
  exponent: () => allZero,
  pack: (data, from, to) => Int32Array.from(data.subarray(from, to) as Int32Array),
  unpack: (lanes, into, from) => into.set(lanes as never, from),
};

/** Elements of 64 bits are four lanes of 16 bits each, which leaves room for the carries of 32,768 workers. */
const wideIntegers: Lanes = {
  each: 4,
  exponent: () => allZero,
  pack: (data, from, to) => {
    const { buffer, byteOffset } = data;
    return Int32Array.from(new Uint16Array(buffer as ArrayBuffer, byteOffset + 8 * from, 4 * (to - from)));
  },
  unpack: (lanes, into, from) => {
    for (let at = 0; at < lanes.length; at += 4) {
      let sum = 0n;
      for (let part = 3; part >= 0; part--) sum = (sum << 16n) + BigInt(lanes[at + part] as number);
      // Typed arrays keep the lowest 64 bits.
      (into as unknown as BigInt64Array)[from + at / 4] = sum;
    }
  },
};

/** Bits of the sum's magnitude. */
const bits = 30;

/** `[n]`: the scale is 2^(30 - exponent - log2 n), so that no sum of n workers overflows. */
function floats(dtype: DType, workers: number): Lanes {
  const room = Math.ceil(Math.log2(workers));
  const scaleOf = (exponent: number): number => bits - room - exponent;
  // 2^1100 is no number, but x · 2^550 · 2^550 is.
  const times = (x: number, power: number): number =>
    x * 2 ** Math.trunc(power / 2) * 2 ** (power - Math.trunc(power / 2));
  return {
    each: 1,
    exponent: (data, from, to) => {
      let largest = 0;
      for (let index = from; index < to; index++) {
        const x = Math.abs(Number(data[index]));
        if (!Number.isFinite(x)) return notFinite;
        if (x > largest) largest = x;
      }
      return largest === 0 ? allZero : exponentOf(largest);
    },
    pack: (data, from, to, exponent) =>
      exponent === notFinite || exponent === allZero
        ? new Int32Array(to - from)
        : Int32Array.from({ length: to - from }, (_unused, index) =>
            Math.round(times(Number(data[from + index]), scaleOf(exponent))),
          ),
    unpack: (lanes, into, from, exponent) => {
      const values = Array.from(lanes, (lane) =>
        exponent === notFinite ? Number.NaN : exponent === allZero ? 0 : times(lane, -scaleOf(exponent)),
      );
      into.set(dtypes[dtype].create(values) as never, from);
    },
  };
}

/** Smallest e such that x < 2^e, for x above 0. */
function exponentOf(x: number): number {
  let e = Math.floor(Math.log2(x)) + 1;
  // Logarithms are rounded.
  while (x >= 2 ** e) e++;
  while (x < 2 ** (e - 1) && e > -1074) e--;
  return e;
}

/** How a dtype travels between so many workers. @throws HeddleError `dtype` for bool, of which there is no sum */
export function lanesOf(dtype: DType, workers: number): Lanes {
  if (dtype === "bool") throw new HeddleError("dtype", "aggregate: a switch adds numbers, not bool");
  if (isFloat(dtype)) return floats(dtype, workers);
  return dtypes[dtype].bytes === 8 ? wideIntegers : integers;
}

/**
 * How far a sum of floats may be from the exact sum: for n workers whose elements of a chunk are below 2^e, n · 2^(e + ⌈log2 n⌉ - 31), half
 * a step of each worker.
 */
export const boundOf = (largest: number, workers: number): number =>
  largest === 0 ? 0 : workers * 2 ** (exponentOf(largest) + Math.ceil(Math.log2(workers)) - bits - 1);
