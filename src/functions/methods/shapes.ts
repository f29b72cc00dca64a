/** @module The same elements, or some of them, in another shape. */

import type { Node } from "../../ir/node.ts";
import { normalizeDim, type Shape } from "../../ir/shape.ts";
import * as ops from "../../ops/index.ts";
import { checkShape, checkWhole } from "../../tensor/arguments.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import { shown } from "../../util/show.ts";
import { expandDim, fromEnd, squeezeNode } from "../nodes.ts";

function sliceFromEnd(x: Node, start: readonly number[], limit: readonly number[], stride?: readonly number[]): Node {
  const counted = (indices: readonly number[]): number[] =>
    indices.map((index, dim) => fromEnd(index, x.shape[dim] ?? 0));
  return ops.slice(x, counted(start), counted(limit), stride);
}

/** The same elements in row-major order under another shape; one size may be -1. Outside of compiled functions the result is a view: it shares memory with x. @throws HeddleError `shape` if the sizes do not fit */
export function reshape(x: Tensor, shape: Shape): Tensor {
  checkShape("reshape", shape, true);
  return operate("reshape", ops.reshape, [x], shape);
}

/**
 * Permutes dims: dim i of the result is dim order[i] of x; default: all dims reversed. Outside of compiled functions the result is a
 * view, which operations read by strides.
 *
 * @throws HeddleError `shape` for an order that is not a permutation of the dims
 */
export function transpose(x: Tensor, order?: readonly number[]): Tensor {
  if (order !== undefined) checkWhole("transpose", "order", order);
  return operate("transpose", ops.transpose, [x], order);
}

/**
 * Repeats x along new first dims, and along dims of size 1, to fill `shape`: NumPy's rule. The gradient is summed over the
 * repeats.
 *
 * @throws HeddleError `shape` if another size differs.
 */
export function broadcastTo(x: Tensor, shape: Shape): Tensor {
  checkShape("broadcastTo", shape);
  return operate("broadcastTo", ops.broadcastTo, [x], shape);
}

/**
 * Elements start, start + stride, … below `limit`, along each dim. Each list has one number per dim; `stride` is 1 by default. A
 * negative `start` or `limit` counts from the end: `x.slice([-2], [5])` of five elements is the last two. Outside of compiled
 * functions a slice of whole rows is a view, which shares memory with x.
 *
 * @throws HeddleError `shape` unless start <= limit, both are within the dim, and the stride is positive.
 */
export function slice(
  x: Tensor,
  start: readonly number[],
  limit: readonly number[],
  stride?: readonly number[],
): Tensor {
  checkWhole("slice", "start", start);
  checkWhole("slice", "limit", limit);
  if (stride !== undefined) checkWhole("slice", "stride", stride);
  return operate("slice", sliceFromEnd, [x], start, limit, stride);
}

/**
 * Pads with a value (default 0): `amounts[dim] = [low, high]`, or `[low, high, interior]` with `interior` values between neighbours.
 * Negative `low` and `high` cut elements off.
 *
 * @throws HeddleError `argument` unless amounts are a list; `shape` if amounts do not fit the dims
 */
export function pad(
  x: Tensor,
  amounts: readonly (readonly [number, number] | readonly [number, number, number])[],
  value = 0,
): Tensor {
  if (!Array.isArray(amounts))
    throw new HeddleError("argument", `pad: amounts must be [low, high] per dim, got ${shown(amounts)}`);
  amounts.forEach((amount, dim) => {
    checkWhole("pad", `amounts[${dim}]`, amount);
  });
  return operate(
    "pad",
    (node: Node, list: readonly (readonly [number, number, number?])[], value: number) =>
      ops.pad(
        node,
        ops.constant(node.dtype, value),
        list.map(([low]) => low),
        list.map(([, high]) => high),
        list.map(([, , interior]) => interior ?? 0),
      ),
    [x],
    amounts,
    value,
  );
}

/** Inserts a dim of size 1 as dim `dim` of the result: PyTorch's unsqueeze. */
export const expandDims = (x: Tensor, dim: number): Tensor => operate("expandDims", expandDim, [x], dim);

/** Removes a dim of size 1, or all of them. @throws HeddleError `shape` for a dim of another size */
export const squeeze = (x: Tensor, dim?: number): Tensor => operate("squeeze", squeezeNode, [x], dim);

/** Moves a dim to another position; the other dims keep their order. */
export const moveDim = (x: Tensor, from: number, to: number): Tensor =>
  operate(
    "moveDim",
    (node: Node, a: number, b: number) =>
      ops.moveDim(node, normalizeDim(a, node.shape.length, "moveDim"), normalizeDim(b, node.shape.length, "moveDim")),
    [x],
    from,
    to,
  );
