/** @module Makers of elementwise functions of tensors from functions of nodes. */

import type { Node } from "../ir/node.ts";
import type * as ops from "../ops/index.ts";
import { operandChecks } from "../ops/spelling.ts";
import { compared, isTensor, operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";

/** A function of one tensor. */
export type Unary = (x: Tensor) => Tensor;

/** A function of two operands; one of them may be a number. */
export type Binary = (x: TensorLike, y: TensorLike) => Tensor;

/** A function of one tensor from a function of one node; `name` is the name that users call it by. */
export const unary =
  (name: string, build: (x: Node) => Node): Unary =>
  (x) =>
    operate(name, build, [x]);

/** A function of two operands from a function of nodes and numbers. */
export const binary =
  (name: string, build: (x: ops.Operand, y: ops.Operand) => Node): Binary =>
  (x, y) => {
    if (isTensor(x)) operandChecks[name]?.(x, y);
    return operate(name, build, [x, y]);
  };

/** A comparison of two operands. */
export const comparison =
  (name: ops.Comparison): Binary =>
  (x, y) =>
    compared(name, x, y);
