/** @module Products that are 0 for a factor of 0 and an infinite one. */

import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { inFloat32 } from "../ops/wide.ts";
import { operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";

const timesOrZero = (x: Node, y: Node): Node => ops.mul(x, ops.select(ops.and(ops.eq(x, 0), ops.isInf(y)), 0, y));

function timesLog(x: ops.Operand, y: ops.Operand): Node {
  const like = (typeof x === "object" ? x : y) as Node;
  const lifted = (operand: ops.Operand): Node =>
    typeof operand === "object" ? operand : ops.constant(like.dtype, operand);
  return inFloat32([lifted(x), lifted(y)], (factor, value) => {
    const outside = ops.or(ops.le(value, 0), ops.eq(value, Number.POSITIVE_INFINITY));
    return ops.mul(factor, ops.log(ops.select(ops.and(ops.eq(factor, 0), outside), 1, value)));
  });
}

/**
 * x times y, with broadcasting; 0 if x is 0 and y infinite, and then both gradients are 0 too. NaN stays, unlike in TensorFlow's
 * `multiply_no_nan`. For weights of values that may be infinite.
 */
export const mulNoNan = (x: Tensor, y: Tensor): Tensor => operate("mulNoNan", timesOrZero, [x, y]);

/**
 * x times log(y), of floats, with broadcasting; 0 if x is 0, unless y is NaN, as SciPy's and PyTorch's `xlogy`. The gradients are
 * log(y) and x / y, both 0 if x is 0 and log(y) is not finite; in PyTorch the second is NaN at y = 0. 16-bit floats are computed in
 * f32.
 *
 * @throws HeddleError `dtype` unless y is float
 */
export const xlogy = (x: TensorLike, y: TensorLike): Tensor => operate("xlogy", timesLog, [x, y]);
