/** @module ONNX ops on shapes, and on the positions of elements. */

import { HeddleError } from "../../extend/index.ts";
import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import {
  broadcastShapes,
  type DType,
  dtypes,
  formatShape,
  type HostTensor,
  range,
  type Shape,
  sizeOf,
} from "../../ir/index.ts";
import { type NodeContext, type Rows, row } from "./context.ts";
import { hostInts, indexTensor, moved, positions } from "./helpers.ts";
import { dtypeOfCode, int64 } from "./tensors.ts";

/** Part of the shape as a known value. */
function shapeOf(c: NodeContext): HostTensor {
  const rank = c.rank();
  const clamp = (index: number): number => Math.max(0, Math.min(rank, index < 0 ? index + rank : index));
  return hostInts(c.shape().slice(clamp(c.int("start", 0)), clamp(c.int("end", rank))));
}

function reshape(c: NodeContext): Tensor {
  const keep = !c.flag("allowzero", false);
  return c.x().reshape(c.numbers(1).map((size, dim) => (size === 0 && keep ? (c.shape()[dim] as number) : size)));
}

function flatten(c: NodeContext): Tensor {
  const axis = c.int("axis", 1);
  const at = axis < 0 ? axis + c.rank() : axis;
  return c.x().reshape([sizeOf(c.shape().slice(0, at)), sizeOf(c.shape().slice(at))]);
}

function squeeze(c: NodeContext): Tensor {
  const listed = c.listed(1, "axes");
  const axes = listed === undefined ? range(c.rank()).filter((dim) => c.shape()[dim] === 1) : c.dims(listed);
  const wrong = axes.find((dim) => c.shape()[dim] !== 1);
  if (wrong !== undefined) throw new HeddleError("shape", `dim ${wrong} of ${formatShape(c.shape())} is not of size 1`);
  return c.x().reshape(c.shape().filter((_size, dim) => !axes.includes(dim)));
}

function unsqueeze(c: NodeContext): Tensor {
  const listed = c.list(1, "axes");
  const rank = c.rank() + listed.length;
  const axes = c.dims(listed, rank);
  let next = 0;
  return c.x().reshape(range(rank).map((dim) => (axes.includes(dim) ? 1 : (c.shape()[next++] as number))));
}

/** Which elements of a dim a slice takes, as ONNX clamps its ends. */
function bounds(size: number, start: number, end: number, step: number): { start: number; count: number } {
  const clamp = (index: number, low: number, high: number): number =>
    Math.max(low, Math.min(high, index < 0 ? index + size : index));
  if (step > 0) {
    const from = clamp(start, 0, size);
    return { start: from, count: Math.max(0, Math.ceil((clamp(end, 0, size) - from) / step)) };
  }
  const from = clamp(start, 0, size - 1);
  return { start: from, count: Math.max(0, Math.ceil((clamp(end, -1, size - 1) - from) / step)) };
}

function slice(c: NodeContext): Tensor {
  const [starts, ends] = [c.list(1, "starts"), c.list(2, "ends")];
  const axes = c.dims(c.listed(3, "axes") ?? range(starts.length));
  const steps = c.optionalNumbers(4) ?? starts.map(() => 1);
  const [from, to, by] = [c.shape().map(() => 0), [...c.shape()], c.shape().map(() => 1)];
  const reversed: number[] = [];
  axes.forEach((dim, index) => {
    const [size, step] = [c.shape()[dim] as number, steps[index] as number];
    if (step === 0) throw new HeddleError("value", "a step of 0");
    const { start, count } = bounds(size, starts[index] as number, ends[index] as number, step);
    const last = start + (count - 1) * step;
    if (count === 0) [from[dim], to[dim]] = [0, 0];
    else [from[dim], to[dim]] = step > 0 ? [start, last + 1] : [last, start + 1];
    // A step beyond the size takes one element, however large it is.
    by[dim] = Math.min(Math.abs(step), Math.max(1, size));
    if (step < 0) reversed.push(dim);
  });
  const part = c.x().slice(from, to, by);
  return reversed.length === 0 ? part : h.reverse(part, reversed);
}

function split(c: NodeContext): Tensor[] {
  const axis = c.axis("axis", 0);
  const size = c.shape()[axis] as number;
  const parts = c.hasAttribute("num_outputs") ? c.int("num_outputs") : c.results;
  const each = Math.ceil(size / parts);
  const sizes = c.listed(1, "split") ?? range(parts).map((part) => Math.min(each, size - part * each));
  let start = 0;
  return sizes.map((length) => {
    const from = c.shape().map((_size, dim) => (dim === axis ? start : 0));
    start += length;
    return c.x().slice(
      from,
      c.shape().map((whole, dim) => (dim === axis ? start : whole)),
    );
  });
}

/** The input positions that fill a padded dim in modes other than constant. */
function padded(mode: string, size: number, low: number, high: number): number[] {
  return range(Math.max(0, size + low + high)).map((position) => {
    const at = position - low;
    if (mode === "edge") return Math.max(0, Math.min(size - 1, at));
    const period = mode === "wrap" ? size : Math.max(1, 2 * (size - 1));
    const within = ((at % period) + period) % period;
    return within < size ? within : period - within;
  });
}

function pad(c: NodeContext): Tensor {
  const pads = c.list(1, "pads");
  const axes = c.has(3) ? c.dims(c.numbers(3)) : range(c.rank());
  const amounts = c.shape().map((): [number, number] => [0, 0]);
  axes.forEach((dim, index) => {
    amounts[dim] = [pads[index] as number, pads[index + axes.length] as number];
  });
  const mode = c.string("mode", "constant");
  if (mode !== "constant") {
    return amounts.reduce((x, [low, high], dim) => {
      if (low === 0 && high === 0) return x;
      return h.take(x, indexTensor(padded(mode, c.shape()[dim] as number, low, high)), dim);
    }, c.x());
  }
  if (!c.has(2)) return h.pad(c.x(), amounts, c.float("value", 0));
  const { host, tensor } = c.value(2);
  if (host !== undefined) return h.pad(c.x(), amounts, host.data[0] as number);
  // A computed value fills the positions that are not inside.
  const inside = h.pad(h.ones(c.shape(), { dtype: "bool" }), amounts);
  return h.select(inside, h.pad(c.x(), amounts), tensor.reshape([]));
}

function expand(c: NodeContext): Tensor {
  const wanted = broadcastShapes(c.shape(), c.numbers(1));
  if (wanted === undefined)
    throw new HeddleError("shape", `${formatShape(c.shape())} does not broadcast with ${formatShape(c.numbers(1))}`);
  return c.x().broadcastTo(wanted);
}

function tile(c: NodeContext): Tensor {
  const [repeats, shape] = [c.numbers(1), c.shape()];
  const split = c.x().reshape(shape.flatMap((size) => [1, size]));
  return split
    .broadcastTo(shape.flatMap((size, dim) => [repeats[dim] as number, size]))
    .reshape(shape.map((size, dim) => size * (repeats[dim] as number)));
}

function constant(c: NodeContext): HostTensor {
  const f32 = (values: readonly number[], shape: Shape): HostTensor => ({
    dtype: "f32",
    shape,
    data: Float32Array.from(values),
  });
  if (c.hasAttribute("value")) return c.tensor("value");
  if (c.hasAttribute("sparse_value")) return c.sparseTensor("sparse_value");
  if (c.hasAttribute("value_float")) return f32([c.float("value_float")], []);
  if (c.hasAttribute("value_int")) return hostInts([c.int("value_int")], []);
  if (c.hasAttribute("value_floats")) return f32(c.floats("value_floats"), [c.floats("value_floats").length]);
  if (c.hasAttribute("value_ints")) return hostInts(c.ints("value_ints"));
  throw new HeddleError("dtype", "a constant of strings, for which Heddle has no dtype");
}

function constantOfShape(c: NodeContext): Tensor {
  const value = c.hasAttribute("value") ? c.tensor("value") : undefined;
  if (value === undefined) return h.zeros(c.numbers(0));
  return h.full(c.numbers(0), Number(value.data[0]), { dtype: value.dtype });
}

/** The most numbers of a range that are made while a model is applied. */
const mostNumbers = 2 ** 24;

function numbersIn(c: NodeContext): HostTensor {
  const [start, limit, delta] = [c.number(0), c.number(1), c.number(2)];
  const count = Math.max(0, Math.ceil((limit - start) / delta));
  if (!(count <= mostNumbers))
    throw new HeddleError(
      "value",
      `from ${start} to ${limit} by ${delta} there are ${count} numbers; at most ${mostNumbers} are made`,
    );
  const values = range(count).map((index) => start + index * delta);
  const dtype = c.dtype();
  return dtype === int64 ? hostInts(values) : { dtype, shape: [count], data: dtypes[dtype].create(values) };
}

function eyeLike(c: NodeContext): Tensor {
  const dtype: DType = c.hasAttribute("dtype") ? dtypeOfCode(c.int("dtype"), "EyeLike") : c.dtype();
  const [rows, columns] = c.shape() as [number, number];
  return positions(rows, 0, 2)
    .add(c.int("k", 0))
    .eq(positions(columns, 1, 2))
    .cast(dtype);
}

function trilu(c: NodeContext): Tensor {
  const [x, k, rank] = [c.x(), c.number(1, 0), c.rank()];
  const row = positions(c.shape()[rank - 2] as number, rank - 2, rank).add(Math.max(-(2 ** 30), Math.min(2 ** 30, k)));
  const column = positions(c.shape()[rank - 1] as number, rank - 1, rank);
  const mask = c.flag("upper", true) ? column.ge(row) : column.le(row);
  if (x.dtype === "bool") return h.and(x, mask);
  return h.select(mask, x, h.zerosLike(x));
}

function depthToSpace(c: NodeContext): Tensor {
  const [batch, depth, height, width] = c.shape() as [number, number, number, number];
  const block = c.int("blocksize");
  const channels = depth / block ** 2;
  const byColumn = c.string("mode", "DCR") === "CRD";
  const [sizes, order] = byColumn
    ? [
        [batch, channels, block, block, height, width],
        [0, 1, 4, 2, 5, 3],
      ]
    : [
        [batch, block, block, channels, height, width],
        [0, 3, 4, 1, 5, 2],
      ];
  return c
    .x()
    .reshape(sizes as number[])
    .transpose(order as number[])
    .reshape([batch, channels, height * block, width * block]);
}

function spaceToDepth(c: NodeContext): Tensor {
  const [batch, channels, height, width] = c.shape() as [number, number, number, number];
  const block = c.int("blocksize");
  const [rows, columns] = [height / block, width / block];
  return c
    .x()
    .reshape([batch, channels, rows, block, columns, block])
    .transpose(c.string("mode", "DCR") === "CRD" ? [0, 1, 3, 5, 2, 4] : [0, 3, 5, 1, 2, 4])
    .reshape([batch, channels * block ** 2, rows, columns]);
}

/** The first elements of a dim reversed, for each element of the batch as many as its length says. */
function reverseSequence(c: NodeContext): Tensor {
  const [batchAxis, timeAxis] = [c.int("batch_axis", 1), c.int("time_axis", 0)];
  const steps = c.shape()[timeAxis] as number;
  const toFront = moved(c.rank(), batchAxis, 0);
  const order = toFront.indexOf(timeAxis) === 1 ? toFront : [batchAxis, timeAxis, ...range(c.rank()).slice(2)];
  const lengths = c.x(1).cast("i32").reshape([-1, 1]);
  const position = positions(steps, 1, 2);
  const from = h.select(position.lt(lengths), lengths.sub(position).sub(1), position);
  const rows = h.gather(c.x().transpose(order), from, 1);
  return rows.transpose(order.map((_dim, index) => order.indexOf(index)));
}

export const shapeRows: Rows = {
  Concat: row(4, (c) => h.concat(c.all(), c.axis())),
  Constant: row(1, constant),
  ConstantOfShape: row(9, constantOfShape),
  DepthToSpace: row(1, depthToSpace),
  Expand: row(8, expand),
  EyeLike: row(9, eyeLike),
  Flatten: row(1, flatten),
  Pad: row(2, pad),
  Range: row(11, numbersIn),
  Reshape: row(5, reshape),
  ReverseSequence: row(10, reverseSequence),
  Shape: row(1, shapeOf),
  Size: row(1, (c) => hostInts([sizeOf(c.shape())], [])),
  Slice: row(1, slice),
  SpaceToDepth: row(1, spaceToDepth),
  Split: row(2, split),
  Squeeze: row(1, squeeze),
  Tile: row(6, tile),
  Transpose: row(1, (c) => c.x().transpose(c.ints("perm", range(c.rank()).reverse()))),
  Trilu: row(14, trilu),
  Unsqueeze: row(1, unsqueeze),
};
