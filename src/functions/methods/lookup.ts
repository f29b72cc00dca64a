/**
 * @module Elements by index, and updates at indices. An index is a position: a negative one counts from the end of its dim, as in
 * NumPy and JAX, whether its value is known or traced, and one outside is an error of the run. Ids and labels
 * (`nn.embedding`, segments, losses) name a row and are none; for them there is `rowsById`.
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

/** What becomes of a held element and an update: their sum, product, maximum, minimum, or the update. */
export type ScatterOp = ops.ScatterOp;

const scatterOps: readonly ScatterOp[] = ["sum", "prod", "max", "min", "replace"];

function checkScatterOp(what: string, op: unknown): void {
  if (!(scatterOps as readonly unknown[]).includes(op))
    throw new HeddleError("option", `${what}: op is ${shown(op)}`, { hint: `it can be ${scatterOps.join(", ")}` });
}

/** Indices of a dim, counted from its start. */
const inDim = (x: Node, indices: Node, dim: number): Node =>
  wrapped(indices, x.shape[normalizeDim(dim, x.shape.length, "dim")] as number);

/** Indices of whole rows, -1 where a part is out of its range; `indices[…, c]` holds a place in the first dims, from the end where negative. */
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
  const total = flat.reduce((sum, one) => ops.add(sum, one), ops.full("i32", indices.shape.slice(0, -1), 0));
  const legal = inside.reduce((both, one) => ops.and(both, one), ops.full("bool", indices.shape.slice(0, -1), 1));
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
  const [rows, places, values] = [x, indices, updates].map((operand) => ops.asRows(operand, at)) as [
    ops.Rows,
    ops.Rows,
    ops.Rows,
  ];
  return rows.back(ops.scatter(op, rows.rows, places.rows, values.rows, 1));
}

/** Elements at the i32 `indices` along a dim (default the first); negative ones count from the end. */
export const take = (x: Tensor, indices: Tensor, dim = 0): Tensor =>
  counted("take", () =>
    operate(
      "take",
      (node: Node, at: Node, along: number) => ops.take(node, inDim(node, at, along), along),
      [x, indices],
      dim,
    ),
  );

/** Rows by i32 index after `batchDims` common dims; negative indices count from the end. */
export const gather = (x: Tensor, indices: Tensor, batchDims = 0): Tensor =>
  counted("gather", () =>
    operate(
      "gather",
      (node: Node, at: Node, batch: number) => ops.gather(node, wrapped(at, node.shape[batch] ?? 0), batch),
      [x, indices],
      batchDims,
    ),
  );

/** Element `indices[…, i, …]` (i32) of each line along a dim, from the end where negative; other dims of both must agree. */
export const takeAlongDim = (x: Tensor, indices: Tensor, dim = -1): Tensor =>
  counted("takeAlongDim", () =>
    operate(
      "takeAlongDim",
      (node: Node, at: Node, along: number) => ops.takeAlong(node, inDim(node, at, along), along),
      [x, indices],
      dim,
    ),
  );

/** TensorFlow's gather_nd: `out[i…, r…] = x[indices[i…, 0], indices[i…, 1], …, r…]`, indices i32, from the end where negative. */
export const gatherNd = (x: Tensor, indices: Tensor): Tensor =>
  placed("gatherNd", x, indices, () => operate("gatherNd", gatherNdNode, [x, indices]));

/** Runs what looks up by several indices each: the op sees one number for them. */
function placed(name: string, x: Tensor, indices: Tensor, body: () => Tensor): Tensor {
  if (!isTensor(x) || !isTensor(indices)) return body();
  const parts = indices.shape.at(-1) as number;
  const { isTraced } = indices;
  const says = (found: OutsideIndex): Fault => {
    const { position } = found;
    const values = isTraced ? undefined : valuesAtHand(indices)?.slice(position * parts, (position + 1) * parts);
    const what = values === undefined ? "indices" : `indices [${[...values].join(", ")}]`;
    return inWords(`${what} at position ${position} are outside ${formatShape(x.shape.slice(0, parts))}`, found);
  };
  return retold(name, says, body);
}

/** Options of {@link scatter}, {@link scatterNd} and {@link scatterAlongDim}. */
export interface ScatterOptions {
  /** What becomes of a held element and an update; updates come in order of position. Default `"replace"`. */
  readonly op?: ScatterOp;
}

function opOf(what: string, options: ScatterOptions): ScatterOp {
  checkOptions(what, options, ["op"]);
  const { op = "replace" } = options;
  checkScatterOp(what, op);
  return op;
}

/**
 * A copy of x in which rows are combined with `updates[i…, r…]` at `indices[i…]` (i32), from the end where negative.
 *
 * @throws HeddleError `value` from the run when an index lies outside.
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

/** {@link scatter} with `indices[i…, c]` into the first dims: a copy of x with `updates[i…, r…]` combined there. */
export const scatterNd = (x: Tensor, indices: Tensor, updates: Tensor, options: ScatterOptions = {}): Tensor =>
  placed("scatterNd", x, indices, () =>
    operate("scatterNd", scatterNdNode, [x, indices, updates], opOf("scatterNd", options)),
  );

/** PyTorch's scatter_reduce: updates go into their own line along a dim, where indices of the same shape say. */
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
