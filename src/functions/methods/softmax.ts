/** @module Softmax and its logarithm, as methods. */
import type { Node } from "../../ir/node.ts";
import * as ops from "../../ops/index.ts";
import { inFloat32 } from "../../ops/wide.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { checkOptions } from "../../util/options.ts";
import { logSumExpParts, softmaxNode } from "../nodes.ts";
import type { ReduceOptions } from "./reductions.ts";

function logSumExpNode(x: Node, dim = -1, options: { keepDims?: boolean } = {}): Node {
  return inFloat32([x], (wide) => {
    const { shift, log } = logSumExpParts(wide, dim);
    const total = ops.add(log, shift);
    return options.keepDims === true ? total : ops.reshape(total, ops.max(wide, dim).shape);
  });
}

function logSoftmaxNode(x: Node, dim = -1): Node {
  return inFloat32([x], (wide) => {
    const { shift, log } = logSumExpParts(wide, dim);
    return ops.sub(ops.sub(wide, shift), log);
  });
}

/**
 * exp(x) / sum(exp(x)) over a dim (default the last), of floats, after the largest is subtracted, so that nothing overflows.
 * All NaN if the largest is infinite: all elements are -Infinity, or one is Infinity.
 */
export const softmax = (x: Tensor, dim?: number): Tensor => operate("softmax", softmaxNode, [x], dim);

/** x - logSumExp(x) over a dim (default the last), of floats: the logarithm of softmax, finite also where softmax rounds to 0. */
export const logSoftmax = (x: Tensor, dim?: number): Tensor => operate("logSoftmax", logSoftmaxNode, [x], dim);

/**
 * log(sum(exp(x))) over a dim (default the last), of floats, without overflow: -Infinity if all elements are. The dim is
 * removed, or stays as size 1 with `keepDims`.
 */
export function logSumExp(x: Tensor, dim?: number, options: ReduceOptions = {}): Tensor {
  checkOptions("logSumExp", options, ["keepDims"]);
  return operate("logSumExp", logSumExpNode, [x], dim, options);
}
