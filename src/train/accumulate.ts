/** @module Gradient accumulation: gradients of a batch, part by part; the sums over all parts are the sums of the whole batch. */
import { full, isTensor, scan, type Tensor, type Tensors } from "../functions/index.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import type { BatchColumns } from "./values.ts";

/** The results of the forward and backward passes of a batch. */
export interface PassOutcome {
  readonly grads: Tensors;
  /** Mean over the rows. */
  readonly loss: Tensor;
  /** Sums over the rows. */
  readonly metrics: { readonly [name: string]: Tensor };
  /** State of the layers. */
  readonly state: Tensors;
}

/** The passes of a batch, from layer state and columns. */
export type Pass = (state: Tensors, batch: BatchColumns) => PassOutcome;

/**
 * Runs a pass over each of `parts` parts of equal size in turn; each pass hands its layer state to the next.
 *
 * @param zero the start of the sums, besides `state`: zeros with the types of a pass's outcome
 */
export function inParts(
  parts: number,
  pass: Pass,
  zero: Omit<PassOutcome, "state">,
  state: Tensors,
  batch: BatchColumns,
): PassOutcome {
  if (parts === 1) return pass(state, batch);
  type Carry = [Omit<PassOutcome, "state">, Tensors];
  const start: Carry = [zero, state];
  const [[{ grads, loss, metrics }, end]] = scan(
    ([sums, layerState]: Carry, part: Tensors): [Carry, Tensors] => {
      const { state: next, ...outcome } = pass(layerState, part as BatchColumns);
      return [[added(sums, outcome), next], {}];
    },
    start,
    mapTensors(batch as Tensors, (column) => cut(column, parts)),
  );
  // The means of all parts count equally: all parts have the same number of rows, and weighted means use shared divisors.
  return { grads: mapTensors(grads, (sum) => sum.mul(1 / parts)), loss: loss.mul(1 / parts), metrics, state: end };
}

/**
 * The divisors of the means of a loss in each part: a share of the sum over the whole batch, so that the mean of the parts' means
 * is the mean of the batch, even if parts differ in how many values count.
 *
 * @param sums the divisors of one part, from its columns
 */
export function sharesOf(
  parts: number,
  sums: (batch: BatchColumns) => readonly Tensor[],
  batch: BatchColumns,
): readonly Tensor[] {
  if (parts === 1) return [];
  // `scan` must carry a value; if there are no sums, the loop is removed as unused.
  const [, stacked] = scan(
    (zero: Tensor, part: Tensors): [Tensor, Tensor[]] => [zero, [zero, ...sums(part as BatchColumns)]],
    full([], 0),
    mapTensors(batch as Tensors, (column) => cut(column, parts)),
  );
  return stacked.slice(1).map((each) => each.mean(0));
}

/** Reshapes `[rows, …]` to `[parts, rows / parts, …]`. Each part takes every `parts`-th row, so no row moves to another device. */
function cut(column: Tensor, parts: number): Tensor {
  const [rows, ...rest] = column.shape as [number, ...number[]];
  return column.reshape([rows / parts, parts, ...rest]).transpose([1, 0, ...rest.map((_size, dim) => dim + 2)]);
}

function added<Tree>(left: Tree, right: Tree): Tree {
  const flat = flattenTree(left, isTensor);
  const others = flattenTree(right, isTensor).leaves;
  return unflattenTree(
    flat.shape,
    flat.leaves.map((leaf, index) => leaf.add(others[index] as Tensor)),
  ) as Tree;
}

/** The tree with `change` applied to each tensor. */
export function mapTensors<Tree extends Tensors>(tree: Tree, change: (x: Tensor) => Tensor): Tree {
  const { leaves, shape } = flattenTree(tree, isTensor);
  return unflattenTree(shape, leaves.map(change)) as Tree;
}
