/** @module The distinct elements of a tensor. */

import { isFloat, isValueOf } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, sizeOf } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkTensor, operateAll, type Tensor } from "../tensor/tensor.ts";
import { isTracing } from "../tensor/tracing.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { unknownSize } from "./finding.ts";

/** Options of {@link unique}. */
export interface UniqueOptions {
  /**
   * Places for distinct elements; if there are more, the smallest are kept. Must be given in a traced function, as shapes are static
   * there. Default: the number of distinct elements, for which the values are read, blocking.
   */
  readonly size?: number;
  /** The value of unused positions; default the smallest element. */
  readonly fill?: number;
}

/** The results of {@link unique}. */
export interface Unique {
  /** `[size]`: the distinct elements in ascending order. */
  readonly values: Tensor;
  /** An i32 tensor of the shape of x: `values[inverse]` is x, unless `size` left elements out. */
  readonly inverse: Tensor;
  /** `[size]` (i32): the count of each value; 0 for unused positions. */
  readonly counts: Tensor;
  /** A scalar (i32): the number of distinct elements, including those that `size` left out. */
  readonly number: Tensor;
}

function distinctParts(x: Node, size: number, fill?: number): Node[] {
  const count = sizeOf(x.shape);
  if (count === 0) {
    const values = ops.full(x.dtype, [size], fill ?? 0);
    return [values, ops.full("i32", x.shape, 0), ops.full("i32", [size], 0), ops.full("i32", [], 0)];
  }
  const { order, sorted, rank } = ops.distinct(ops.reshape(x, [count]));
  const inverse = ops.reshape(ops.scatter("replace", ops.full("i32", [count], 0), order, rank), x.shape);
  // A further row, which is cut off, takes elements beyond `size`.
  const row = ops.minimum(rank, size);
  const counts = ops.slice(ops.scatterAdd(ops.full("i32", [count], 1), row, size + 1), [0], [size]);
  const number = ops.add(ops.reshape(ops.slice(rank, [count - 1], [count]), []), 1);
  const starts = ops.sub(ops.cumsum(counts), counts);
  const found = ops.gather(sorted, ops.minimum(starts, count - 1));
  const first = ops.slice(sorted, [0], [1]);
  const filling = fill === undefined ? ops.broadcastTo(first, [size]) : ops.full(x.dtype, [size], fill);
  return [ops.select(ops.gt(counts, 0), found, filling), inverse, counts, number];
}

/**
 * The distinct elements of a tensor of any shape and dtype, as NumPy's and JAX's `unique`. All NaN are one element, above all numbers;
 * -0 and 0 are one element too, of which the first stays. The gradient by values goes to the first of equal elements.
 *
 * @throws HeddleError `argument` in a traced function without `size`; `dtype` for a `fill` that the dtype of x does not have
 * @example unique(tensor([3, 1, 3])) // values [1, 3], inverse [1, 0, 1], counts [1, 2], number 2
 */
export function unique(x: Tensor, options: UniqueOptions = {}): Unique {
  checkTensor("unique", x);
  checkOptions("unique", options, ["size", "fill"]);
  const { size, fill } = options;
  if (size !== undefined) checkInteger("unique", "size", size, 0);
  if (fill !== undefined && (typeof fill !== "number" || !(isFloat(x.dtype) || isValueOf(x.dtype, fill))))
    throw new HeddleError("dtype", `unique: fill must be a number of ${x.dtype}, the dtype of x, got ${shown(fill)}`);
  if (size !== undefined) return found(x, size, fill);
  if (isTracing()) throw unknownSize("unique", `how many elements of ${formatType(x)} are distinct`);
  const all = found(x, x.size, fill);
  const count = all.number.itemSync();
  return { ...all, values: all.values.slice([0], [count]), counts: all.counts.slice([0], [count]) };
}

function found(x: Tensor, size: number, fill: number | undefined): Unique {
  const [values, inverse, counts, number] = operateAll("unique", distinctParts, [x], size, fill) as [
    Tensor,
    Tensor,
    Tensor,
    Tensor,
  ];
  return { values, inverse, counts, number };
}
