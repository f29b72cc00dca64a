/** @module Systems of linear equations, and the inverse, by the factors of their matrices. */

import { equationOf, letters } from "../../ir/equation.ts";
import { absent, type Node, type OpDef } from "../../ir/node.ts";
import { formatType, sameShape, type TensorType } from "../../ir/shape.ts";
import { apply } from "../../ir/trace.ts";
import { batchByEquation } from "../../ops/batch.ts";
import { defineComposite } from "../../ops/composite.ts";
import { checked } from "../../ops/factor.ts";
import { turned } from "../../ops/factor-gradient.ts";
import * as ops from "../../ops/index.ts";
import { luPacked } from "../../ops/lu.ts";
import { f32 } from "../../ops/movement.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkFloats, checkSquare, inDouble, last, rows, told, unit } from "../matrices.ts";

/** Attributes of `solve`: whether the matrix is taken transposed. */
type SolveAttrs = { transpose: boolean };

const solveOp: OpDef<SolveAttrs> = defineComposite<SolveAttrs>({
  name: "solve",
  doc: "X with op(A) X = B for square A, by lu; op is the transpose if `transpose`. An exact 0 on U's diagonal is an error of the run.",
  example: {
    inputs: [f32([2, 2], [0, 2, 4, 4]), f32([2, 1], [2, 8])],
    attrs: { transpose: false },
    outputs: [f32([2, 1], [1, 1])],
  },
  check: (inputs) => {
    checked("solve", inputs, 2, true);
  },
  body: ([a, b], { transpose }) => {
    const [packed, order] = luPacked(a as Node) as [Node, Node, Node];
    const lead = order.shape.length - 1;
    if (!transpose) {
      const below = ops.triangularSolve(packed, ops.gather(b as Node, order, lead), { unit: true });
      return [ops.triangularSolve(packed, below, { lower: false })];
    }
    const above = ops.triangularSolve(packed, b as Node, { lower: false, transpose });
    const rows = ops.triangularSolve(packed, above, { unit: true, transpose });
    return [ops.scatterAdd(rows, order, order.shape.at(-1) as number, lead)];
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
    return [ops.neg(transpose ? ops.matmul(node, turned(db)) : ops.matmul(db, turned(node))), db];
  },
  batch: batchByEquation(),
  form: absent("its body is kernels"),
});

/** X with A X = B, or with Aᵀ X = B. */
export const solved = (a: Node, b: Node, transpose = false): Node => apply(solveOp, [a, b], { transpose });

/** Checks the right sides of systems: as many rows as the matrices have, and one right side per matrix. */
function checkSystem(name: string, a: Node, b: Node): void {
  checkFloats(name, a, b);
  if (a.shape.length < 2)
    throw new HeddleError("shape", `${name}: needs matrices in the last two dims, got ${formatType(a)}`);
  const [lead, count] = [a.shape.slice(0, -2), rows(a)];
  if (columnOf(a, b).vector || (sameShape(b.shape.slice(0, -2), lead) && b.shape.length >= 2 && rows(b) === count))
    return;
  const wanted = [
    [...lead, count, "n"],
    [...lead, count],
  ].map((shape) => `[${shape.join(",")}]`);
  throw new HeddleError("shape", `${name}: ${formatType(a)} and ${formatType(b)} do not form systems of equations`, {
    hint: `the second operand is ${wanted.join(" or ")}`,
  });
}

/** The second operand as matrices; vectors, which have one dim less, become matrices of one column. */
function columnOf(a: Node, b: Node): { b: Node; vector: boolean } {
  const vector = b.shape.length === a.shape.length - 1 && sameShape(b.shape, a.shape.slice(0, -1));
  return { b: vector ? ops.reshape(b, [...b.shape, 1]) : b, vector };
}

const answer = (x: Node, vector: boolean): Node => (vector ? ops.reshape(x, x.shape.slice(0, -1)) : x);

function solveNode(a: Node, right: Node): Node {
  checkSquare("solve", a, "lstsq solves systems that are not square");
  checkSystem("solve", a, right);
  const { b, vector } = columnOf(a, right);
  const [x] = inDouble([a, b], ([matrix, column]) => [solved(matrix as Node, column as Node)]);
  return answer(x as Node, vector);
}

/**
 * X with A X = B for square A [..., n, n], by elimination with partial pivoting; B is [..., n, k], or [..., n] with a vector for each
 * matrix, and X has its shape. f32 or f64.
 *
 * @throws HeddleError `dtype` or `shape` if A and B do not fit; `value` when it runs and a pivot is exactly 0, with the index in the
 * batch and the pivot.
 */
export const solve = (a: Tensor, b: Tensor): Tensor => told("solve", a, () => operate("solve", solveNode, [a, b]));

function choleskySolveNode(a: Node, right: Node): Node {
  checkSquare("choleskySolve", a);
  checkSystem("choleskySolve", a, right);
  const { b, vector } = columnOf(a, right);
  const [x] = inDouble([a, b], ([matrix, column]) => {
    const l = ops.cholesky(matrix as Node);
    return [ops.triangularSolve(l, ops.triangularSolve(l, column as Node), { transpose: true })];
  });
  return answer(x as Node, vector);
}

/** {@link solve} for symmetric positive definite A, by `cholesky`: faster. @throws HeddleError `value` when it runs and A is not positive definite */
export const choleskySolve = (a: Tensor, b: Tensor): Tensor =>
  told("choleskySolve", a, () => operate("choleskySolve", choleskySolveNode, [a, b]));

function lstsqNode(a: Node, right: Node): Node {
  checkSystem("lstsq", a, right);
  const { b, vector } = columnOf(a, right);
  if (rows(a) < last(a))
    throw new HeddleError("shape", `lstsq: ${formatType(a)} has fewer rows than columns`, {
      hint: "pinv(a).matmul(b) is the shortest of many solutions",
    });
  const [x] = inDouble([a, b], ([matrix, column]) => {
    const [q, r] = ops.qr(matrix as Node) as [Node, Node];
    return [ops.triangularSolve(r, ops.matmul(turned(q), column as Node), { lower: false })];
  });
  return answer(x as Node, vector);
}

const deficient = "columns of the matrix depend on each other: pinv(a).matmul(b) is the shortest of many solutions";

/**
 * X with the least |A X - B|, by QR, for A of full rank with at least as many rows as columns.
 *
 * @throws HeddleError `shape` for fewer rows than columns; `value` from the run, with the pivot, when a pivot of R is exactly 0
 */
export const lstsq = (a: Tensor, b: Tensor): Tensor =>
  told("lstsq", a, () => operate("lstsq", lstsqNode, [a, b]), deficient);

function inverseNode(a: Node): Node {
  checkSquare("inverse", a);
  return solveNode(a, unit(a));
}

/**
 * The inverse of square A [..., n, n]; {@link solve} is better for a product with the inverse.
 *
 * @throws HeddleError `value` when it runs and a pivot is exactly 0
 */
export const inverse = (a: Tensor): Tensor => told("inverse", a, () => operate("inverse", inverseNode, [a]));
