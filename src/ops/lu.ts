/** @module Elimination with partial pivoting, and the systems that are solved by it. */

import { equationOf, letters } from "../ir/equation.ts";
import type { View } from "../ir/kernel.ts";
import { absent, type HostTensor, type Node, type OpDef } from "../ir/node.ts";
import { defineOp } from "../ir/op.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { batchByEquation } from "./batch.ts";
import { defineComposite } from "./composite.ts";
import * as emit from "./emit.ts";
import { batchEquation, checked, cubic, eachMatrix, f32, factorCall, rowsOf, triangularSolve } from "./factor.ts";
import { luGradient, turned } from "./factor-gradient.ts";
import * as host from "./factor-host.ts";
import { resultsOf } from "./results.ts";

type None = Record<string, never>;

const luOp: OpDef<None> = defineOp<None>({
  name: "lu",
  doc: "Elimination with partial pivoting of a square matrix: L below the diagonal, where it has ones, and U from it on in one matrix; the rows (i32) of the matrix in the order in which they are those of L U; the sign of that order. The pivot is the first of the largest numbers of a column; a column of zeros leaves a 0 on U's diagonal.",
  example: {
    inputs: [f32([2, 2], 1, 2, 4, 4)],
    attrs: {},
    outputs: [f32([2, 2], 4, 4, 0.25, 1), { dtype: "i32", shape: [2], data: Int32Array.of(1, 0) }, f32([], -1)],
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

/** Attributes of `solve`: whether the matrix is taken transposed. */
type SolveAttrs = { transpose: boolean };

const solveOp: OpDef<SolveAttrs> = defineComposite<SolveAttrs>({
  name: "solve",
  doc: "X with op(A) X = B for square A, by lu, op being the transpose if `transpose`. An exact 0 on U's diagonal is an error of the run.",
  example: {
    inputs: [f32([2, 2], 0, 2, 4, 4), f32([2, 1], 2, 8)],
    attrs: { transpose: false },
    outputs: [f32([2, 1], 1, 1)],
  },
  check: (inputs) => {
    checked("solve", inputs, 2, true);
  },
  body: ([a, b], { transpose }) => {
    const [packed, order] = luPacked(a as Node) as [Node, Node, Node];
    const lead = order.shape.length - 1;
    if (!transpose) {
      const below = triangularSolve(packed, emit.gather(b as Node, order, lead), { unit: true });
      return [triangularSolve(packed, below, { lower: false })];
    }
    const above = triangularSolve(packed, b as Node, { lower: false, transpose });
    const rows = triangularSolve(packed, above, { unit: true, transpose });
    return [emit.scatterAdd(rows, order, order.shape.at(-1) as number, lead)];
  },
  equation: ([input]) => {
    const batch = letters((input as TensorType).shape.length - 2);
    const sides = [
      [...batch, "i", "j"],
      [...batch, "k", "c"],
    ];
    return equationOf(sides, [[...batch, "o", "c"]], { whole: ["i", "j", "k", "o"] });
  },
  linear: [[1]],
  // dB = A⁻ᵀ dX and dA = -dB Xᵀ (Giles, 2008, 2.2.3).
  gradient: ({ node, cotangents: [dx] }) => {
    const { transpose } = node.attrs as SolveAttrs;
    const db = solved(node.inputs[0] as Node, dx as Node, !transpose);
    return [emit.neg(transpose ? emit.matmul(node, turned(db)) : emit.matmul(db, turned(node))), db];
  },
  batch: batchByEquation(),
  form: absent("its body is kernels"),
});

/** X with A X = B, or with Aᵀ X = B. */
export const solved = (a: Node, b: Node, transpose = false): Node => apply(solveOp, [a, b], { transpose });
