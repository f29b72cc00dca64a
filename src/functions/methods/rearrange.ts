/** @module Moving, repeating, picking and combining elements of tensors, named as in NumPy and PyTorch. */

import type { Node } from "../../ir/node.ts";
import { formatType, normalizeDim, range } from "../../ir/shape.ts";
import * as ops from "../../ops/index.ts";
import { checkWhole } from "../../tensor/arguments.ts";
import { checkTensor, operate, type Tensor } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkInteger } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { diagonalNode, offDiagonal, repeatNode, sliceDim, squeezeNode } from "../nodes.ts";
import type { Dims } from "./reductions.ts";

function rollNode(x: Node, shift: number, dim: number): Node {
  const at = normalizeDim(dim, x.shape.length, "roll");
  const size = x.shape[at] as number;
  const by = size === 0 ? 0 : ((shift % size) + size) % size;
  if (by === 0) return x;
  return ops.concat([sliceDim(x, at, size - by, size), sliceDim(x, at, 0, size - by)], at);
}

function tileNode(x: Node, counts: readonly number[]): Node {
  const rank = Math.max(counts.length, x.shape.length);
  const full = <T>(list: readonly T[], neutral: T): T[] => [...new Array<T>(rank - list.length).fill(neutral), ...list];
  const [shape, times] = [full(x.shape, 1), full(counts, 1)];
  const wide = shape.flatMap((size, dim) => [times[dim] as number, size]);
  const from = ops.reshape(
    x,
    shape.flatMap((size) => [1, size]),
  );
  return ops.reshape(
    ops.broadcastTo(from, wide),
    shape.map((size, dim) => size * (times[dim] as number)),
  );
}

const triuNode = (x: Node, k = 0): Node => ops.select(ops.ge(offDiagonal("triu", x.shape), k), x, ops.zerosLike(x));

const trilNode = (x: Node, k = 0): Node => ops.select(ops.le(offDiagonal("tril", x.shape), k), x, ops.zerosLike(x));

/** Moves elements by `shift` positions along a dim (default the last); elements that leave at one end come in at the other. */
export const roll = (x: Tensor, shift: number, dim = -1): Tensor => operate("roll", rollNode, [x], shift, dim);

/** NumPy's tile, PyTorch's repeat: the whole tensor `counts[dim]` times along each dim; further counts add dims in front. */
export function tile(x: Tensor, counts: readonly number[]): Tensor {
  checkWhole("tile", "counts", counts);
  return operate("tile", tileNode, [x], counts);
}

/** NumPy's repeat, PyTorch's repeat_interleave: each element `count` times, one after another, along a dim (default the last). */
export function repeat(x: Tensor, count: number, dim = -1): Tensor {
  checkInteger("repeat", "count", count, 0);
  return operate("repeat", repeatNode, [x], count, dim);
}

/** The slices along a dim (default 0), which is removed. */
export function unstack(x: Tensor, dim = 0): Tensor[] {
  checkTensor("unstack", x);
  const at = normalizeDim(dim, x.shape.length, "unstack");
  return range(x.shape[at] as number).map((index) => operate("unstack", pickNode, [x], at, index));
}

/**
 * Slice `index` along a dim (default the last), which is removed: NumPy's `x[..., index]`, PyTorch's `x.select(dim, index)`. A
 * negative index counts from the end.
 *
 * @throws HeddleError `shape` for an index outside.
 */
export function pick(x: Tensor, index: number, dim = -1): Tensor {
  checkTensor("pick", x);
  checkInteger("pick", "index", index, -Number.MAX_SAFE_INTEGER);
  const at = normalizeDim(dim, x.shape.length, "pick");
  const size = x.shape[at] as number;
  const position = index < 0 ? index + size : index;
  if (position < 0 || position >= size)
    throw new HeddleError(
      "shape",
      `pick: index ${index} is not in [${-size}, ${size - 1}], dim ${at} of ${formatType(x)}`,
    );
  return operate("pick", pickNode, [x], at, position);
}

const pickNode = (node: Node, at: number, index: number): Node => squeezeNode(sliceDim(node, at, index, index + 1), at);

/**
 * Parts along a dim (default 0), of these sizes, or all of one size except for the last, which has the rest.
 *
 * @throws HeddleError `shape` for sizes that do not add up to the dim
 */
export function split(x: Tensor, sizes: number | readonly number[], dim = 0): Tensor[] {
  checkTensor("split", x);
  checkWhole("split", "sizes", sizes, true);
  const at = normalizeDim(dim, x.shape.length, "split");
  const whole = x.shape[at] as number;
  if (typeof sizes === "number") checkInteger("split", "sizes", sizes, 1);
  const list =
    typeof sizes === "number"
      ? range(Math.ceil(whole / sizes)).map((index) => Math.min(sizes, whole - index * sizes))
      : sizes;
  if (list.some((size) => size < 0) || list.reduce((sum, size) => sum + size, 0) !== whole)
    throw new HeddleError("shape", `split: sizes ${shown(sizes)} do not add up to ${whole}`);
  let from = 0;
  return list.map((size) => {
    from += size;
    return operate("split", sliceDim, [x], at, from - size, from);
  });
}

/** The elements in reverse order along dims (default all): NumPy's name of {@link reverse}. */
export const flip = (x: Tensor, dims?: Dims): Tensor =>
  operate(
    "flip",
    (node: Node, over?: Dims) => ops.reverse(node, ops.resolveDims("flip", over, node.shape.length)),
    [x],
    dims,
  );

/** x with zeros below diagonal `k` (default 0, the main one) of the last two dims. */
export const triu = (x: Tensor, k = 0): Tensor => operate("triu", triuNode, [x], k);

/** x with zeros above diagonal `k` (default 0, the main one) of the last two dims. */
export const tril = (x: Tensor, k = 0): Tensor => operate("tril", trilNode, [x], k);

/** Diagonal `k` (default 0, the main one) of the last two dims, as one last dim. */
export const diagonal = (x: Tensor, k = 0): Tensor => operate("diagonal", diagonalNode, [x], k);
