/** @module The distinct elements of a tensor. Their number is that of the values, shapes are static: room is made for so many. */
import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { sizeOf } from "../ir/shape.ts";
import * as emit from "./emit.ts";
import { argsort } from "./sort.ts";

/** Whether each element of a sorted vector is another than the one before; NaNs are one. */
function beginnings(sorted: Node, count: number): Node {
  const [before, after] = [emit.slice(sorted, [0], [count - 1]), emit.slice(sorted, [1], [count])];
  const differ = emit.ne(after, before);
  const other = isFloat(sorted.dtype)
    ? emit.and(differ, emit.not(emit.and(emit.isNaN(before), emit.isNaN(after))))
    : differ;
  return emit.concat([emit.full("bool", [1], 1), other], 0);
}

/** The elements of a vector in ascending order, where each was, and how many distinct ones are before it. */
export function distinct(flat: Node): { readonly order: Node; readonly sorted: Node; readonly rank: Node } {
  const order = argsort(flat);
  const sorted = emit.gather(flat, order);
  const begins = emit.cast(beginnings(sorted, flat.shape[0] as number), "i32");
  return { order, sorted, rank: emit.sub(emit.cumsum(begins), 1) };
}

/**
 * `[values, inverse, counts, number]`: the first `size` distinct elements in ascending order, the place of each element among
 * all distinct ones (in the shape of x), how often each value occurs, and how many distinct elements there are. Places behind
 * those hold `fill` (default the first value), and 0 in the counts.
 */
export function unique(x: Node, size: number, fill?: number): Node[] {
  const count = sizeOf(x.shape);
  if (count === 0) {
    const values = emit.full(x.dtype, [size], fill ?? 0);
    return [values, emit.full("i32", x.shape, 0), emit.full("i32", [size], 0), emit.full("i32", [], 0)];
  }
  const { order, sorted, rank } = distinct(emit.reshape(x, [count]));
  const inverse = emit.reshape(emit.scatter("replace", emit.full("i32", [count], 0), order, rank), x.shape);
  // One more row takes those that there is no room for.
  const row = emit.minimum(rank, size);
  const counts = emit.slice(emit.scatterAdd(emit.full("i32", [count], 1), row, size + 1), [0], [size]);
  const number = emit.add(emit.reshape(emit.slice(rank, [count - 1], [count]), []), 1);
  const starts = emit.sub(emit.cumsum(counts), counts);
  const found = emit.gather(sorted, emit.minimum(starts, count - 1));
  const first = emit.slice(sorted, [0], [1]);
  const other = fill === undefined ? emit.broadcastTo(first, [size]) : emit.full(x.dtype, [size], fill);
  return [emit.select(emit.gt(counts, 0), found, other), inverse, counts, number];
}
