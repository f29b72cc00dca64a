/**
 * @module Reference arithmetic on 64-bit integers, in bigints: exact, then wrapped to 64 bits. Reference implementations pass
 * bigints through code that is typed for numbers; here their type is bigint.
 */

import { type DType, isFloat, longBounds, numberOfLong, roundTo, wrapLong } from "../ir/dtype.ts";
import { faultError, HeddleError } from "../util/errors.ts";

type Long = "i64" | "u64";

const nonzero = (name: "div" | "rem", dtype: Long, y: bigint): bigint => {
  if (y === 0n) throw faultError({ kind: "zeroDivisor", by: name, op: name, dtype });
  return y;
};

/** Whether a shift by this amount leaves no bit; a negative amount is read as unsigned. */
const gone = (y: bigint): boolean => y < 0n || y >= 64n;

/** `wholePower` of scalar-bits.ts, in 64 bits. */
function power(x: bigint, y: bigint): bigint {
  if (y < 0n) return x === 1n ? 1n : x === -1n ? (y % 2n === 0n ? 1n : -1n) : 0n;
  let [result, square] = [1n, x];
  for (let rest = y; rest > 0n; rest /= 2n) {
    if (rest % 2n === 1n) result = BigInt.asUintN(64, result * square);
    square = BigInt.asUintN(64, square * square);
  }
  return result;
}

/** The scalar functions that are defined for integers. */
export const longRows: { readonly [name: string]: (x: bigint, y: bigint, dtype: Long) => bigint } = {
  neg: (x) => -x,
  abs: (x) => (x < 0n ? -x : x),
  sign: (x) => (x < 0n ? -1n : x > 0n ? 1n : 0n),
  not: (x) => ~x,
  add: (x, y) => x + y,
  sub: (x, y) => x - y,
  mul: (x, y) => x * y,
  div: (x, y, dtype) => x / nonzero("div", dtype, y),
  rem: (x, y, dtype) => x % nonzero("rem", dtype, y),
  pow: power,
  max: (x, y) => (x > y ? x : y),
  min: (x, y) => (x < y ? x : y),
  and: (x, y) => x & y,
  or: (x, y) => x | y,
  xor: (x, y) => x ^ y,
  shiftLeft: (x, y) => (gone(y) ? 0n : x << y),
  popcount: (x) => BigInt([...BigInt.asUintN(64, x).toString(2)].filter((bit) => bit === "1").length),
  countLeadingZeros: (x) => (x === 0n ? 64n : 64n - BigInt(BigInt.asUintN(64, x).toString(2).length)),
  shiftRightLogical: (x, y) => (gone(y) ? 0n : BigInt.asUintN(64, x) >> y),
  shiftRightArithmetic: (x, y) => BigInt.asIntN(64, x) >> (gone(y) ? 63n : y),
  shiftRight: (x, y) => (gone(y) ? (x < 0n ? -1n : 0n) : x >> y),
};

/** A scalar function on 64-bit integers; its numbers are bigints at run time. */
export function longFunction(name: string, dtype: Long): (x: number, y: number | undefined) => number {
  const row = longRows[name];
  if (row === undefined) throw new HeddleError("dtype", `${name}: not defined for ${dtype}`);
  const wrapped = (x: bigint, y: bigint = 0n): bigint => wrapLong(dtype, row(x, y, dtype));
  return wrapped as unknown as (x: number, y: number | undefined) => number;
}

/** A 64-bit integer as a value of another dtype: rounded once to floats, wrapped to integers. */
export function castLong(value: bigint, to: DType): number {
  if (to === "bool") return value === 0n ? 0 : 1;
  if (to === "i64" || to === "u64") return wrapLong(to, value) as unknown as number;
  if (to === "f64") return Number(value);
  return isFloat(to) ? roundTo(to, numberOfLong(value)) : roundTo(to, Number(BigInt.asIntN(32, value)));
}

/** A number as a 64-bit integer: floats truncate and saturate, NaN gives 0; integers wrap. */
export function longOf(value: number, from: DType, to: Long): bigint {
  if (!isFloat(from)) return wrapLong(to, BigInt(value));
  if (Number.isNaN(value)) return 0n;
  const [lowest, highest] = longBounds[to];
  if (!Number.isFinite(value)) return value < 0 ? lowest : highest;
  const whole = BigInt(Math.trunc(value));
  return whole < lowest ? lowest : whole > highest ? highest : whole;
}
