/** @module Integers that users give as indices and labels, in the dtype in which lookups read them. */

import { isLong } from "../ir/dtype.ts";
import * as ops from "../ops/index.ts";
import { operate, type Tensor, valuesAtHand } from "../tensor/tensor.ts";
import { faultError, type OutsideIndex, retold } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";
import { wrapped } from "./nodes.ts";

const [least, most] = [-(2 ** 31), 2 ** 31 - 1];

/** What integers are in messages: ids in a table of so many rows, or labels of so many classes. */
export interface IndexRole {
  readonly kind: "index" | "label";
  readonly size: number;
}

/** The nearest number of i32, which is outside of every table too. */
export const clamped = (value: number | bigint): number =>
  value > most ? most : value < least ? least : Number(value);

/**
 * As i32; what that cannot hold becomes its least or largest number, which is outside of every table, rather than wrap into it.
 *
 * @throws HeddleError `value` for such a one, where a role is given and the values are there
 */
export function toIndices(x: Tensor, role?: IndexRole): Tensor {
  if (role !== undefined && isWide(x)) checkWide(x, role);
  switch (x.dtype) {
    case "i64":
      return x.minimum(most).maximum(least).cast("i32");
    case "u32":
    case "u64":
      return x.minimum(most).cast("i32");
    case "i32":
      return x;
    default:
      return x.cast("i32");
  }
}

const isWide = ({ dtype }: Tensor): boolean => isLong(dtype) || dtype === "u32";

function checkWide(x: Tensor, { kind, size }: IndexRole): void {
  // Nothing is waited for.
  const there = !x.isTraced && x.value.shards.every(({ ready }) => ready);
  const values: ArrayLike<number | bigint> = (there ? valuesAtHand(x) : undefined) ?? [];
  for (let position = 0; position < values.length; position++) {
    const value = values[position] as number | bigint;
    if (value <= most && value >= least) continue;
    throw faultError({ kind, index: value, position, size });
  }
}

/** i32 positions that count from the end where negative, counted from the start; for lookups that make others of them. */
export const fromStart = (positions: Tensor, size: number): Tensor =>
  operate("from start", wrapped, [toIndices(positions)], size);

/** Rows by ids or labels: they name a row, so a negative one is outside, not counted from the end as `gather` does. */
export const rowsById = (x: Tensor, ids: Tensor, batchDims = 0): Tensor =>
  operate("gather ids", ops.gather, [x, ids], batchDims);

/** Looks rows of a table up. Of an id that i32 cannot hold, and that is known only as it runs, the number is told as a bound. */
export function lookedUp<Result>(name: string, x: Tensor, size: number, body: (ids: Tensor) => Result): Result {
  const ids = toIndices(x, { kind: "index", size });
  if (!isWide(x)) return body(ids);
  const says = (found: OutsideIndex): Fault => {
    const { index } = found;
    return index === most || index === least
      ? { ...found, kind: "index", or: index === most ? "more" : "less" }
      : found;
  };
  return retold(name, says, () => body(ids));
}
