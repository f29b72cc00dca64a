/** @module Where XLA on the CPU means something else: docs/stablehlo.md, "Differences in meaning". */
import type { DType } from "../../src/ir/index.ts";
import type { Row } from "../support/row.ts";

/** Why a row of the table is not compared; undefined: it is. What XLA does instead is in differences.test.ts. */
export function differenceOf(row: Row): string | undefined {
  if (row.fails !== undefined) return "a value error here, a value in XLA";
  if (row.op === "lu" && /^a column without a pivot/.test(row.title))
    return "LAPACK goes past a NaN in the search for a pivot";
  if (row.op === "matrixExp" && /^far from 0/.test(row.title))
    return "in XLA the diagonal is one or two units off before it is squared a hundred times, which leaves 0 of it";
  if (/^Newton.*f16\)/.test(row.title))
    return "the loop ends when a sum is equal to the last bit, which XLA's may never be";
  return undefined;
}

const smallestNormal: { readonly [dtype: string]: number } = { f32: 2 ** -126, bf16: 2 ** -126, f64: 2 ** -1022 };

/** Whether a number is the same, relative to its size; XLA may give 0 where it is subnormal. */
export function sameInXla(actual: number, expected: number, dtype: DType, tolerance: number): boolean {
  if (Object.is(actual, expected)) return true;
  const smallest = smallestNormal[dtype] ?? 0;
  if (actual === 0 && Math.abs(expected) < smallest) return true;
  return tolerance > 0 && Number.isFinite(expected) && Math.abs(actual - expected) <= tolerance * Math.abs(expected);
}
