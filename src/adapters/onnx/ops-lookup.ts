/** @module ONNX ops that look elements up, or put them in places, by indices. */

import { HeddleError } from "../../extend/index.ts";
import * as h from "../../functions/index.ts";
import { type Tensor, toIndices } from "../../functions/index.ts";
import { type HostTensor, range, type Shape, sizeOf, stridesOf } from "../../ir/index.ts";
import { type NodeContext, type Result, type Rows, row } from "./context.ts";
import { hostInts, positions } from "./helpers.ts";
import { int64 } from "./tensors.ts";

const gather = (c: NodeContext): Tensor => h.take(c.x(), toIndices(c.x(1)), c.axis("axis", 0));

/** Indices in i32; negative ones count from the end. */
function fromStart(positions: Tensor, size: number): Tensor {
  const at = toIndices(positions);
  return h.select(at.lt(0), at.add(size), at);
}

/** Flat positions in a row-major array of `shape`, of indices along `axis` and the index's own position in the other dims. */
function flatPlaces(indices: Tensor, shape: Shape, axis: number): Tensor {
  const strides = stridesOf(shape);
  let flat = fromStart(indices, shape[axis] as number).mul(strides[axis] as number);
  indices.shape.forEach((size, dim) => {
    if (dim !== axis) flat = flat.add(positions(size, dim, shape.length).mul(strides[dim] as number));
  });
  return flat;
}

function gatherElements(c: NodeContext): Tensor {
  return h.take(c.x().reshape([-1]), flatPlaces(c.x(1), c.shape(), c.axis("axis", 0)), 0);
}

/** Indices of several dims (the last dim of `indices`) as positions in those dims, flattened. */
function joined(indices: Tensor, sizes: Shape): Tensor {
  const strides = stridesOf(sizes);
  const rank = indices.shape.length;
  const parts = sizes.map((size, part) => {
    const start = indices.shape.map((_size, dim) => (dim === rank - 1 ? part : 0));
    const limit = indices.shape.map((whole, dim) => (dim === rank - 1 ? part + 1 : whole));
    const dimIndices = indices.slice(start, limit).reshape(indices.shape.slice(0, -1));
    return fromStart(dimIndices, size).mul(strides[part] as number);
  });
  return parts.reduce((x, y) => x.add(y));
}

function gatherND(c: NodeContext): Tensor {
  const batch = c.int("batch_dims", 0);
  const [shape, depth] = [c.shape(), c.shape(1).at(-1) as number];
  const sizes = shape.slice(batch, batch + depth);
  const table = c.x().reshape([...shape.slice(0, batch), sizeOf(sizes), ...shape.slice(batch + depth)]);
  return h.gather(table, joined(c.x(1), sizes), batch);
}

/**
 * ONNX's names of how updates are combined with what is there; where several updates replace one position, the last one
 * stays.
 */
const reductions: { readonly [name: string]: h.ScatterOp } = {
  none: "replace",
  add: "sum",
  mul: "prod",
  max: "max",
  min: "min",
};

/** Rows of `x` combined with those of `updates`. */
function scatterRows(c: NodeContext, x: Tensor, indices: Tensor, updates: Tensor): Tensor {
  const reduction = c.string("reduction", "none");
  const op = Object.hasOwn(reductions, reduction) ? reductions[reduction] : undefined;
  if (op === undefined) throw new HeddleError("op", `reduction "${reduction}" is not imported`);
  return h.scatter(x, indices, updates, { op });
}

function scatterElements(c: NodeContext): Tensor {
  const flat = flatPlaces(c.x(1), c.shape(), c.axis("axis", 0)).reshape([-1]);
  return scatterRows(c, c.x().reshape([-1]), flat, c.x(2).reshape([-1])).reshape(c.shape());
}

function scatterND(c: NodeContext): Tensor {
  const depth = c.shape(1).at(-1) as number;
  const [sizes, rest] = [c.shape().slice(0, depth), c.shape().slice(depth)];
  const count = sizeOf(c.shape(1).slice(0, -1));
  const table = c.x().reshape([sizeOf(sizes), ...rest]);
  const updates = c.x(2).reshape([count, ...rest]);
  const own = joined(c.x(1), sizes).reshape([count]);
  return scatterRows(c, table, own, updates).reshape(c.shape());
}

function oneHot(c: NodeContext): Tensor {
  const depth = c.number(1);
  const rank = c.rank() + 1;
  const axis = c.axis("axis", -1, rank);
  const indices = fromStart(c.x(), depth);
  const shape = [...c.shape()];
  shape.splice(axis, 0, 1);
  const hot = indices.reshape(shape).eq(positions(depth, axis, rank));
  const values = c.x(2);
  return h.select(hot, values.slice([1], [2]).reshape([]), values.slice([0], [1]).reshape([]));
}

/** Elements where a known condition holds. */
function compress(c: NodeContext): Tensor {
  const chosen = c.numbers(1).flatMap((condition, index) => (condition === 0 ? [] : [index]));
  const [x, axis] = c.hasAttribute("axis") ? [c.x(), c.axis()] : [c.x().reshape([-1]), 0];
  return h.take(x, h.tensor(Int32Array.from(chosen), { shape: [chosen.length] }), axis);
}

/**
 * The k largest or smallest elements of a dim, in order, and their indices; of equal elements the first comes first.
 */
function topK(c: NodeContext): Result[] {
  const [axis, k] = [c.axis("axis", -1), c.hasAttribute("k") ? c.int("k") : c.number(1)];
  if (c.flag("largest", true)) {
    const { values, indices } = h.topK(c.x(), k, axis);
    return [values, indices.cast(int64)];
  }
  const own = positions(c.shape()[axis] as number, axis, c.rank()).broadcastTo(c.shape());
  const limit = c.shape().map((size, dim) => (dim === axis ? k : size));
  const [values, indices] = h.sortTogether([c.x(), own], axis).map((sorted) =>
    sorted.slice(
      limit.map(() => 0),
      limit,
    ),
  ) as [Tensor, Tensor];
  return [values, indices.cast(int64)];
}

/** The indices of a known tensor's elements other than 0, of shape `[rank, count]`. */
function nonZero(c: NodeContext): HostTensor {
  const strides = stridesOf(c.shape());
  const found = c.numbers(0).flatMap((value, position) => (value === 0 ? [] : [position]));
  const values = c
    .shape()
    .flatMap((size, dim) => found.map((position) => Math.floor(position / (strides[dim] as number)) % size));
  return hostInts(values, [c.rank(), found.length]);
}

/** A cache in which updates replace positions of a dim; each element of the batch has its own first position. */
function tensorScatter(c: NodeContext): Tensor {
  const axis = c.axis("axis", -2);
  const order = [0, axis, ...range(c.rank()).filter((dim) => dim !== 0 && dim !== axis)];
  const [size, count] = [c.shape()[axis] as number, c.shape(1)[axis] as number];
  const [cache, updates] = [c.x(0).transpose(order), c.x(1).transpose(order)];
  const start = c.has(2) ? c.x(2).cast("i32").reshape([-1, 1]) : h.zeros([c.shape()[0] as number, 1], { dtype: "i32" });
  const distance = positions(size, 1, 2).sub(start);
  const circular = c.string("mode", "linear") === "circular";
  const from = circular ? h.select(distance.lt(0), distance.add(size), distance) : distance;
  const rows = h.gather(updates, from.maximum(0).minimum(count - 1), 1);
  const replaced = h.and(from.ge(0), from.lt(count)).reshape([-1, size, ...order.slice(2).map(() => 1)]);
  return h.select(replaced, rows, cache).transpose(order.map((_dim, index) => order.indexOf(index)));
}

export const lookupRows: Rows = {
  Compress: row(9, compress),
  Gather: row(1, gather),
  GatherElements: row(11, gatherElements),
  GatherND: row(11, gatherND),
  NonZero: row(9, nonZero),
  OneHot: row(9, oneHot),
  Scatter: { since: 9, until: 10, build: scatterElements },
  ScatterElements: row(11, scatterElements),
  ScatterND: row(11, scatterND),
  TensorScatter: row(24, tensorScatter),
  TopK: row(1, topK),
};
