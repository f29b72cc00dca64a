/** @module Linear algebra composed of the factorisations: systems, inverses, determinants, norms. */

import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, range, sameShape } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { cholesky, qr, qrWithSign, svd, triangularSolve } from "./factor.ts";
import { turned } from "./factor-gradient.ts";

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

/** X with A X = B, by QR, for square A; an A with an exact zero on R's diagonal is an error of the run. */
export function solve(a: Node, given: Node): Node {
  checkSquare("solve", a, "lstsq solves systems that are not square");
  checkSystem("solve", a, given);
  return lstsq(a, given);
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

/** The unit matrix, for each matrix of the shape of `like`. */
function unit(like: Node): Node {
  const { shape } = like;
  const rank = shape.length;
  return emit.cast(emit.eq(emit.iota("i32", shape, rank - 2), emit.iota("i32", shape, rank - 1)), like.dtype);
}

/** The inverse of square matrices, by {@link solve}: its errors are the same. */
export function inverse(a: Node): Node {
  checkSquare("inverse", a);
  return solve(a, unit(a));
}

const diagonalOf = (x: Node): Node => emit.sum(select(emit.eq(unit(x), 1), x, 0), -1);

/** The diagonal of R and the determinant of Q. */
function triangle(a: Node): readonly [diagonal: Node, sign: Node] {
  const [, r, sign] = qrWithSign(a) as [Node, Node, Node];
  return [diagonalOf(r), sign];
}

/** The sign of the determinant, and the logarithm of its size: 0 and -inf for a singular matrix, where gradients are not defined. */
export function slogdet(a: Node): Node[] {
  checkFloats("slogdet", a);
  checkSquare("slogdet", a);
  return inDouble([a], ([matrix]) => {
    const [diagonal, sign] = triangle(matrix as Node);
    const singular = emit.reduce("or", emit.eq(diagonal, 0), -1);
    return [select(singular, 0, sign), emit.sum(emit.log(diagonal), -1)];
  });
}

/** The determinant of square matrices, by QR; its gradient needs a matrix that is not singular. */
export function determinant(a: Node): Node {
  checkFloats("determinant", a);
  checkSquare("determinant", a);
  return inDouble([a], ([matrix]) => {
    const [diagonal, sign] = triangle(matrix as Node);
    return [mul(sign, productOf(diagonal))];
  })[0] as Node;
}

/** Factors of sizes near 1 whose product stays within f64. */
const most = 1024;

/**
 * The product over the last dim of numbers >= 0 of f64, right where it is itself a number of f64, whatever the products on the
 * way would be: of each factor the power of 2 is counted apart.
 */
function productOf(factors: Node): Node {
  let x = factors;
  let exponent = emit.full("f64", x.shape.slice(0, -1), 0);
  do {
    // Of 0, infinity and NaN there is none.
    const logs = emit.call("stopGradient", [emit.log2(x)]);
    const powers = select(emit.isFinite(logs), emit.floor(logs), 0);
    const single = byPower(x, emit.neg(powers));
    const [count, lead] = [last(x), x.shape.slice(0, -1)];
    const groups = Math.max(1, Math.ceil(count / most));
    const padded = emit.pad(
      single,
      emit.constant("f64", 1),
      [...lead.map(() => 0), 0],
      [...lead.map(() => 0), groups > 1 ? groups * most - count : 0],
    );
    x = emit.prod(emit.reshape(padded, [...lead, groups, groups > 1 ? most : count]), -1);
    exponent = emit.add(exponent, emit.sum(powers, -1));
  } while (last(x) > 1);
  return byPower(emit.reshape(x, x.shape.slice(0, -1)), emit.maximum(emit.minimum(exponent, 4000), -4000));
}

/** x · 2^n for whole n, which may itself be no number of f64: in four steps of powers that are. */
function byPower(x: Node, n: Node): Node {
  const quarter = emit.exp2(emit.floor(mul(n, 0.25)));
  const rest = emit.exp2(emit.sub(n, mul(emit.floor(mul(n, 0.25)), 3)));
  return mul(mul(mul(mul(x, quarter), quarter), quarter), rest);
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
