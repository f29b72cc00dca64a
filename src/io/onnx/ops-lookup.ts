/** @module ONNX ops that look elements up, or put them in places, by indices. */
import type { Node } from "../../ir/node.ts";
import { type Shape, sizeOf, stridesOf } from "../../ir/shape.ts";
import * as ops from "../../ops/index.ts";
import type { Tensor } from "../../tensor/index.ts";
import * as h from "../../tensor/index.ts";
import { operate } from "../../tensor/tensor.ts";
import { HeddleError } from "../../util/errors.ts";
import { type NodeContext, type Rows, row } from "./context.ts";
import { fromStart, positions } from "./helpers.ts";

function gather(c: NodeContext): Tensor {
  const axis = c.axis("axis", 0);
  return h.take(c.x(), fromStart(c.x(1), c.shape()[axis] as number), axis);
}

/** Flat places in a row-major array of `shape`, of indices along `axis` and the index's own position in the other dims. */
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

/** Indices of several dims (the last dim of `indices`) as places in those dims, flattened. */
function joined(indices: Tensor, sizes: Shape): Tensor {
  const strides = stridesOf(sizes);
  const rank = indices.shape.length;
  const parts = sizes.map((size, part) => {
    const start = indices.shape.map((_size, dim) => (dim === rank - 1 ? part : 0));
    const limit = indices.shape.map((whole, dim) => (dim === rank - 1 ? part + 1 : whole));
    const one = indices.slice(start, limit).reshape(indices.shape.slice(0, -1));
    return fromStart(one, size).mul(strides[part] as number);
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

/** Adds rows into zeros, at indices of the first dim. */
const scatterAdd = (updates: Tensor, indices: Tensor, size: number): Tensor =>
  operate("scatterAdd", (x: Node, at: Node, rows: number) => ops.scatterAdd(x, at, rows), [updates, indices], size);

/** Rows of `x` replaced by, or added to, those of `updates`; of several for one row none is defined to win. */
function scatterRows(x: Tensor, indices: Tensor, updates: Tensor, reduction: string): Tensor {
  const size = x.shape[0] as number;
  const sums = scatterAdd(updates, indices, size);
  if (reduction === "add") return x.add(sums);
  if (reduction !== "none") throw new HeddleError("op", `reduction "${reduction}" is not imported`);
  const touched = scatterAdd(h.ones(indices.shape), indices, size).gt(0);
  return h.select(touched.reshape([size, ...x.shape.slice(1).map(() => 1)]), sums, x);
}

function scatterElements(c: NodeContext): Tensor {
  const flat = flatPlaces(c.x(1), c.shape(), c.axis("axis", 0)).reshape([-1]);
  return scatterRows(c.x().reshape([-1]), flat, c.x(2).reshape([-1]), c.string("reduction", "none")).reshape(c.shape());
}

function scatterND(c: NodeContext): Tensor {
  const depth = c.shape(1).at(-1) as number;
  const [sizes, rest] = [c.shape().slice(0, depth), c.shape().slice(depth)];
  const count = sizeOf(c.shape(1).slice(0, -1));
  const table = c.x().reshape([sizeOf(sizes), ...rest]);
  const updates = c.x(2).reshape([count, ...rest]);
  const places = joined(c.x(1), sizes).reshape([count]);
  return scatterRows(table, places, updates, c.string("reduction", "none")).reshape(c.shape());
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
  const kept = c.numbers(1).flatMap((condition, index) => (condition === 0 ? [] : [index]));
  const [x, axis] = c.hasAttribute("axis") ? [c.x(), c.axis()] : [c.x().reshape([-1]), 0];
  return h.take(x, h.tensor(Int32Array.from(kept), { shape: [kept.length] }), axis);
}

export const lookupRows: Rows = {
  Compress: row(9, compress),
  Gather: row(1, gather),
  GatherElements: row(11, gatherElements),
  GatherND: row(11, gatherND),
  OneHot: row(9, oneHot),
  ScatterElements: row(11, scatterElements),
  ScatterND: row(11, scatterND),
};
