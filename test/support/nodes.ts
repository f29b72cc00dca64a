/** @module What graphs of tests are spelled in: the ops, and functions of tensors on nodes, as those who extend Heddle call them. */

import { attention } from "../../src/functions/composites/attention.ts";
import * as functions from "../../src/functions/index.ts";
import type { Node } from "../../src/ir/node.ts";
import { isTensor, Tensor } from "../../src/tensor/tensor.ts";

export * from "../../src/ops/index.ts";
export { attention };

/** A type with nodes in the place of tensors. */
type OnNodes<T> = T extends Tensor ? Node : T extends object ? { readonly [K in keyof T]: OnNodes<T[K]> } : T;
type Lifted<A extends readonly unknown[]> = { [I in keyof A]: OnNodes<A[I]> };

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "op" in value;

function nodesOf(made: unknown): unknown {
  if (isTensor(made)) return made.node;
  return Object.fromEntries(Object.entries(made as object).map(([name, value]) => [name, nodesOf(value)]));
}

/** A function of tensors on nodes of the trace in progress. */
const onNodes =
  <A extends readonly unknown[], R>(fn: (...operands: A) => R) =>
  (...operands: Lifted<A>): OnNodes<R> =>
    nodesOf(fn(...(operands.map((one) => (isNode(one) ? Tensor.ofNode(one) : one)) as unknown as A))) as OnNodes<R>;

const { linalg } = functions;
export const all = onNodes(functions.all);
export const any = onNodes(functions.any);
export const argMin = onNodes(functions.argMin);
export const choleskySolve = onNodes(linalg.choleskySolve);
export const determinant = onNodes(linalg.determinant);
export const inverse = onNodes(linalg.inverse);
export const logSoftmax = onNodes(functions.logSoftmax);
export const logSumExp = onNodes(functions.logSumExp);
export const lstsq = onNodes(linalg.lstsq);
export const matrixExp = onNodes(linalg.matrixExp);
export const matrixNorm = onNodes(linalg.matrixNorm);
export const median = onNodes(functions.median);
export const moments = onNodes(functions.moments);
export const normalize = onNodes(functions.normalize);
export const pinv = onNodes(linalg.pinv);
export const quantile = onNodes(functions.quantile);
export const slogdet = onNodes(linalg.slogdet);
export const softmax = onNodes(functions.softmax);
export const softmaxCrossEntropy = onNodes(functions.softmaxCrossEntropy);
export const solve = onNodes(linalg.solve);
export const trace = onNodes(linalg.trace);
export const unique = onNodes(functions.unique);
