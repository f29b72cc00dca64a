/** @module Determinants and their gradients, the cofactors, also of singular matrices. */

import { absent, type Node, type OpDef } from "../../ir/node.ts";
import { range, type TensorType } from "../../ir/shape.ts";
import { apply } from "../../ir/trace.ts";
import { batchByEquation } from "../../ops/batch.ts";
import { defineComposite } from "../../ops/composite.ts";
import { batchEquation, checked } from "../../ops/factor.ts";
import { turned } from "../../ops/factor-gradient.ts";
import * as ops from "../../ops/index.ts";
import { luPacked } from "../../ops/lu.ts";
import { f32 } from "../../ops/movement.ts";
import { operate, operateAll, type Tensor } from "../../tensor/tensor.ts";
import { checkFloats, checkSquare, diagonalOf, inDouble, last, told, unit } from "../matrices.ts";

type None = Record<string, never>;
const { mul, matmul, select } = ops;

/** The absolute values of U's diagonal, and the sign of the determinant: 0 if one of the values is 0. */
function pivots(a: Node): readonly [sizes: Node, sign: Node] {
  const [packed, , order] = luPacked(a) as [Node, Node, Node];
  const diagonal = diagonalOf(packed);
  const singular = ops.reduce("or", ops.eq(diagonal, 0), -1);
  return [ops.abs(diagonal), select(singular, 0, mul(order, ops.prod(ops.sign(diagonal), -1)))];
}

const determinantOp: OpDef<None> = defineComposite<None>({
  name: "determinant",
  doc: "The determinant of a square matrix by lu; computed in f64 by its users. Its gradient is the matrix of cofactors.",
  example: { inputs: [f32([2, 2], [1, 2, 2, 4])], attrs: {}, outputs: [f32([], [0])] },
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

/** U, the singular values, V, and det U det V repeated over matrices: cof(A) = det U det V · U cof(S) Vᵀ. */
function turns(a: Node): readonly [u: Node, s: Node, v: Node, signs: Node] {
  const [u, s, vt] = ops.svd(a) as [Node, Node, Node];
  const [, signs] = pivots(ops.call("stopGradient", [matmul(u, vt)]));
  return [u, s, turned(vt), ops.broadcastInDim(signs, u.shape, range(signs.shape.length))];
}

/** For each position in `dims` new dims, the product of the last dim's numbers without those at the position's indices. */
function productsWithout(s: Node, dims: number): Node {
  const [n, lead] = [last(s), s.shape.slice(0, -1)];
  const shape = [...lead, ...range(dims).map(() => n), n];
  const index = ops.iota("i32", shape, shape.length - 1);
  const all = ops.broadcastInDim(s, shape, [...range(lead.length), shape.length - 1]);
  const factors = range(dims).reduce(
    (x, dim) => select(ops.eq(ops.iota("i32", shape, lead.length + dim), index), 1, x),
    all,
  );
  return productOf(factors);
}

/** Numbers along the diagonals of matrices of the shape of `like`. */
const alongDiagonal = (x: Node, like: Node): Node =>
  select(ops.eq(unit(like), 1), ops.broadcastInDim(x, like.shape, range(x.shape.length)), 0);

const cofactorsOp: OpDef<None> = defineComposite<None>({
  name: "cofactors",
  doc: "The cofactors of a square matrix: its determinant times its transposed inverse, if it has one. Computed by svd and products of all singular values but one, so singular matrices have them too; users compute in f64.",
  example: { inputs: [f32([2, 2], [1, 2, 3, 4])], attrs: {}, outputs: [f32([2, 2], [4, -3, -2, 1])] },
  check: (inputs) => {
    checked("cofactors", inputs, 1, true);
  },
  body: ([a]) => {
    const [u, s, v, signs] = turns(a as Node);
    return [matmul(mul(mul(u, signs), ops.broadcastInDim(productsWithout(s, 1), u.shape, sides(u))), turned(v))];
  },
  equation: ([input]) => batchEquation(input as TensorType, [2], [2]),
  linear: [],
  // Between U and V, to the first order, the cofactors of S + E are: at (i, i) the sum of E at (j, j), at (i, j) less E at (j, i),
  // each times the product of all singular values but i and j.
  gradient: ({ node, cotangents: [d] }) => {
    const [u, s, v, signs] = turns(node.inputs[0] as Node);
    const inner = mul(signs, matmul(matmul(turned(u), d as Node), v));
    const factors = select(ops.eq(unit(inner), 1), 0, productsWithout(s, 2));
    const onDiagonal = diagonalOf(inner);
    const sums = ops.sum(mul(factors, ops.broadcastInDim(onDiagonal, factors.shape, sides(factors))), -1);
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

/** The most factors of sizes near 1 whose product stays within f64. */
const maxFactors = 1024;

/**
 * The product over the last dim of numbers >= 0 in f64, correct if the result fits f64, even if products on the way would not: the
 * powers of 2 of the factors are counted apart.
 */
function productOf(factors: Node): Node {
  let x = factors;
  let exponent = ops.full(x.dtype, x.shape.slice(0, -1), 0);
  do {
    // 0, infinity and NaN have no power of 2.
    const logs = ops.call("stopGradient", [ops.log2(x)]);
    const powers = select(ops.isFinite(logs), ops.floor(logs), 0);
    const single = byPower(x, ops.neg(powers));
    const [count, lead] = [last(x), x.shape.slice(0, -1)];
    const groups = Math.max(1, Math.ceil(count / maxFactors));
    const padded = ops.pad(
      single,
      ops.constant(x.dtype, 1),
      [...lead.map(() => 0), 0],
      [...lead.map(() => 0), groups > 1 ? groups * maxFactors - count : 0],
    );
    x = ops.prod(ops.reshape(padded, [...lead, groups, groups > 1 ? maxFactors : count]), -1);
    exponent = ops.add(exponent, ops.sum(powers, -1));
  } while (last(x) > 1);
  return byPower(ops.reshape(x, x.shape.slice(0, -1)), ops.maximum(ops.minimum(exponent, 4000), -4000));
}

/** x · 2^n for whole n, in four steps, as 2^n itself may be out of the range of f64. */
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
 * The determinants [...] of square matrices A [..., n, n], by elimination with partial pivoting: 0 for a singular A. The gradient
 * is the matrix of cofactors, by `svd`, also of a singular A; the gradient of {@link slogdet} takes less time.
 *
 * @throws HeddleError `dtype` unless A is float; `shape` unless the matrices are square
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

/**
 * The sign of the determinant and the logarithm of its absolute value: 0 and -Infinity for a singular A, whose gradient is an error
 * of the run. Shapes and errors as {@link determinant}.
 */
export function slogdet(a: Tensor): { readonly sign: Tensor; readonly logSize: Tensor } {
  const [sign, logSize] = told("slogdet", a, () => operateAll("slogdet", slogdetNode, [a])) as [Tensor, Tensor];
  return { sign, logSize };
}
