/** @module Problems of linear algebra in f64. Peers make the data themselves, by the same hash: it is too large to be handed over. */
import type { Kind } from "./kind.ts";

export type LinalgProblem =
  | "cg-dense"
  | "direct"
  | "cg-sparse"
  | "kmeans"
  | "logistic"
  | "svm"
  | "pca"
  | "mmchain"
  | "wsloss";

export interface LinalgSizes {
  readonly kind: "linalg";
  readonly problem: LinalgProblem;
  readonly rows: number;
  readonly columns: number;
  /** Entries of each row; 0 for dense data. */
  readonly entries: number;
  /** Iterations, clusters' steps included; 0 where the problem ends by itself. */
  readonly count: number;
}

/** How often the examples are read, at least: once in each iteration, where both products are made in one pass. */
const passes: Readonly<Partial<Record<LinalgProblem, (count: number) => number>>> = {
  "cg-dense": (count) => count,
  mmchain: (count) => count,
};

export const linalg: Kind<LinalgSizes> = {
  inputs: () => [],
  flops: ({ problem, rows, columns }) => (problem === "direct" ? rows * columns * columns : 0),
  bytes: ({ problem, rows, columns, count }) => 8 * rows * columns * (passes[problem]?.(count) ?? 0),
};
