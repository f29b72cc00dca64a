/** @module Users' integer indices and labels in i32, the dtype of lookups. */

import { isLong } from "../ir/dtype.ts";
import * as ops from "../ops/index.ts";
import { operate, type Tensor, valuesAtHand } from "../tensor/tensor.ts";
import { faultError, type OutsideIndex, retold } from "../util/errors.ts";
import type { Fault } from "../util/faults.ts";
import { wrapped } from "./nodes.ts";

const [least, most] = [-(2 ** 31), 2 ** 31 - 1];

/** What messages call the integers: indices into a table of `size` rows, or labels of `size` classes. */
export interface IndexRole {
  readonly kind: "index" | "label";
  readonly size: number;
}

/** The nearest number of i32; a number beyond i32 stays outside of every table. */
export const clamped = (value: number | bigint): number =>
  value > most ? most : value < least ? least : Number(value);

/**
 * Converts to i32; a number that i32 cannot hold becomes the least or largest number of i32, which is outside of every table, instead of
 * wrapping into it.
 *
 * @throws HeddleError `value` for such a number, if a role is given and the values are at hand
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
  // Only values that are ready are checked.
  const ready = !x.isTraced && x.value.shards.every(({ ready }) => ready);
  const values: ArrayLike<number | bigint> = (ready ? valuesAtHand(x) : undefined) ?? [];
  for (let position = 0; position < values.length; position++) {
    const value = values[position] as number | bigint;
    if (value <= most && value >= least) continue;
    throw faultError({ kind, index: value, position, size });
  }
}

/** Positions in i32, negative ones counted from the end, as positions from the start. */
export const fromStart = (positions: Tensor, size: number): Tensor =>
  operate("from start", wrapped, [toIndices(positions)], size);

/** Rows by ids or labels, which name rows: a negative id is outside, unlike a negative index of `gather`. */
export const rowsById = (x: Tensor, ids: Tensor, batchDims = 0): Tensor =>
  operate("gather ids", ops.gather, [x, ids], batchDims);

/** Looks up rows of a table. If i32 cannot hold an id and only the run knows it, the error gives a bound instead of the number. */
export function lookedUp<Result>(name: string, x: Tensor, size: number, body: (ids: Tensor) => Result): Result {
  const ids = toIndices(x, { kind: "index", size });
  if (!isWide(x)) return body(ids);
  const says = (outside: OutsideIndex): Fault => {
    const { index } = outside;
    return index === most || index === least
      ? { ...outside, kind: "index", or: index === most ? "more" : "less" }
      : outside;
  };
  return retold(name, says, () => body(ids));
}
