/** @module Determinants and their gradients, which are the cofactors, of singular matrices too. */

import { absent, type Node, type OpDef } from "../../ir/node.ts";
import { range, type TensorType } from "../../ir/shape.ts";
import { apply } from "../../ir/trace.ts";
import { batchByEquation } from "../../ops/batch.ts";
import { defineComposite } from "../../ops/composite.ts";
import { batchEquation, checked, f32 } from "../../ops/factor.ts";
import { turned } from "../../ops/factor-gradient.ts";
import * as ops from "../../ops/index.ts";
import { luPacked } from "../../ops/lu.ts";
import { operate, operateAll, type Tensor } from "../../tensor/tensor.ts";
import { checkFloats, checkSquare, diagonalOf, inDouble, last, told, unit } from "../matrices.ts";

type None = Record<string, never>;
const { mul, matmul, select } = ops;

/** The sizes of U's diagonal, and the sign of the determinant, which is 0 where one of them is. */
function pivots(a: Node): readonly [sizes: Node, sign: Node] {
  const [packed, , order] = luPacked(a) as [Node, Node, Node];
  const diagonal = diagonalOf(packed);
  const singular = ops.reduce("or", ops.eq(diagonal, 0), -1);
  return [ops.abs(diagonal), select(singular, 0, mul(order, ops.prod(ops.sign(diagonal), -1)))];
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
    return [mul(ops.broadcastInDim(d as Node, a.shape, range(node.shape.length)), cofactors(a))];
  },
  batch: batchByEquation(),
  form: absent("its body is kernels"),
});

/** U, the singular values, V, and det U det V all over matrices: cof(A) is that times U cof(S) Vᵀ. */
function turns(a: Node): readonly [u: Node, s: Node, v: Node, signs: Node] {
  const [u, s, vt] = ops.svd(a) as [Node, Node, Node];
  const [, signs] = pivots(ops.call("stopGradient", [matmul(u, vt)]));
  return [u, s, turned(vt), ops.broadcastInDim(signs, u.shape, range(signs.shape.length))];
}

/** For each place of `dims` new dims the product of those numbers of the last dim that are none of its own. */
function productsWithout(s: Node, dims: number): Node {
  const [n, lead] = [last(s), s.shape.slice(0, -1)];
  const shape = [...lead, ...range(dims).map(() => n), n];
  const own = ops.iota("i32", shape, shape.length - 1);
  const all = ops.broadcastInDim(s, shape, [...range(lead.length), shape.length - 1]);
  const kept = range(dims).reduce(
    (x, dim) => select(ops.eq(ops.iota("i32", shape, lead.length + dim), own), 1, x),
    all,
  );
  return productOf(kept);
}

/** Numbers along the diagonals of matrices of the shape of `like`. */
const alongDiagonal = (x: Node, like: Node): Node =>
  select(ops.eq(unit(like), 1), ops.broadcastInDim(x, like.shape, range(x.shape.length)), 0);

const cofactorsOp: OpDef<None> = defineComposite<None>({
  name: "cofactors",
  doc: "The cofactors of a square matrix, which are its determinant times its inverse, transposed, where it has one; by svd and products of all singular values but one, so of singular matrices too; computed in f64 by its users.",
  example: { inputs: [f32([2, 2], 1, 2, 3, 4)], attrs: {}, outputs: [f32([2, 2], 4, -3, -2, 1)] },
  check: (inputs) => {
    checked("cofactors", inputs, 1, true);
  },
  body: ([a]) => {
    const [u, s, v, signs] = turns(a as Node);
    return [matmul(mul(mul(u, signs), ops.broadcastInDim(productsWithout(s, 1), u.shape, sides(u))), turned(v))];
  },
  equation: ([input]) => batchEquation(input as TensorType, [2], [2]),
  linear: [],
  // Between U and V a cofactor of S + E is, to the first order: at (i, i) the sum of E at (j, j), at (i, j) less E at (j, i),
  // each times the product of the singular values but i and j.
  gradient: ({ node, cotangents: [d] }) => {
    const [u, s, v, signs] = turns(node.inputs[0] as Node);
    const inner = mul(signs, matmul(matmul(turned(u), d as Node), v));
    const factors = select(ops.eq(unit(inner), 1), 0, productsWithout(s, 2));
    const own = diagonalOf(inner);
    const sums = ops.sum(mul(factors, ops.broadcastInDim(own, factors.shape, sides(factors))), -1);
    const between = ops.sub(alongDiagonal(sums, inner), mul(turned(inner), factors));
    return [matmul(matmul(u, between), turned(v))];
  },
  batch: batchByEquation(),
  form: absent("its body is kernels"),
});

/** The dims of a vector for each matrix, along its columns. */
const sides = (x: Node): number[] => [...range(x.shape.length - 2), x.shape.length - 1];

/** The cofactors of square matrices of f64. */
const cofactors = (a: Node): Node => apply(cofactorsOp, [a], {});

/** The determinants of matrices of f64. */
const determinants = (a: Node): Node => apply(determinantOp, [a], {});

/** Factors of sizes near 1 whose product stays within f64. */
const most = 1024;

/**
 * The product over the last dim of numbers >= 0 of f64, right where it is itself a number of f64, whatever the products on the
 * way would be: of each factor the power of 2 is counted apart.
 */
function productOf(factors: Node): Node {
  let x = factors;
  let exponent = ops.full(x.dtype, x.shape.slice(0, -1), 0);
  do {
    // Of 0, infinity and NaN there is none.
    const logs = ops.call("stopGradient", [ops.log2(x)]);
    const powers = select(ops.isFinite(logs), ops.floor(logs), 0);
    const single = byPower(x, ops.neg(powers));
    const [count, lead] = [last(x), x.shape.slice(0, -1)];
    const groups = Math.max(1, Math.ceil(count / most));
    const padded = ops.pad(
      single,
      ops.constant(x.dtype, 1),
      [...lead.map(() => 0), 0],
      [...lead.map(() => 0), groups > 1 ? groups * most - count : 0],
    );
    x = ops.prod(ops.reshape(padded, [...lead, groups, groups > 1 ? most : count]), -1);
    exponent = ops.add(exponent, ops.sum(powers, -1));
  } while (last(x) > 1);
  return byPower(ops.reshape(x, x.shape.slice(0, -1)), ops.maximum(ops.minimum(exponent, 4000), -4000));
}

/** x · 2^n for whole n, which may itself be no number of f64: in four steps of powers that are. */
function byPower(x: Node, n: Node): Node {
  const quarter = ops.exp2(ops.floor(mul(n, 0.25)));
  const rest = ops.exp2(ops.sub(n, mul(ops.floor(mul(n, 0.25)), 3)));
  return mul(mul(mul(mul(x, quarter), quarter), quarter), rest);
}

function determinantNode(a: Node): Node {
  checkFloats("determinant", a);
  checkSquare("determinant", a);
  return inDouble([a], ([matrix]) => [determinants(matrix as Node)])[0] as Node;
}

/**
 * The determinant of square A, by elimination with partial pivoting: 0 for a singular A. Its gradient is the matrix of cofactors, of
 * a singular A too, by `svd`; that of {@link slogdet} takes less time.
 */
export const determinant = (a: Tensor): Tensor =>
  told("determinant", a, () => operate("determinant", determinantNode, [a]));

function slogdetNode(a: Node): Node[] {
  checkFloats("slogdet", a);
  checkSquare("slogdet", a);
  return inDouble([a], ([matrix]) => {
    const [sizes, sign] = pivots(matrix as Node);
    return [sign, ops.sum(ops.log(sizes), -1)];
  });
}

/** The sign of the determinant and the logarithm of its size: 0 and -inf for a singular A, of which the gradient is an error of the run. */
export function slogdet(a: Tensor): { readonly sign: Tensor; readonly logSize: Tensor } {
  const [sign, logSize] = told("slogdet", a, () => operateAll("slogdet", slogdetNode, [a])) as [Tensor, Tensor];
  return { sign, logSize };
}
