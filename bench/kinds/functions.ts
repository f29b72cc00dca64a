/** @module Functions that are not trained: an elementwise chain, matrix products, and operations that are not compiled. */
import { count, integersBelow, type Kind } from "./kind.ts";

/** `y = sqrt((sigmoid(a b + c) tanh(a) - 0.5 b)^2 + 1)`, elementwise. */
export interface ChainSizes {
  readonly kind: "chain";
  readonly elements: number;
}

/** The product of `a` (m x k) and `b` (k x n). */
export interface GemmSizes {
  readonly kind: "gemm";
  readonly m: number;
  readonly k: number;
  readonly n: number;
}

/** What is measured of rows: softmax, layer norm (without weights), sum, argmax; cross-entropy with its gradient by the logits. */
export type ReduceOperation = "softmax" | "layer-norm" | "sum" | "argmax" | "cross-entropy";

/** An operation over the last dim of `x`. */
export interface ReduceSizes {
  readonly kind: "reduce";
  readonly operation: ReduceOperation;
  readonly rows: number;
  readonly columns: number;
}

/** The operations that eager workloads repeat; each peer has a function for each. */
export type EagerOperation = "add" | "scale" | "sum" | "matmul" | "softmax" | "slice" | "chain" | "step" | "xty";

/** Operations that are not compiled, of matrices x and y; their results are read at the end. */
export interface EagerSizes {
  readonly kind: "eager";
  readonly operation: EagerOperation;
  readonly x: readonly [rows: number, columns: number];
  readonly y: readonly [rows: number, columns: number];
  /** Repetitions in a step; an operation whose result has the size of x is applied to its own result. */
  readonly count: number;
}

export const chain: Kind<ChainSizes> = {
  inputs: ({ elements }) => ["a", "b", "c"].map((name) => [name, [elements]]),
  value: (uniform) => 4 * uniform - 2,
  bytes: ({ elements }) => 16 * elements,
};

export const gemm: Kind<GemmSizes> = {
  inputs: ({ m, k, n }) => [
    ["a", [m, k]],
    ["b", [k, n]],
  ],
  flops: ({ m, k, n }) => 2 * m * k * n,
  bytes: ({ m, k, n }) => 4 * (m * k + k * n + m * n),
};

export const reduce: Kind<ReduceSizes> = {
  inputs: ({ rows, columns }) => [["x", [rows, columns]]],
  integers: ({ operation, rows }) => (operation === "cross-entropy" ? [["labels", [rows]]] : []),
  drawIntegers: ({ operation, rows, columns }, draw) =>
    integersBelow(operation === "cross-entropy" ? rows : 0, columns, draw),
  value: (uniform) => 4 * uniform - 2,
  bytes: ({ operation, rows, columns }) => {
    const perRow = { softmax: columns, "layer-norm": columns, sum: 1, argmax: 1, "cross-entropy": columns + 1 }[
      operation
    ];
    return 4 * rows * (columns + perRow);
  },
};

export const eager: Kind<EagerSizes> = {
  inputs: ({ x, y }) => [
    ["x", x],
    ["y", y],
  ],
  // Rows of about 1 in sum, so that powers stay numbers.
  value: (uniform) => uniform / 4,
  bytes: ({ operation, x, y }) => (operation === "xty" ? 4 * (count(x) + count(y)) : 0),
};
