/**
 * @module Gradients of the factorisations. Sources: M. Giles, "An extended collection of matrix derivative results for forward
 * and reverse mode algorithmic differentiation" (2008): eigh, triangularSolve; I. Murray, "Differentiation of the Cholesky
 * decomposition" (arXiv:1602.07527); S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions"
 * (arXiv:1009.6112), and D. Roberts and L. Roberts, "QR and LQ decomposition matrix backpropagation algorithms" for wide
 * matrices (arXiv:2009.10071): qr; J. Townsend, "Differentiating the singular value decomposition" (2016): svd.
 */
import type { Node } from "../ir/node.ts";
import { range } from "../ir/shape.ts";
import * as emit from "./emit.ts";
import { resultsOf } from "./results.ts";

const { add, sub, mul, div, neg, matmul, select } = emit;

/** The matrices transposed. */
export function turned(x: Node): Node {
  const rank = x.shape.length;
  return emit.transpose(x, [...range(rank - 2), rank - 1, rank - 2]);
}

const rowPlaces = (x: Node): Node => emit.iota("i32", x.shape, x.shape.length - 2);
const columnPlaces = (x: Node): Node => emit.iota("i32", x.shape, x.shape.length - 1);

/** The matrices with zeros above the diagonal, and on it where `strict`. */
const lowerPart = (x: Node, strict = false): Node =>
  select((strict ? emit.gt : emit.ge)(rowPlaces(x), columnPlaces(x)), x, 0);

/** The lower triangle with half of the diagonal. */
function halfLower(x: Node): Node {
  const onDiagonal = emit.eq(rowPlaces(x), columnPlaces(x));
  return select(onDiagonal, mul(x, 0.5), lowerPart(x));
}

/** The gradient of an op that reads only the lower triangle: the gradients of both triangles add up there. */
const folded = (x: Node): Node => halfLower(add(x, turned(x)));

const solve = (a: Node, b: Node, attrs: { lower: boolean; transpose: boolean }): Node =>
  emit.call("triangularSolve", [a, b], { ...attrs, unit: false });

/** S = L⁻ᵀ Φ(Lᵀ dL) L⁻¹, where Φ takes the lower triangle and half of the diagonal (Murray, 2016). */
export function choleskyGradient(l: Node, dl: Node): Node {
  const inner = halfLower(matmul(turned(l), dl));
  const left = solve(l, inner, { lower: true, transpose: true });
  const both = turned(solve(l, turned(left), { lower: true, transpose: true }));
  return folded(both);
}

/** dB = op(A)⁻ᵀ dX and dA = -dB Xᵀ within the triangle (Giles, 2008, 2.3). */
export function triangularGradient(x: Node, dx: Node): Node[] {
  const [a] = x.inputs as [Node, Node];
  const { lower, transpose, unit } = x.attrs as { lower: boolean; transpose: boolean; unit: boolean };
  const db = emit.call("triangularSolve", [a, dx], { lower, transpose: !transpose, unit });
  const product = transpose ? matmul(x, turned(db)) : matmul(db, turned(x));
  const inside = lower ? lowerPart(product, unit) : turned(lowerPart(turned(product), unit));
  return [neg(inside), db];
}

/** From gradients of L below the diagonal and of U: dA = L⁻ᵀ (Φ(Lᵀ dL) + Ψ(dU Uᵀ)) U⁻ᵀ, rows in their original order. */
export function luGradient(packed: Node, order: Node, dPacked: Node): Node {
  const upperPart = (x: Node): Node => turned(lowerPart(turned(x)));
  const unit = emit.cast(emit.eq(rowPlaces(packed), columnPlaces(packed)), packed.dtype);
  const [l, u] = [add(lowerPart(packed, true), unit), upperPart(packed)];
  const inner = add(
    lowerPart(matmul(turned(l), lowerPart(dPacked, true)), true),
    upperPart(matmul(upperPart(dPacked), turned(u))),
  );
  const left = emit.call("triangularSolve", [packed, inner], { lower: true, transpose: true, unit: true });
  const both = turned(solve(packed, turned(left), { lower: false, transpose: false }));
  return emit.scatterAdd(both, order, packed.shape.at(-2) as number, order.shape.length - 1);
}

const columns = (x: Node, from: number, to: number): Node => {
  const dim = x.shape.length - 1;
  return emit.slice(
    x,
    x.shape.map((_size, at) => (at === dim ? from : 0)),
    x.shape.map((size, at) => (at === dim ? to : size)),
  );
};

/** dA = (dQ + Q copyltu(R dRᵀ - dQᵀ Q)) R⁻ᵀ for tall matrices of full rank. */
function tallGradient(q: Node, r: Node, dq: Node, dr: Node): Node {
  const m = sub(matmul(r, turned(dr)), matmul(turned(dq), q));
  const symmetric = add(lowerPart(m), turned(lowerPart(m, true)));
  const inner = add(dq, matmul(q, symmetric));
  return turned(solve(r, turned(inner), { lower: false, transpose: false }));
}

/** Exact where the first min(m, n) columns are independent. */
export function qrGradient(node: Node, [ofQ, ofR]: readonly (Node | undefined)[]): Node | undefined {
  if (ofQ === undefined && ofR === undefined) return undefined;
  const [a] = node.inputs as [Node];
  const [q, r] = resultsOf(node) as [Node, Node];
  const [dq, dr] = [ofQ ?? emit.zerosLike(q), ofR ?? emit.zerosLike(r)];
  const [m, n] = a.shape.slice(-2) as [number, number];
  if (m >= n) return tallGradient(q, r, dq, dr);
  const [u, du, dv] = [columns(r, 0, m), columns(dr, 0, m), columns(dr, m, n)];
  const first = tallGradient(q, u, add(dq, matmul(columns(a, m, n), turned(dv))), du);
  return emit.concat([first, matmul(q, dv)], -1);
}

/** Repeats each vector of a batch along the rows (or columns) of a square matrix. */
function spread(x: Node, dim: "row" | "column"): Node {
  const rank = x.shape.length;
  const size = x.shape.at(-1) as number;
  return emit.broadcastInDim(x, [...x.shape, size], [...range(rank - 1), dim === "row" ? rank : rank - 1]);
}

/** 1 / (w_j - w_i), and 0 on the diagonal. */
function inverseGaps(w: Node): Node {
  const gaps = sub(spread(w, "row"), spread(w, "column"));
  const onDiagonal = emit.eq(rowPlaces(gaps), columnPlaces(gaps));
  return select(onDiagonal, 0, div(1, select(onDiagonal, 1, gaps)));
}

/** Each column times a number. */
const timesColumns = (x: Node, factors: Node): Node => {
  const rank = x.shape.length;
  return mul(x, emit.broadcastInDim(factors, x.shape, [...range(rank - 2), rank - 1]));
};

const diagonal = (x: Node): Node => {
  const square = spread(x, "row");
  return select(emit.eq(rowPlaces(square), columnPlaces(square)), square, 0);
};

/** V (diag(dw) + F∘(Vᵀ dV)) Vᵀ (Giles, 2008, 3.1). The gradient by vectors needs eigenvalues that differ. */
export function eighGradient(node: Node, [dw, dv]: readonly (Node | undefined)[]): Node | undefined {
  const [w, v] = resultsOf(node) as [Node, Node];
  const turns = dv && mul(inverseGaps(w), matmul(turned(v), dv));
  const stretches = dw && diagonal(dw);
  const inner = turns === undefined ? stretches : stretches === undefined ? turns : add(stretches, turns);
  return inner && folded(matmul(matmul(v, inner), turned(v)));
}

/** The part of each column that is orthogonal to an orthonormal `basis`. */
const across = (basis: Node, x: Node): Node => sub(x, matmul(basis, matmul(turned(basis), x)));

/** The gradient by vectors needs singular values that differ and are not 0 (Townsend, 2016). */
export function svdGradient(node: Node, cotangents: readonly (Node | undefined)[]): Node | undefined {
  const [du, ds, dvt] = cotangents;
  const [u, s, vt] = resultsOf(node) as [Node, Node, Node];
  const v = turned(vt);
  const [m, n] = [u.shape.at(-2) as number, v.shape.at(-2) as number];
  const k = s.shape.at(-1) as number;
  let inner: Node | undefined = ds && diagonal(ds);
  const terms: Node[] = [];
  const grow = (term: Node): void => {
    inner = inner === undefined ? term : add(inner, term);
  };
  const gaps = inverseGaps(mul(s, s));
  const antisymmetric = (basis: Node, d: Node): Node => {
    const product = matmul(turned(basis), d);
    return mul(gaps, sub(product, turned(product)));
  };
  const reciprocals = div(1, s);
  if (du !== undefined) {
    grow(timesColumns(antisymmetric(u, du), s));
    if (m > k) terms.push(matmul(timesColumns(across(u, du), reciprocals), vt));
  }
  if (dvt !== undefined) {
    const dv = turned(dvt);
    grow(turned(timesColumns(turned(antisymmetric(v, dv)), s)));
    if (n > k) terms.push(matmul(u, turned(timesColumns(across(v, dv), reciprocals))));
  }
  if (inner !== undefined) terms.unshift(matmul(matmul(u, inner), vt));
  return terms.length === 0 ? undefined : terms.reduce((a, b) => add(a, b));
}
