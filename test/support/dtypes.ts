/** @module Rows of the table of ops in other dtypes than those they are written in. */
import { type DType, dtypes, isFloat, isLong } from "../../src/ir/dtype.ts";
import { isAbsent } from "../../src/ir/node.ts";
import { opNamed } from "../../src/ir/op.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { type Row, rowGraph, rowInputs } from "./row.ts";
import type { Source } from "./tensors.ts";

/** The dtypes that rows are not written in, with the tolerance of executors, relative to 1 + |value|. */
export const otherDTypes: { readonly [D in DType]?: number } = {
  bf16: 2 ** -6,
  f16: 2 ** -9,
  i8: 0,
  u8: 0,
  u32: 0,
  i64: 0,
  u64: 0,
};

/** The rows with their f32 inputs in a dtype, of those ops that are defined for it. */
export function rowsIn(rows: readonly Row[], dtype: DType): Row[] {
  return rows.flatMap((row) => {
    if (row.single === true || row.attrs?.["dtype"] !== undefined || row.fails !== undefined) return [];
    if (!row.inputs.some((input) => input.dtype === "f32")) return [];
    const inputs = row.inputs.map((input) => (input.dtype === "f32" ? sourceIn(input, dtype) : input));
    const { shardings: _once, expected: _other, ...rest } = row;
    // The reference of a composite rounds every node of its body, a kernel once.
    const steps = isAbsent(opNamed(row.op).body) ? 1 : 4;
    const tolerance = (otherDTypes[dtype] as number) * steps;
    const made: Row = { ...rest, title: `${row.title} (${dtype})`, inputs, tolerance };
    return isFloat(dtype) || isDefined(made) ? [made] : [];
  });
}

function sourceIn(source: Source, dtype: DType): Source {
  const { values } = source;
  if (isFloat(dtype)) return { ...source, dtype };
  const lowest = Math.max(dtypes[dtype].lowest, -(2 ** 31));
  const whole = (value: number): number =>
    Number.isFinite(value) ? Math.max(lowest, Math.min(Math.round(value), 100)) : 0;
  if (!("seed" in values)) return { ...source, dtype, values: values.map(whole) };
  return { ...source, dtype, values: { ...values, low: whole(values.low), high: Math.max(1, whole(values.high)) } };
}

function isDefined(row: Row): boolean {
  try {
    // Some divide by what is 0 in integers.
    evaluateGraph(rowGraph(row), rowInputs(row));
    return true;
  } catch (error) {
    if (error instanceof HeddleError) return false;
    throw error;
  }
}

/** Values at the edges of a dtype, as numbers, or bigints of 64-bit integers. */
export function edges(dtype: DType): (number | bigint)[] {
  if (isFloat(dtype)) {
    const large = [127.5, 128, 255.5, 256, 65519.9, 65520, 65504, 2147483648, 4294967296, 2 ** 63, 2 ** 64, 1e300];
    const small = [
      0,
      0.5,
      1,
      1.5,
      2.5,
      1 / 3,
      1 + 2 ** -9,
      1 + 2 ** -8 + 2 ** -40,
      2 ** -14,
      2 ** -25 + 2 ** -60,
      1e-40,
    ];
    const all = [...small, ...large];
    return [...all, ...all.map((value) => -value), Number.NaN, Infinity, -Infinity];
  }
  if (isLong(dtype)) {
    const bits = [0n, 1n, 2n, 127n, 128n, 255n, 256n, 2n ** 31n, 2n ** 32n, 2n ** 53n + 1n, 2n ** 62n + 2n ** 54n + 1n];
    const near = [...bits, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n];
    return near.flatMap((value) => [value, -value]);
  }
  const { lowest, highest } = dtypes[dtype];
  const near = [lowest, lowest + 1, -1, 0, 1, 2, 3, 77, highest - 1, highest];
  return near.filter((value) => value >= lowest && value <= highest);
}
