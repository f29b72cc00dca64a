/** @module Rows of the table of scalar functions that count and move bits. */
import { type DType, dtypes } from "../ir/dtype.ts";
import { absent } from "../ir/node.ts";
import type { ScalarRow } from "./scalar-row.ts";

const widthOf = (dtype: DType): number => dtypes[dtype].bytes * 8;

/** The bits as an unsigned number. */
const bitsOf = (x: number, dtype: DType): number => (widthOf(dtype) < 32 ? x & (2 ** widthOf(dtype) - 1) : x >>> 0);

/** The bits as a signed number. */
const signedOf = (x: number, dtype: DType): number => (x << (32 - widthOf(dtype))) >> (32 - widthOf(dtype));

const integerRow = (doc: string, value: ScalarRow["value"], cost: number): ScalarRow => ({
  doc,
  dtypes: "integer",
  value,
  gradient: absent("not defined on floats"),
  linear: [],
  cost,
});

/** The number of set bits of a 32-bit number. */
function ones(x: number): number {
  let count = 0;
  for (let rest = x >>> 0; rest !== 0; rest >>>= 1) count += rest & 1;
  return count;
}

export const bitRows: { readonly [name: string]: ScalarRow } = {
  popcount: integerRow(
    "The number of set bits of an integer, in its dtype.",
    (x, _y, dtype) => ones(bitsOf(x, dtype)),
    12,
  ),
  countLeadingZeros: integerRow(
    "The number of zero bits above the highest set bit of an integer, in its dtype; the width of the dtype for 0.",
    (x, _y, dtype) => Math.clz32(bitsOf(x, dtype)) - (32 - widthOf(dtype)),
    22,
  ),
};

/** A negative amount is an amount of the width or more, read as unsigned. */
const amountOf = (y: number, dtype: DType): number => (y < 0 ? widthOf(dtype) : y);

export const bitPairs: { readonly [name: string]: ScalarRow } = {
  shiftRightLogical: integerRow(
    "Integers x shifted right by y bits and filled with 0, whatever the sign; 0 if y is the width or more.",
    (x, y, dtype) => (amountOf(y, dtype) >= widthOf(dtype) ? 0 : bitsOf(x, dtype) >>> y),
    1,
  ),
  shiftRightArithmetic: integerRow(
    "Integers x shifted right by y bits and filled with the highest bit, also of unsigned integers.",
    (x, y, dtype) => signedOf(x, dtype) >> Math.min(amountOf(y, dtype), widthOf(dtype) - 1),
    1,
  ),
};

/** An integer to an integer power, in the lowest 32 bits, by repeated squaring; a negative power is truncated to an integer. */
export function wholePower(x: number, y: number): number {
  if (y < 0) return x === 1 ? 1 : x === -1 ? (y % 2 === 0 ? 1 : -1) : 0;
  let [result, square] = [1, x];
  for (let rest = y; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result = Math.imul(result, square);
    square = Math.imul(square, square);
  }
  return result;
}
