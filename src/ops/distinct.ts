/** @module The distinct elements of a vector, sorted and numbered. */
import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import * as emit from "./emit.ts";
import { argsort } from "./sort.ts";

/** Whether each element of a sorted vector differs from the element before; all NaNs are equal. */
function beginnings(sorted: Node, count: number): Node {
  const [before, after] = [emit.slice(sorted, [0], [count - 1]), emit.slice(sorted, [1], [count])];
  const differ = emit.ne(after, before);
  const starts = isFloat(sorted.dtype)
    ? emit.and(differ, emit.not(emit.and(emit.isNaN(before), emit.isNaN(after))))
    : differ;
  return emit.concat([emit.full("bool", [1], 1), starts], 0);
}

/** The elements of a vector in ascending order, the index of each, and the number of distinct elements before each. */
export function distinct(flat: Node): { readonly order: Node; readonly sorted: Node; readonly rank: Node } {
  const order = argsort(flat);
  const sorted = emit.gather(flat, order);
  const begins = emit.cast(beginnings(sorted, flat.shape[0] as number), "i32");
  return { order, sorted, rank: emit.sub(emit.cumsum(begins), 1) };
}
