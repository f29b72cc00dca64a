/** @module Determinants and their gradients, which are the cofactors, of singular matrices too. */
import { absent, type Node, type OpDef } from "../ir/node.ts";
import { range, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { batchByEquation } from "./batch.ts";
import { defineComposite } from "./composite.ts";
import * as emit from "./emit.ts";
import { batchEquation, checked, f32, svd } from "./factor.ts";
import { turned } from "./factor-gradient.ts";
import { luPacked } from "./lu.ts";

type None = Record<string, never>;
const { mul, matmul, select } = emit;

const last = (x: Node): number => x.shape.at(-1) as number;

/** The unit matrix, for each matrix of the shape of `like`. */
export function unit(like: Node): Node {
  const { shape } = like;
  const rank = shape.length;
  return emit.cast(emit.eq(emit.iota("i32", shape, rank - 2), emit.iota("i32", shape, rank - 1)), like.dtype);
}

/** The diagonal of each matrix. */
export const diagonalOf = (x: Node): Node => emit.sum(select(emit.eq(unit(x), 1), x, 0), -1);

/** The sizes of U's diagonal, and the sign of the determinant, which is 0 where one of them is. */
export function pivots(a: Node): readonly [sizes: Node, sign: Node] {
  const [packed, , order] = luPacked(a) as [Node, Node, Node];
  const diagonal = diagonalOf(packed);
  const singular = emit.reduce("or", emit.eq(diagonal, 0), -1);
  return [emit.abs(diagonal), select(singular, 0, mul(order, emit.prod(emit.sign(diagonal), -1)))];
}

const determinantOp: OpDef<None> = defineComposite<None>({
  name: "determinant",
  doc: "The determinant of a square matrix by lu; computed in f64 by its users. Its gradient is the matrix of cofactors.",
  example: { inputs: [f32([2, 2], 1, 2, 2, 4)], attrs: {}, outputs: [f32([], 0)] },
  check: (inputs) => {
    checked("determinant", inputs, 1, true);
  },
  body: ([a]) => {
    const [sizes, sign] = pivots(a as Node);
    return [mul(sign, productOf(sizes))];
  },
  equation: ([input]) => batchEquation(input as TensorType, [2], [0]),
  linear: [],
  gradient: ({ node, cotangents: [d] }) => {
    const [a] = node.inputs as [Node];
    return [mul(emit.broadcastInDim(d as Node, a.shape, range(node.shape.length)), cofactors(a))];
  },
  batch: batchByEquation(),
  form: absent("its body is kernels"),
});

/** U, the singular values, V, and det U det V all over matrices: cof(A) is that times U cof(S) Vᵀ. */
function turns(a: Node): readonly [u: Node, s: Node, v: Node, signs: Node] {
  const [u, s, vt] = svd(a) as [Node, Node, Node];
  const [, signs] = pivots(emit.call("stopGradient", [matmul(u, vt)]));
  return [u, s, turned(vt), emit.broadcastInDim(signs, u.shape, range(signs.shape.length))];
}

/** For each place of `dims` new dims the product of those numbers of the last dim that are none of its own. */
function productsWithout(s: Node, dims: number): Node {
  const [n, lead] = [last(s), s.shape.slice(0, -1)];
  const shape = [...lead, ...range(dims).map(() => n), n];
  const own = emit.iota("i32", shape, shape.length - 1);
  const all = emit.broadcastInDim(s, shape, [...range(lead.length), shape.length - 1]);
  const kept = range(dims).reduce(
    (x, dim) => select(emit.eq(emit.iota("i32", shape, lead.length + dim), own), 1, x),
    all,
  );
  return productOf(kept);
}

/** Numbers along the diagonals of matrices of the shape of `like`. */
const alongDiagonal = (x: Node, like: Node): Node =>
  select(emit.eq(unit(like), 1), emit.broadcastInDim(x, like.shape, range(x.shape.length)), 0);

const cofactorsOp: OpDef<None> = defineComposite<None>({
  name: "cofactors",
  doc: "The cofactors of a square matrix, which are its determinant times its inverse, transposed, where it has one; by svd and products of all singular values but one, so of singular matrices too; computed in f64 by its users.",
  example: { inputs: [f32([2, 2], 1, 2, 3, 4)], attrs: {}, outputs: [f32([2, 2], 4, -3, -2, 1)] },
  check: (inputs) => {
    checked("cofactors", inputs, 1, true);
  },
  body: ([a]) => {
    const [u, s, v, signs] = turns(a as Node);
    return [matmul(mul(mul(u, signs), emit.broadcastInDim(productsWithout(s, 1), u.shape, sides(u))), turned(v))];
  },
  equation: ([input]) => batchEquation(input as TensorType, [2], [2]),
  linear: [],
  // Between U and V a cofactor of S + E is, to the first order: at (i, i) the sum of E at (j, j), at (i, j) less E at (j, i),
  // each times the product of the singular values but i and j.
  gradient: ({ node, cotangents: [d] }) => {
    const [u, s, v, signs] = turns(node.inputs[0] as Node);
    const inner = mul(signs, matmul(matmul(turned(u), d as Node), v));
    const factors = select(emit.eq(unit(inner), 1), 0, productsWithout(s, 2));
    const own = diagonalOf(inner);
    const sums = emit.sum(mul(factors, emit.broadcastInDim(own, factors.shape, sides(factors))), -1);
    const between = emit.sub(alongDiagonal(sums, inner), mul(turned(inner), factors));
    return [matmul(matmul(u, between), turned(v))];
  },
  batch: batchByEquation(),
  form: absent("its body is kernels"),
});

/** The dims of a vector for each matrix, along its columns. */
const sides = (x: Node): number[] => [...range(x.shape.length - 2), x.shape.length - 1];

/** The cofactors of square matrices of f64. */
export const cofactors = (a: Node): Node => apply(cofactorsOp, [a], {});

/** The determinants of matrices of f64. */
export const determinants = (a: Node): Node => apply(determinantOp, [a], {});

/** Factors of sizes near 1 whose product stays within f64. */
const most = 1024;

/**
 * The product over the last dim of numbers >= 0 of f64, right where it is itself a number of f64, whatever the products on the
 * way would be: of each factor the power of 2 is counted apart.
 */
function productOf(factors: Node): Node {
  let x = factors;
  let exponent = emit.full(x.dtype, x.shape.slice(0, -1), 0);
  do {
    // Of 0, infinity and NaN there is none.
    const logs = emit.call("stopGradient", [emit.log2(x)]);
    const powers = select(emit.isFinite(logs), emit.floor(logs), 0);
    const single = byPower(x, emit.neg(powers));
    const [count, lead] = [last(x), x.shape.slice(0, -1)];
    const groups = Math.max(1, Math.ceil(count / most));
    const padded = emit.pad(
      single,
      emit.constant(x.dtype, 1),
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
