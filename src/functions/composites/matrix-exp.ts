/**
 * @module The exponential of matrices by scaling, Padé's approximant of degree 13 and squaring (N. Higham, "The scaling and
 * squaring method for the matrix exponential revisited", 2005), and its gradient, which is an exponential of block triangles.
 */

import { traceGraph } from "../../ir/graph.ts";
import { absent, type Dual, type Node, type OpDef } from "../../ir/node.ts";
import { range, type TensorType } from "../../ir/shape.ts";
import { apply } from "../../ir/trace.ts";
import { batchByEquation } from "../../ops/batch.ts";
import { defineComposite } from "../../ops/composite.ts";
import { whileLoop } from "../../ops/control.ts";
import { batchEquation, checked } from "../../ops/factor.ts";
import { turned } from "../../ops/factor-gradient.ts";
import * as ops from "../../ops/index.ts";
import { f32 } from "../../ops/movement.ts";
import { operate, type Tensor } from "../../tensor/tensor.ts";
import { checkFloats, checkSquare, inDouble, unit } from "../matrices.ts";
import { solved } from "./solve.ts";

const { add, sub, mul, matmul, select } = ops;

/** Coefficients of the approximant (Higham, 2005, equation 2.4), and the norm up to which f64 needs no scaling (table 2.3). */
const coefficients = [
  64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
  670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
] as const; // biome-ignore format: numbers
const radius = 5.371920351148152;

/** Repeats a number per matrix over the matrix. */
const spread = (x: Node, like: Node): Node => ops.broadcastInDim(x, like.shape, range(x.shape.length));

/** The largest sum of absolute values in a column. */
const columnNorm = (a: Node): Node => ops.max(ops.sum(ops.abs(a), -2), -1);

/** Padé's approximant of degree 13, for matrices whose norm is within the radius. */
function approximant(a: Node): Node {
  const [a2, identity] = [matmul(a, a), unit(a)];
  const a4 = matmul(a2, a2);
  const a6 = matmul(a4, a2);
  const combined = (terms: readonly Node[], from: number): Node =>
    terms.map((x, index) => mul(x, coefficients[from + 2 * index] as number)).reduce((x, y) => add(x, y));
  const odd = matmul(a, add(matmul(a6, combined([a2, a4, a6], 9)), combined([identity, a2, a4, a6], 1)));
  const even = add(matmul(a6, combined([a2, a4, a6], 8)), combined([identity, a2, a4, a6], 0));
  return solved(sub(even, odd), add(even, odd));
}

/** Squares each matrix as many times as its number in `times` says. */
function squared(x: Node, times: Node): Node {
  const types = [x, times].map((node) => node.types[0] as TensorType);
  const specs = [{ dtype: "i32" as const, shape: [] }, ...types].map((type, index) => ({ name: `x${index}`, type }));
  const spreadIndex = (index: Node, like: Node): Node => ops.broadcastInDim(index, like.shape, []);
  const condition = traceGraph("squares", specs, (index, _x, counts) => [
    ops.reduce(
      "or",
      ops.gt(counts as Node, spreadIndex(index as Node, counts as Node)),
      range((counts as Node).shape.length),
    ),
  ]);
  const body = traceGraph("square", specs, (...[index, held, counts]) => {
    const wanted = ops.gt(counts as Node, spreadIndex(index as Node, counts as Node));
    return [select(spread(wanted, held as Node), matmul(held as Node, held as Node), held as Node)];
  });
  return whileLoop([x, times], { condition, body, carries: 1 })[0] as Node;
}

/** The exponentials of f64 matrices. */
function exponential(a: Node): Node {
  if (a.shape.at(-1) === 0) return a;
  const size = columnNorm(a);
  const finite = ops.isFinite(size);
  const times = ops.maximum(ops.ceil(ops.log2(select(finite, mul(size, 1 / radius), 1))), 0);
  // In two steps, as 2^-times may be out of the range of f64.
  const steps = ops.floor(mul(times, 0.5));
  const [half, rest] = [ops.exp2(ops.neg(steps)), ops.exp2(sub(steps, times))];
  const scaled = mul(mul(select(spread(finite, a), a, 0), spread(half, a)), spread(rest, a));
  return select(spread(finite, a), squared(approximant(scaled), ops.cast(times, "i32")), Number.NaN);
}

/**
 * The derivative of exp at A along E: exp([[A, E], [0, A]]) has it above the diagonal (I. Najfeld and T. Havel, "Derivatives of
 * the matrix exponential and their computation", 1995). Its adjoint is the derivative at Aᵀ.
 */
function derivative(a: Node, e: Node): Node {
  const n = a.shape.at(-1) as number;
  if (n === 0) return e;
  // E is scaled to size 1, so that it hardly takes more squarings: the derivative is linear in E.
  const size = columnNorm(e);
  const usable = ops.and(ops.isFinite(size), ops.gt(size, 0));
  const scale = spread(ops.call("stopGradient", [select(usable, size, 1)]), e);
  const above = ops.concat([a, ops.div(e, scale)], -1);
  const block = matrixExps(ops.concat([above, ops.concat([ops.zerosLike(a), a], -1)], -2));
  const rank = block.shape.length;
  const corner = ops.slice(
    block,
    block.shape.map((_size, dim) => (dim === rank - 1 ? n : 0)),
    block.shape.map((count, dim) => (dim === rank - 2 ? n : count)),
  );
  return mul(corner, scale);
}

const matrixExpOp: OpDef<Record<string, never>> = defineComposite<Record<string, never>>({
  name: "matrixExp",
  doc: "The exponential of a square matrix, by scaling, Padé's approximant and squaring, computed in f64. NaN all over for a matrix with numbers that are not finite.",
  example: { inputs: [f32([2, 2], [0, 1, 0, 0])], attrs: {}, outputs: [f32([2, 2], [1, 1, 0, 1])] },
  check: (inputs) => {
    checked("matrixExp", inputs, 1, true);
  },
  body: ([matrix]) => {
    const a = ops.cast(matrix as Node, "f64");
    return [ops.cast(exponential(a), (matrix as Node).dtype)];
  },
  equation: ([input]) => batchEquation(input as TensorType, [2], [2]),
  linear: [],
  gradient: ({ node, cotangents: [d] }) => [derivative(turned(node.inputs[0] as Node), d as Node)],
  forward: ({ inputs }) => {
    const { node, tangent } = inputs[0] as Dual;
    return [{ node: matrixExps(node), tangent: tangent && derivative(node, tangent) }];
  },
  batch: batchByEquation(),
  form: absent("its body is kernels"),
});

/** The exponentials of matrices. */
const matrixExps = (a: Node): Node => apply(matrixExpOp, [a], {});

function matrixExpNode(a: Node): Node {
  checkFloats("matrixExp", a);
  checkSquare("matrixExp", a);
  return inDouble([a], ([matrix]) => [matrixExps(matrix as Node)])[0] as Node;
}

/**
 * The exponential of square A [..., n, n], by scaling, Padé's approximant and squaring (Higham, 2005); f32 and 16-bit floats are
 * computed in f64. NaN where A has numbers that are not finite. Every derivative is an exponential of a matrix twice as large.
 */
export const matrixExp = (a: Tensor): Tensor => operate("matrixExp", matrixExpNode, [a]);
