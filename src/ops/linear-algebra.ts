/** @module Linear algebra composed of the factorisations: systems, inverses, determinants, norms. */
import type { Node } from "../ir/node.ts";
import { formatType, range, sameShape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { cholesky, qr, qrWithSign, svd, triangularSolve } from "./factor.ts";
import { turned } from "./factor-gradient.ts";

const { mul, matmul, select } = emit;

const last = (x: Node): number => x.shape.at(-1) as number;
const rows = (x: Node): number => x.shape.at(-2) as number;

/** A vector for each matrix, where the second operand has one dim less, as a matrix of one column. */
function columnOf(a: Node, b: Node): { b: Node; vector: boolean } {
  const vector = b.shape.length === a.shape.length - 1 && sameShape(b.shape, a.shape.slice(0, -1));
  return { b: vector ? emit.reshape(b, [...b.shape, 1]) : b, vector };
}

const answer = (x: Node, vector: boolean): Node => (vector ? emit.reshape(x, x.shape.slice(0, -1)) : x);

/** X with A X = B, by QR, for square A; an A with an exact zero on R's diagonal is an error of the run. */
export function solve(a: Node, given: Node): Node {
  if (a.shape.length < 2 || rows(a) !== last(a))
    throw new HeddleError("shape", `solve: needs square matrices in the last two dims, got ${formatType(a)}`, {
      hint: "lstsq solves systems that are not square",
    });
  return lstsq(a, given);
}

/** The X with the least |A X - B|, by QR, for A of at least as many rows as columns, of full rank. */
export function lstsq(a: Node, given: Node): Node {
  const { b, vector } = columnOf(a, given);
  if (rows(a) < last(a))
    throw new HeddleError("shape", `lstsq: ${formatType(a)} has fewer rows than columns`, {
      hint: "pinv(a).matmul(b) is the shortest of many solutions",
    });
  const [q, r] = qr(a) as [Node, Node];
  return answer(triangularSolve(r, matmul(turned(q), b), { lower: false }), vector);
}

/** X with A X = B for symmetric positive definite A, by cholesky of the lower triangle. */
export function choleskySolve(a: Node, given: Node): Node {
  const { b, vector } = columnOf(a, given);
  const l = cholesky(a);
  return answer(triangularSolve(l, triangularSolve(l, b), { transpose: true }), vector);
}

/** The unit matrix, for each matrix of the shape of `like`. */
function unit(like: Node): Node {
  const { shape } = like;
  const rank = shape.length;
  return emit.cast(emit.eq(emit.iota("i32", shape, rank - 2), emit.iota("i32", shape, rank - 1)), like.dtype);
}

/** The inverse of square matrices, by {@link solve}: its errors are the same. */
export const inverse = (a: Node): Node => solve(a, unit(a));

const diagonalOf = (x: Node): Node => emit.sum(select(emit.eq(unit(x), 1), x, 0), -1);

/** The sign of the determinant, and the logarithm of its size: 0 and -inf for a singular matrix, where gradients are not defined. */
export function slogdet(a: Node): Node[] {
  if (a.shape.length < 2 || rows(a) !== last(a))
    throw new HeddleError("shape", `slogdet: needs square matrices in the last two dims, got ${formatType(a)}`);
  const [, r, sign] = qrWithSign(a) as [Node, Node, Node];
  const diagonal = diagonalOf(r);
  const singular = emit.reduce("or", emit.eq(diagonal, 0), -1);
  return [select(singular, 0, sign), emit.sum(emit.log(diagonal), -1)];
}

/** The determinant of square matrices, by QR; its gradient needs a matrix that is not singular. */
export function determinant(a: Node): Node {
  const [sign, size] = slogdet(a) as [Node, Node];
  return mul(sign, emit.exp(size));
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
      return frobenius(a);
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

/** By elements over the largest one, whose squares neither overflow nor vanish. */
function frobenius(a: Node): Node {
  if (rows(a) === 0 || last(a) === 0) return emit.sum(a, [-2, -1]);
  const largest = emit.call("stopGradient", [emit.max(emit.abs(a), [-2, -1])]);
  const unit = select(emit.gt(select(emit.isFinite(largest), largest, 0), 0), largest, 1);
  const scaled = emit.div(a, emit.broadcastInDim(unit, a.shape, range(a.shape.length - 2)));
  return mul(unit, emit.sqrt(emit.sum(mul(scaled, scaled), [-2, -1])));
}

/** Sum of the diagonal. */
export const trace = (a: Node): Node => emit.sum(diagonalOf(a), -1);
