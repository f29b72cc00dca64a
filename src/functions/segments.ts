/** @module Rows combined by segment. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { identityOf } from "../ops/reduce.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";
import { checkInteger } from "../util/options.ts";

/** Combines the rows of each segment; `segments` (i32) has the segment of each row. */
function segment(op: "sum" | "prod" | "max" | "min", x: Node, segments: Node, count: number): Node {
  const shape = [count, ...x.shape.slice(segments.shape.length)];
  if (op === "sum") return ops.scatterAdd(x, segments, count);
  return ops.scatter(op, ops.full(x.dtype, shape, identityOf(op, x.dtype)), segments, x);
}

function segmentMeanNode(x: Node, segments: Node, count: number): Node {
  const value = isFloat(x.dtype) ? x : ops.cast(x, "f32");
  const rows = ops.scatterAdd(ops.full(value.dtype, segments.shape, 1), segments, count);
  const sums = ops.scatterAdd(value, segments, count);
  return ops.div(sums, ops.broadcastInDim(rows, sums.shape, [0]));
}

const segmentOf =
  (name: string, build: (x: Node, segments: Node, count: number) => Node) =>
  (x: Tensor, segments: Tensor, count: number): Tensor => {
    checkInteger(name, "count", count, 0);
    return operate(name, build, [x, segments], count);
  };

type Segment = (x: Tensor, segments: Tensor, count: number) => Tensor;

/**
 * Sums of the rows of each of `count` segments: `[count, ...row]`; `segments` (i32) has the segment of each row of x. An empty segment
 * gives 0.
 *
 * @throws HeddleError `option` for a count that is not a whole number from 0 on; `value` when it runs and a segment is outside
 * `[0, count)`
 */
export const segmentSum: Segment = segmentOf("segmentSum", (x, at, count) => segment("sum", x, at, count));

/** Largest elements of the rows of each segment, as {@link segmentSum}; an empty segment gives -inf, or the lowest integer. Ties share the gradient. */
export const segmentMax: Segment = segmentOf("segmentMax", (x, at, count) => segment("max", x, at, count));

/** Smallest elements of the rows of each segment, as {@link segmentSum}; an empty segment gives inf, or the highest integer. Ties share the gradient. */
export const segmentMin: Segment = segmentOf("segmentMin", (x, at, count) => segment("min", x, at, count));

/** Products of the rows of each segment, as {@link segmentSum}; an empty segment gives 1. */
export const segmentProd: Segment = segmentOf("segmentProd", (x, at, count) => segment("prod", x, at, count));

/** Means of the rows of each segment, as {@link segmentSum}; an empty segment gives NaN. Integers give f32. */
export const segmentMean: Segment = segmentOf("segmentMean", segmentMeanNode);
