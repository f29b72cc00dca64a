/** @module Linear algebra composed of the factorisations: systems, inverses, determinants, norms. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, range, sameShape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { determinants, diagonalOf, pivots, unit } from "./determinant.ts";
import * as emit from "./emit.ts";
import { cholesky, qr, svd, triangularSolve } from "./factor.ts";
import { turned } from "./factor-gradient.ts";
import { luPacked, solved } from "./lu.ts";
import { matrixExps } from "./matrix-exp.ts";
import { norm } from "./norm.ts";

const { mul, matmul, select } = emit;

const last = (x: Node): number => x.shape.at(-1) as number;
const rows = (x: Node): number => x.shape.at(-2) as number;

/** Checks in the user's own operands, of which casts and reshapes make others. */
function checkFloats(name: string, ...inputs: readonly Node[]): void {
  if (!inputs.every(({ dtype }) => isFloat(dtype) && dtype === inputs[0]?.dtype))
    throw new HeddleError("dtype", `${name}: needs floats of one dtype, got ${inputs.map(formatType).join(", ")}`);
}

function checkSquare(name: string, a: Node, hint?: string): void {
  if (a.shape.length >= 2 && rows(a) === last(a)) return;
  const text = `${name}: needs square matrices in the last two dims, got ${formatType(a)}`;
  throw new HeddleError("shape", text, hint === undefined ? {} : { hint });
}

/** The right side of systems: as many rows as the matrices have, and one for each matrix. */
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
  throw new HeddleError("shape", `${name}: ${formatType(a)} and ${formatType(b)} are no systems`, {
    hint: `the second operand is ${wanted.join(" or ")}`,
  });
}

/** A vector for each matrix, where the second operand has one dim less, as a matrix of one column. */
function columnOf(a: Node, b: Node): { b: Node; vector: boolean } {
  const vector = b.shape.length === a.shape.length - 1 && sameShape(b.shape, a.shape.slice(0, -1));
  return { b: vector ? emit.reshape(b, [...b.shape, 1]) : b, vector };
}

const answer = (x: Node, vector: boolean): Node => (vector ? emit.reshape(x, x.shape.slice(0, -1)) : x);

/**
 * What is computed of floats in f64 and rounded once at the end: factors that are rounded first would lose a digit for each
 * one that the condition of the matrix takes, and executors would differ by as many.
 */
function inDouble(inputs: readonly Node[], build: (inputs: readonly Node[]) => readonly Node[]): Node[] {
  const [first] = inputs as [Node];
  const isAlike = isFloat(first.dtype) && inputs.every(({ dtype }) => dtype === first.dtype);
  if (!isAlike) return [...build(inputs)];
  return build(inputs.map((x) => emit.cast(x, "f64"))).map((y) => emit.cast(y, first.dtype));
}

/** X with A X = B, by elimination with partial pivoting, for square A; an exact 0 for a pivot is an error of the run. */
export function solve(a: Node, given: Node): Node {
  checkSquare("solve", a, "lstsq solves systems that are not square");
  checkSystem("solve", a, given);
  const { b, vector } = columnOf(a, given);
  const [x] = inDouble([a, b], ([matrix, right]) => [solved(matrix as Node, right as Node)]);
  return answer(x as Node, vector);
}

/** The X with the least |A X - B|, by QR, for A of at least as many rows as columns, of full rank. */
export function lstsq(a: Node, given: Node): Node {
  checkSystem("lstsq", a, given);
  const { b, vector } = columnOf(a, given);
  if (rows(a) < last(a))
    throw new HeddleError("shape", `lstsq: ${formatType(a)} has fewer rows than columns`, {
      hint: "pinv(a).matmul(b) is the shortest of many solutions",
    });
  const [x] = inDouble([a, b], ([matrix, right]) => {
    const [q, r] = qr(matrix as Node) as [Node, Node];
    return [triangularSolve(r, matmul(turned(q), right as Node), { lower: false })];
  });
  return answer(x as Node, vector);
}

/** X with A X = B for symmetric positive definite A, by cholesky of the lower triangle. */
export function choleskySolve(a: Node, given: Node): Node {
  checkSquare("choleskySolve", a);
  checkSystem("choleskySolve", a, given);
  const { b, vector } = columnOf(a, given);
  const [x] = inDouble([a, b], ([matrix, right]) => {
    const l = cholesky(matrix as Node);
    return [triangularSolve(l, triangularSolve(l, right as Node), { transpose: true })];
  });
  return answer(x as Node, vector);
}

/** P, L and U with P L U = A for square matrices, by elimination with partial pivoting. */
export function lu(a: Node): Node[] {
  checkFloats("lu", a);
  checkSquare("lu", a);
  const [packed, order] = luPacked(a) as [Node, Node, Node];
  const eye = unit(a);
  const below = emit.gt(emit.iota("i32", a.shape, a.shape.length - 2), emit.iota("i32", a.shape, a.shape.length - 1));
  const p = emit.scatterAdd(eye, order, rows(a), a.shape.length - 2);
  return [p, select(emit.eq(eye, 1), 1, select(below, packed, 0)), select(below, 0, packed)];
}

/** The inverse of square matrices, by {@link solve}: its errors are the same. */
export function inverse(a: Node): Node {
  checkSquare("inverse", a);
  return solve(a, unit(a));
}

/** The sign of the determinant, and the logarithm of its size: 0 and -inf for a singular matrix, where gradients are not defined. */
export function slogdet(a: Node): Node[] {
  checkFloats("slogdet", a);
  checkSquare("slogdet", a);
  return inDouble([a], ([matrix]) => {
    const [sizes, sign] = pivots(matrix as Node);
    return [sign, emit.sum(emit.log(sizes), -1)];
  });
}

/** The determinant of square matrices, by elimination with partial pivoting; its gradient is the matrix of cofactors. */
export function determinant(a: Node): Node {
  checkFloats("determinant", a);
  checkSquare("determinant", a);
  return inDouble([a], ([matrix]) => [determinants(matrix as Node)])[0] as Node;
}

/** Moore and Penrose's inverse, by svd; singular values up to `tolerance` times the largest count as 0. */
export function pinv(a: Node, tolerance?: number): Node {
  const limit = tolerance ?? Math.max(rows(a), last(a)) * (a.dtype === "f64" ? 2 ** -52 : 2 ** -23);
  const [u, s, vt] = svd(a) as [Node, Node, Node];
  const cut = mul(emit.max(s, -1, { keepDims: true }), limit);
  const kept = emit.gt(s, emit.broadcastTo(cut, s.shape));
  const inverses = select(kept, emit.div(1, select(kept, s, 1)), 0);
  const rank = vt.shape.length;
  const scaled = mul(vt, emit.broadcastInDim(inverses, vt.shape, range(rank - 1)));
  return matmul(turned(scaled), turned(u));
}

/** Norms of matrices: `fro` the root of the sum of squares, `nuc` the sum and 2 the largest of the singular values, 1 and Infinity the largest sum of a column and a row. */
export type MatrixNorm = "fro" | "nuc" | number;

/**
 * The norm of each matrix in the last two dims, by {@link MatrixNorm}.
 *
 * @throws HeddleError `argument` for another kind.
 */
export function matrixNorm(a: Node, kind: MatrixNorm = "fro"): Node {
  switch (kind) {
    case "fro":
      return norm(a, 2, [-2, -1]);
    case "nuc":
      return emit.sum(svd(a)[1] as Node, -1);
    case 2:
      return emit.max(svd(a)[1] as Node, -1);
    case 1:
      return emit.max(emit.sum(emit.abs(a), -2), -1);
    case Infinity:
      return emit.max(emit.sum(emit.abs(a), -1), -1);
    default:
      throw new HeddleError("argument", `matrixNorm: there is no norm '${kind}'`, {
        hint: 'write "fro", "nuc", 1, 2 or Infinity',
      });
  }
}

/** Sum of the diagonal. */
export const trace = (a: Node): Node => emit.sum(diagonalOf(a), -1);

/** The exponential of square matrices. */
export function matrixExp(a: Node): Node {
  checkFloats("matrixExp", a);
  checkSquare("matrixExp", a);
  return inDouble([a], ([matrix]) => [matrixExps(matrix as Node)])[0] as Node;
}
