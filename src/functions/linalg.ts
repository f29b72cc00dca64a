/**
 * @module Linear algebra: matrices in the last two dims; any dims before them are a batch. f32 and f64; f32 is computed in f64 and
 * rounded. Sources of the gradients are named in `src/ops/factor-gradient.ts`.
 */

import type { Node } from "../ir/node.ts";
import { range } from "../ir/shape.ts";
import { turned } from "../ops/factor-gradient.ts";
import * as ops from "../ops/index.ts";
import { luPacked } from "../ops/lu.ts";
import { operate, operateAll, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { checkFloats, checkSquare, diagonalOf, last, rows, told, unit } from "./matrices.ts";
import { normNode } from "./norm.ts";

export { determinant, slogdet } from "./composites/determinant.ts";
export { matrixExp } from "./composites/matrix-exp.ts";
export { choleskySolve, inverse, lstsq, solve } from "./composites/solve.ts";
export { type NormOptions, norm } from "./norm.ts";

/**
 * The lower triangular L [..., n, n] with L Lᵀ = A for symmetric positive definite A [..., n, n]. Only the lower triangle of A is
 * read, and the gradient is in it too.
 *
 * @throws HeddleError `dtype` or `shape` unless A is square floats; `value` when it runs and A is not positive definite, with the
 * index in the batch.
 */
export const cholesky = (a: Tensor): Tensor => told("cholesky", a, () => operate("cholesky", ops.cholesky, [a]));

/** Options of {@link triangularSolve}. */
export interface TriangularOptions {
  /** Whether A is the lower triangle of the first operand, else the upper one; default true. */
  readonly lower?: boolean;
  /** Whether to solve with Aᵀ; default false. */
  readonly transpose?: boolean;
  /** Whether the diagonal counts as ones; default false. */
  readonly unit?: boolean;
}

/**
 * X [..., m, n] with A X = B for a triangle A [..., m, m] and B [..., m, n].
 *
 * @throws HeddleError `dtype` or `shape` if A and B do not fit; `value` when it runs and the diagonal has a zero, with the index in the batch.
 */
export function triangularSolve(a: Tensor, b: Tensor, options: TriangularOptions = {}): Tensor {
  checkOptions("triangularSolve", options, ["lower", "transpose", "unit"]);
  return operate("triangularSolve", ops.triangularSolve, [a, b], options);
}

/**
 * Q [..., m, k] with orthonormal columns and upper triangular R [..., k, n] with Q R = A [..., m, n], k = min(m, n). R has no negative
 * number on its diagonal. The gradient needs the first k columns to be independent.
 */
export function qr(a: Tensor): { readonly q: Tensor; readonly r: Tensor } {
  const [q, r] = told("qr", a, () => operateAll("qr", ops.qr, [a])) as [Tensor, Tensor];
  return { q, r };
}

/**
 * U [..., m, k], singular values s [..., k], descending, and Vᵀ [..., k, n] with U diag(s) Vᵀ = A [..., m, n], k = min(m, n). In a
 * column of U the first component whose size is at least 0.3 of the largest is positive. The gradient by vectors needs singular values
 * that differ and are not 0; the gradient by s alone needs neither. NaN for a matrix with numbers that are not finite.
 */
export function svd(a: Tensor): { readonly u: Tensor; readonly s: Tensor; readonly vt: Tensor } {
  const [u, s, vt] = told("svd", a, () => operateAll("svd", ops.svd, [a])) as [Tensor, Tensor, Tensor];
  return { u, s, vt };
}

/**
 * Eigenvalues [..., n], ascending, and eigenvectors, the columns of [..., n, n], of a symmetric A [..., n, n]. Only the lower triangle
 * of A is read. Signs as in {@link svd}. The gradient by vectors needs eigenvalues that differ.
 */
export function eigh(a: Tensor): { readonly values: Tensor; readonly vectors: Tensor } {
  const [values, vectors] = told("eigh", a, () => operateAll("eigh", ops.eigh, [a])) as [Tensor, Tensor];
  return { values, vectors };
}

/** Norms of matrices; {@link matrixNorm} says what each is. */
export type MatrixNorm = "fro" | "nuc" | number;

function luNode(a: Node): Node[] {
  checkFloats("lu", a);
  checkSquare("lu", a);
  const [packed, order] = luPacked(a) as [Node, Node, Node];
  const eye = unit(a);
  const below = ops.gt(ops.iota("i32", a.shape, a.shape.length - 2), ops.iota("i32", a.shape, a.shape.length - 1));
  const p = ops.scatterAdd(eye, order, rows(a), a.shape.length - 2);
  return [p, ops.select(ops.eq(eye, 1), 1, ops.select(below, packed, 0)), ops.select(below, 0, packed)];
}

/**
 * P, L and U [..., n, n] with P L U = A for square A, by elimination with partial pivoting: P is a permutation, L lower triangular
 * with ones on its diagonal, U upper triangular, with a 0 on its diagonal for a column without a pivot. The gradient needs an A that
 * is not singular.
 */
export function lu(a: Tensor): { readonly p: Tensor; readonly l: Tensor; readonly u: Tensor } {
  const [p, l, u] = told("lu", a, () => operateAll("lu", luNode, [a])) as [Tensor, Tensor, Tensor];
  return { p, l, u };
}

function pinvNode(a: Node, tolerance?: number): Node {
  const limit = tolerance ?? Math.max(rows(a), last(a)) * (a.dtype === "f64" ? 2 ** -52 : 2 ** -23);
  const [u, s, vt] = ops.svd(a) as [Node, Node, Node];
  const cut = ops.mul(ops.max(s, -1, { keepDims: true }), limit);
  const large = ops.gt(s, ops.broadcastTo(cut, s.shape));
  const inverses = ops.select(large, ops.div(1, ops.select(large, s, 1)), 0);
  const rank = vt.shape.length;
  const scaled = ops.mul(vt, ops.broadcastInDim(inverses, vt.shape, range(rank - 1)));
  return ops.matmul(turned(scaled), turned(u));
}

/**
 * The Moore-Penrose inverse [..., n, m] of A [..., m, n], by {@link svd}. Singular values up to `tolerance` times the largest count as
 * 0; `tolerance` is by default max(m, n) times the distance from 1 to the next number of the dtype.
 */
export const pinv = (a: Tensor, tolerance?: number): Tensor =>
  told("pinv", a, () => operate("pinv", pinvNode, [a], tolerance));

function matrixNormNode(a: Node, kind: MatrixNorm = "fro"): Node {
  switch (kind) {
    case "fro":
      return normNode(a, 2, [-2, -1]);
    case "nuc":
      return ops.sum(ops.svd(a)[1] as Node, -1);
    case 2:
      return ops.max(ops.svd(a)[1] as Node, -1);
    case 1:
      return ops.max(ops.sum(ops.abs(a), -2), -1);
    case Infinity:
      return ops.max(ops.sum(ops.abs(a), -1), -1);
    default:
      throw new HeddleError("argument", `matrixNorm: there is no norm '${kind}'`, {
        hint: 'write "fro", "nuc", 1, 2 or Infinity',
      });
  }
}

/**
 * The norm [...] of each matrix [..., m, n]: `"fro"` (default) is the root of the sum of squares, `"nuc"` the sum and 2 the largest of
 * the singular values, 1 and Infinity the largest sum of absolute values in a column and in a row.
 *
 * @throws HeddleError `argument` for another kind
 */
export const matrixNorm = (a: Tensor, kind: MatrixNorm = "fro"): Tensor =>
  operate("matrixNorm", matrixNormNode, [a], kind);

const traceNode = (a: Node): Node => ops.sum(diagonalOf(a), -1);

/** The sum [...] of the diagonal of each matrix [..., m, n]. */
export const trace = (a: Tensor): Tensor => operate("trace", traceNode, [a]);
