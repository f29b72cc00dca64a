/** @module Selection by a condition, under its two names. */

import type { Node } from "../ir/node.ts";
import * as ops from "../ops/index.ts";
import { operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";

/** A selection. Two numbers give f32, the default of `tensor`, as the condition has no dtype for them. */
export function selected(name: string, condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor {
  if (typeof onTrue !== "number" || typeof onFalse !== "number")
    return operate(name, ops.select, [condition, onTrue, onFalse]);
  const build = (node: Node, left: number, right: number): Node =>
    ops.select(node, ops.constant("f32", left), ops.constant("f32", right));
  return operate(`${name} of numbers`, build, [condition], onTrue, onFalse);
}
