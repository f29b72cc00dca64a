/**
 * @module Elements by index, and updates at indices. An index is a position: a negative index counts from the end of its dim, as in
 * NumPy and JAX, whether its value is known or traced; an index outside is an error of the run. Ids and labels (`nn.embedding`,
 * segments, losses) name rows and are not positions; they use `rowsById`.
 */

import type { Node } from "../../ir/node.ts";
import { formatShape, formatType, normalizeDim, range, type Shape, sizeOf, stridesOf } from "../../ir/shape.ts";
import * as ops from "../../ops/index.ts";
import { isTensor, operate, type Tensor, valuesAtHand } from "../../tensor/tensor.ts";
import { HeddleError, inWords, type OutsideIndex, retold } from "../../util/errors.ts";
import type { Fault } from "../../util/faults.ts";
import { checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { counted } from "../counted.ts";
import { sliceDim, squeezeNode, wrapped } from "../nodes.ts";

/** How an element and an update are combined: their sum, product, maximum, minimum, or the update. */
export type ScatterOp = ops.ScatterOp;

const scatterOps: readonly ScatterOp[] = ["sum", "prod", "max", "min", "replace"];

function checkScatterOp(what: string, op: unknown): void {
  if (!(scatterOps as readonly unknown[]).includes(op))
    throw new HeddleError("option", `${what}: op is ${shown(op)}`, { hint: `it can be ${scatterOps.join(", ")}` });
}

/** Indices along a dim, negative ones resolved from its end. */
const inDim = (x: Node, indices: Node, dim: number): Node =>
  wrapped(indices, x.shape[normalizeDim(dim, x.shape.length, "dim")] as number);

/** Row numbers from `indices[…, c]`, which hold a position in each of the first dims (negative: from its end); -1 for one outside. */
function flatIndices(what: string, indices: Node, shape: Shape): Node {
  const parts = indices.shape.at(-1);
  if (parts === undefined || parts > shape.length || indices.dtype !== "i32")
    throw new HeddleError(
      "shape",
      `${what}: indices ${formatType(indices)} must be i32 and hold at most ${shape.length} parts`,
    );
  const strides = stridesOf(shape.slice(0, parts));
  const last = indices.shape.length - 1;
  const part = (at: number): Node =>
    wrapped(squeezeNode(sliceDim(indices, last, at, at + 1), last), shape[at] as number);
  const flat = range(parts).map((at) => ops.mul(part(at), strides[at] as number));
  const inside = range(parts).map((at) => ops.and(ops.ge(part(at), 0), ops.lt(part(at), shape[at] as number)));
  const total = flat.reduce((sum, part) => ops.add(sum, part), ops.full("i32", indices.shape.slice(0, -1), 0));
  const legal = inside.reduce((both, part) => ops.and(both, part), ops.full("bool", indices.shape.slice(0, -1), 1));
  return ops.select(legal, total, -1);
}

const rowsOf = (x: Node, parts: number): Node =>
  ops.reshape(x, [sizeOf(x.shape.slice(0, parts)), ...x.shape.slice(parts)]);

function gatherNdNode(x: Node, indices: Node): Node {
  const flat = flatIndices("gatherNd", indices, x.shape);
  return ops.gather(rowsOf(x, indices.shape.at(-1) as number), flat);
}

function scatterNdNode(x: Node, indices: Node, updates: Node, op: ops.ScatterOp): Node {
  const flat = flatIndices("scatterNd", indices, x.shape);
  const rows = rowsOf(x, indices.shape.at(-1) as number);
  return ops.reshape(ops.scatter(op, rows, flat, updates), x.shape);
}

function scatterAlong(x: Node, indices: Node, updates: Node, dim: number, op: ops.ScatterOp): Node {
  const at = normalizeDim(dim, x.shape.length, "scatterAlongDim");
  const [rows, ids, values] = [x, indices, updates].map((operand) => ops.asRows(operand, at)) as [
    ops.Rows,
    ops.Rows,
    ops.Rows,
  ];
  return rows.back(ops.scatter(op, rows.rows, ids.rows, values.rows, 1));
}

/** Elements at the i32 `indices` along a dim (default the first): the dims of `indices` replace the dim. Negative indices count from the end. @throws HeddleError `value` when it runs and an index lies outside */
export const take = (x: Tensor, indices: Tensor, dim = 0): Tensor =>
  counted("take", () =>
    operate(
      "take",
      (node: Node, at: Node, along: number) => ops.take(node, inDim(node, at, along), along),
      [x, indices],
      dim,
    ),
  );

/**
 * Rows by i32 index: out[b…, i…, r…] = x[b…, indices[b…, i…], r…], with `batchDims` (default 0) dims b. Negative indices count from
 * the end. @throws HeddleError `value` when it runs and an index lies outside
 */
export const gather = (x: Tensor, indices: Tensor, batchDims = 0): Tensor =>
  counted("gather", () =>
    operate(
      "gather",
      (node: Node, at: Node, batch: number) => ops.gather(node, wrapped(at, node.shape[batch] ?? 0), batch),
      [x, indices],
      batchDims,
    ),
  );

/** Element `indices[…, i, …]` (i32) of each line along a dim (default the last); all other dims agree. Negative indices count from the end. */
export const takeAlongDim = (x: Tensor, indices: Tensor, dim = -1): Tensor =>
  counted("takeAlongDim", () =>
    operate(
      "takeAlongDim",
      (node: Node, at: Node, along: number) => ops.takeAlong(node, inDim(node, at, along), along),
      [x, indices],
      dim,
    ),
  );

/** TensorFlow's gather_nd: `out[i…, r…] = x[indices[i…, 0], indices[i…, 1], …, r…]`, with i32 indices. Negative indices count from the end. */
export const gatherNd = (x: Tensor, indices: Tensor): Tensor =>
  placed("gatherNd", x, indices, () => operate("gatherNd", gatherNdNode, [x, indices]));

/** Runs a lookup by several indices per row. The op sees one number for them; the error shows all. */
function placed(name: string, x: Tensor, indices: Tensor, body: () => Tensor): Tensor {
  if (!isTensor(x) || !isTensor(indices)) return body();
  const parts = indices.shape.at(-1) as number;
  const { isTraced } = indices;
  const says = (outside: OutsideIndex): Fault => {
    const { position } = outside;
    const values = isTraced ? undefined : valuesAtHand(indices)?.slice(position * parts, (position + 1) * parts);
    const what = values === undefined ? "indices" : `indices [${[...values].join(", ")}]`;
    return inWords(`${what} at position ${position} are outside ${formatShape(x.shape.slice(0, parts))}`, outside);
  };
  return retold(name, says, body);
}

/** Options of {@link scatter}, {@link scatterNd} and {@link scatterAlongDim}. */
export interface ScatterOptions {
  /** How an element and an update are combined; updates are applied in order of position. Default `"replace"`. */
  readonly op?: ScatterOp;
}

function opOf(what: string, options: ScatterOptions): ScatterOp {
  checkOptions(what, options, ["op"]);
  const { op = "replace" } = options;
  checkScatterOp(what, op);
  return op;
}

/**
 * A copy of x in which rows are combined with `updates[i…, r…]` at `indices[i…]` (i32). Negative indices count from the end.
 *
 * @throws HeddleError `shape` or `dtype` for operands that do not fit; `value` when it runs and an index lies outside.
 */
export const scatter = (x: Tensor, indices: Tensor, updates: Tensor, options: ScatterOptions = {}): Tensor =>
  counted("scatter", () =>
    operate(
      "scatter",
      (node: Node, at: Node, by: Node, op: ScatterOp) => ops.scatter(op, node, inDim(node, at, 0), by),
      [x, indices, updates],
      opOf("scatter", options),
    ),
  );

/** {@link scatter} at positions in the first c dims, `indices[i…, c]` (i32): a copy of x with `updates[i…, r…]` combined there. */
export const scatterNd = (x: Tensor, indices: Tensor, updates: Tensor, options: ScatterOptions = {}): Tensor =>
  placed("scatterNd", x, indices, () =>
    operate("scatterNd", scatterNdNode, [x, indices, updates], opOf("scatterNd", options)),
  );

/** PyTorch's scatter_reduce: each update goes into its own line along a dim (default the last), at the i32 index of the same position in `indices`. */
export const scatterAlongDim = (
  x: Tensor,
  indices: Tensor,
  updates: Tensor,
  dim = -1,
  options: ScatterOptions = {},
): Tensor =>
  counted("scatterAlongDim", () =>
    operate(
      "scatterAlongDim",
      (node: Node, at: Node, by: Node, along: number, op: ScatterOp) =>
        scatterAlong(node, inDim(node, at, along), by, along, op),
      [x, indices, updates],
      dim,
      opOf("scatterAlongDim", options),
    ),
  );
