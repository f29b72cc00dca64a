/** @module Elimination with partial pivoting. */

import type { View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node, type OpDef } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { batchByEquation } from "./batch.ts";
import { batchEquation, checked, cubic, eachMatrix, factorCall, rowsOf } from "./factor.ts";
import { luGradient } from "./factor-gradient.ts";
import * as host from "./factor-host.ts";
import { f32 } from "./movement.ts";
import { resultsOf } from "./results.ts";

type None = Record<string, never>;

const luOp: OpDef<None> = defineOp<None>({
  name: "lu",
  doc: "Elimination with partial pivoting of a square matrix. Results: U on and above the diagonal and L, whose diagonal is 1, below it, in one matrix; for each row of L U its row (i32) in the input; the sign of that order. The pivot is the first of the largest numbers of a column; a column of zeros leaves a 0 on U's diagonal.",
  example: {
    inputs: [f32([2, 2], [1, 2, 4, 4])],
    attrs: {},
    outputs: [f32([2, 2], [4, 4, 0.25, 1]), { dtype: "i32", shape: [2], data: Int32Array.of(1, 0) }, f32([], [-1])],
  },
  infer: (inputs) => {
    const { dtype, shape } = checked("lu", inputs, 1, true);
    return [
      { dtype, shape },
      { dtype: "i32", shape: shape.slice(0, -1) },
      { dtype, shape: shape.slice(0, -2) },
    ];
  },
  equation: ([input]) => batchEquation(input as TensorType, [2], [2, 1, 0]),
  linear: [],
  gradient: ({ node, cotangents: [packed] }) => {
    const [values, order] = resultsOf(node) as [Node, Node];
    return [packed && luGradient(values, order, packed)];
  },
  batch: batchByEquation(),
  localize: absent("attributes hold no sizes"),
  cost: (inputs) => (2 / 3) * cubic(inputs),
  reference: (inputs, _attrs, outputs) =>
    eachMatrix(inputs, outputs, "lu", (a) => host.lu(a, rowsOf(inputs[0] as HostTensor))),
  form: { kind: "kernel" },
  lower: { emit: factorCall("lu", ([x]) => rowsOf(x as View)) },
});

/** L and U in one matrix, the order of the rows, and its sign. */
export const luPacked = (a: Node): Node[] => resultsOf(apply(luOp, [a], {}));
