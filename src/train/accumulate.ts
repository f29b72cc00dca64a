/** @module Gradients of a batch, a part of it at a time: the sums of all parts are those of the whole batch. */
import { full, isTensor, scan, type Tensor, type Tensors } from "../functions/index.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import type { BatchColumns } from "./values.ts";

/** What the forward and backward passes of a batch give. */
export interface PassOutcome {
  readonly grads: Tensors;
  /** Mean over the rows. */
  readonly loss: Tensor;
  /** Sums over the rows. */
  readonly metrics: { readonly [name: string]: Tensor };
  /** Of the layers. */
  readonly state: Tensors;
}

/** The passes of a batch, from layer state and columns. */
export type Pass = (state: Tensors, batch: BatchColumns) => PassOutcome;

/** The largest number of equal parts of so many rows that is not above `most`. */
export function mostParts(rows: number, most: number): number {
  for (let parts = Math.min(most, Math.floor(rows)); parts > 1; parts--) if (rows % parts === 0) return parts;
  return 1;
}

/**
 * One pass over each of `parts` parts of equal size, one after the other; each hands its layer state to the next.
 *
 * @param zero what the sums start from, besides `state`: zeros of the types of a pass's outcome
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
    ([sums, kept]: Carry, one: Tensors): [Carry, Tensors] => {
      const { state: next, ...more } = pass(kept, one as BatchColumns);
      return [[added(sums, more), next], {}];
    },
    start,
    mapTensors(batch as Tensors, (column) => cut(column, parts)),
  );
  // Each part's mean counts as much: all have as many rows, and means by weight have shares of what they are divided by.
  return { grads: mapTensors(grads, (sum) => sum.mul(1 / parts)), loss: loss.mul(1 / parts), metrics, state: end };
}

/**
 * What the means of a loss are divided by in each of the parts: a share of their sum over the whole batch, so that the mean of the
 * parts' means is that of the batch, whatever counts in each.
 *
 * @param sums of one part, from its columns
 */
export function sharesOf(
  parts: number,
  sums: (batch: BatchColumns) => readonly Tensor[],
  batch: BatchColumns,
): readonly Tensor[] {
  if (parts === 1) return [];
  // A loop must carry something; without sums it is not run.
  const [, stacked] = scan(
    (none: Tensor, one: Tensors): [Tensor, Tensor[]] => [none, [none, ...sums(one as BatchColumns)]],
    full([], 0),
    mapTensors(batch as Tensors, (column) => cut(column, parts)),
  );
  return stacked.slice(1).map((each) => each.mean(0));
}

/** `[rows, …]` to `[parts, rows / parts, …]`, every part with rows from everywhere: devices keep the rows they have. */
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

/** The tree with another tensor for each. */
export function mapTensors<Tree extends Tensors>(tree: Tree, change: (x: Tensor) => Tensor): Tree {
  const { leaves, shape } = flattenTree(tree, isTensor);
  return unflattenTree(shape, leaves.map(change)) as Tree;
}
