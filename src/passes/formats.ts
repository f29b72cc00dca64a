/**
 * @module Equations of values in a sparse format: computations on the stored entries alone. An op without an equation here
 * gets the dense value.
 */
import type { Node } from "../ir/node.ts";
import { entriesDot, sampled, sampledDot, sparse, transpose } from "../ops/index.ts";
import { type Rule, rule } from "../rewrite/index.ts";
import { attr, input, isOp, orderOf } from "./match.ts";

interface Plain {
  /** Contracted dim of each operand. */
  readonly x: number;
  readonly y: number;
}

/** The contracted dims of a product of two matrices. */
function plainDot(node: Node): Plain | undefined {
  const [x, y] = [attr<readonly number[]>(node, "xContract"), attr<readonly number[]>(node, "yContract")];
  const onePair = x.length === 1 && attr<readonly number[]>(node, "xBatch").length === 0;
  const matrices = node.inputs.every(({ shape }) => shape.length === 2);
  return onePair && matrices ? { x: x[0] as number, y: y[0] as number } : undefined;
}

/** Rows of a matrix, or its columns as rows. */
const rowsOf = (x: Node, dim: number): Node => (dim === 0 ? x : transpose(x, [1, 0]));

/** The product of a sparse matrix and a dense one, with the sparse matrix's free dim as rows. */
function entriesTimes(matrix: Node, contracted: number, dense: Node, dim: number): Node {
  const [values, rows, columns] = matrix.inputs as [Node, Node, Node];
  const [from, to] = contracted === 1 ? [columns, rows] : [rows, columns];
  return entriesDot(values, from, to, rowsOf(dense, dim), matrix.shape[1 - contracted] as number);
}

function productOfSparse(node: Node): Node | undefined {
  const dims = plainDot(node);
  const [x, y] = [input(node), input(node, 1)];
  if (dims === undefined) return undefined;
  if (isOp(x, "sparse")) return entriesTimes(x, dims.x, y, dims.y);
  return isOp(y, "sparse") ? transpose(entriesTimes(y, dims.y, x, dims.x), [1, 0]) : undefined;
}

function sampledProduct(node: Node): Node | undefined {
  const [product, rows, columns] = node.inputs as [Node, Node, Node];
  const dims = isOp(product, "dot") ? plainDot(product) : undefined;
  if (dims === undefined) return undefined;
  return sampledDot(rowsOf(input(product), 1 - dims.x), rowsOf(input(product, 1), 1 - dims.y), rows, columns);
}

function sampledTranspose(node: Node): Node | undefined {
  const [product, rows, columns] = node.inputs as [Node, Node, Node];
  return isOp(product, "transpose") && attr<readonly number[]>(product, "order")[0] === 1
    ? sampled(input(product), columns, rows)
    : undefined;
}

function transposeOfSparse(node: Node): Node | undefined {
  const matrix = input(node);
  if (!isOp(matrix, "sparse") || orderOf(node)[0] !== 1) return undefined;
  const [values, rows, columns] = matrix.inputs as [Node, Node, Node];
  return sparse(values, columns, rows, node.shape);
}

/** Equations of products and transposes of matrices given by entries, which avoid the dense matrix. */
export const formatRules: readonly Rule[] = [
  rule("dot", "product of sparse", "(sparse A) B = sum over entries (i, k): A[i, k] B[k, :]", productOfSparse),
  rule("transpose", "transpose of sparse", "(sparse A)^T has the entries of A, columns as rows", transposeOfSparse),
  rule("sampled", "sampled product", "(A B)[i, j] = A[i, :] . B[:, j]", sampledProduct),
  rule("sampled", "sampled transpose", "(A^T)[i, j] = A[j, i]", sampledTranspose),
];

/** Whether a node's value, or its input, is a matrix given by entries, whose format the planner decides. */
export const isByEntries = (node: Node): boolean => isOp(node, "sparse") || isOp(node, "sampled");
