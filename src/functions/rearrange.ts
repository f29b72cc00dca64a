/** @module Moving, repeating, picking and combining elements of tensors, named as in NumPy and PyTorch. */

import { type DType, isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatShape, formatType, normalizeDim, range, type Shape } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { identityOf } from "../ops/reduce.ts";
import { checkDType, checkWhole, checkWide } from "../tensor/arguments.ts";
import { checkTensor, operate, type Tensor, type TensorLike } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { arange, type CreateOptions } from "./create.ts";
import { expandDim, padBorderNode, repeatNode, sliceDim, squeezeNode } from "./nodes.ts";
import type { Dims, WideOptions } from "./reductions.ts";
import { selected } from "./selected.ts";

const cumulative =
  (name: string, kind: ops.CumulativeKind) =>
  (x: Tensor, dim?: number): Tensor =>
    operate(name, (node: Node, at?: number) => ops.cumulative(kind, node, at), [x], dim);

/** A running sum or product, in a dtype that may be named. */
const wideCumulative =
  (name: string, kind: ops.CumulativeKind) =>
  (x: Tensor, dim?: number, options: WideOptions = {}): Tensor => {
    checkOptions(name, options, ["dtype"]);
    checkWide(name, options.dtype);
    const wide = (node: Node, at?: number, dtype?: DType): Node =>
      ops.cumulative(kind, dtype === undefined ? node : ops.cast(node, dtype), at);
    return operate(name, wide, [x], dim, options.dtype);
  };
type WideCumulative = (x: Tensor, dim?: number, options?: WideOptions) => Tensor;

function stackNode(inputs: readonly Node[], dim = 0): Node {
  return ops.concat(
    inputs.map((input) => expandDim(input, dim)),
    dim < 0 ? dim + (inputs[0]?.shape.length ?? 0) + 1 : dim,
  );
}

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

/** Column minus row of the last two dims, as i32. */
function offDiagonal(what: string, shape: Shape): Node {
  if (shape.length < 2) throw new HeddleError("shape", `${what}: needs at least two dims, got ${formatShape(shape)}`);
  const matrix = shape.slice(-2);
  const difference = ops.sub(ops.iota("i32", matrix, 1), ops.iota("i32", matrix, 0));
  return ops.broadcastTo(difference, shape);
}

const triuNode = (x: Node, k = 0): Node => ops.select(ops.ge(offDiagonal("triu", x.shape), k), x, ops.zerosLike(x));

const trilNode = (x: Node, k = 0): Node => ops.select(ops.le(offDiagonal("tril", x.shape), k), x, ops.zerosLike(x));

/** A square matrix with a vector as its diagonal `k`, zeros elsewhere. */
function diagonalMatrix(x: Node, k: number): Node {
  const zero = ops.constant(x.dtype, 0);
  const rows = ops.pad(x, zero, [Math.max(0, -k)], [Math.max(0, k)]);
  const size = rows.shape[0] as number;
  const wide = ops.broadcastInDim(rows, [size, size], [0]);
  return ops.select(ops.eq(offDiagonal("diag", wide.shape), k), wide, ops.zerosLike(wide));
}

function diagonalNode(x: Node, k = 0): Node {
  const [rows, columns] = x.shape.slice(-2) as [number, number];
  if (x.shape.length < 2) throw new HeddleError("shape", `diagonal: needs at least two dims, got ${formatType(x)}`);
  const size = Math.max(0, Math.min(k < 0 ? rows + k : rows, k < 0 ? columns : columns - k));
  const lead = x.shape.slice(0, -2);
  const flat = ops.reshape(x, [...lead, rows * columns]);
  const start = size === 0 ? 0 : k < 0 ? -k * columns : k;
  const zeros = lead.map(() => 0);
  const end = size === 0 ? 0 : start + (size - 1) * (columns + 1) + 1;
  return ops.slice(flat, [...zeros, start], [...lead, end], [...lead.map(() => 1), columns + 1]);
}

function diagNode(x: Node, k = 0): Node {
  if (x.shape.length === 1) return diagonalMatrix(x, k);
  if (x.shape.length === 2) return diagonalNode(x, k);
  throw new HeddleError("shape", `diag: takes a vector or a matrix, got ${formatType(x)}`);
}

/** Combines the rows of each segment; `segments` (i32) says of which one each row is. */
function segment(op: "sum" | "prod" | "max" | "min", x: Node, segments: Node, count: number): Node {
  const shape = [count, ...x.shape.slice(segments.shape.length)];
  if (op === "sum") return ops.scatterAdd(x, segments, count);
  return ops.scatter(op, ops.full(x.dtype, shape, identityOf(op, x.dtype)), segments, x);
}

function segmentMeanNode(x: Node, segments: Node, count: number): Node {
  const value = isFloat(x.dtype) ? x : ops.cast(x, "f32");
  const rows = ops.scatterAdd(ops.full(value.dtype, segments.shape, 1), segments, count);
  const sums = ops.scatterAdd(value, segments, count);
  return ops.div(sums, ops.broadcastInDim(rows, sums.shape, [0]));
}

/** `x[…]` along dim 0 of one of several coordinate vectors, over the grid of all of them. */
function gridOf(vectors: readonly Node[], at: number, order: readonly number[]): Node {
  const shape = order.map((vector) => vectors[vector]?.shape[0] as number);
  return ops.broadcastInDim(vectors[at] as Node, shape, [order.indexOf(at)]);
}

/**
 * Sum of the elements up to and including each one, along a dim (default the last), in the same shape and dtype; integers
 * wrap, or are added in `{ dtype }`; bool is counted in i32.
 */
export const cumsum: WideCumulative = wideCumulative("cumsum", "sum");
/**
 * Product of the elements up to and including each one, along a dim (default the last); integers wrap, or are multiplied in
 * `{ dtype }`; bool gives i32.
 */
export const cumprod: WideCumulative = wideCumulative("cumprod", "prod");
/** Largest of the elements up to and including each one; NaN stays; the first of ties takes the gradient. */
export const cummax: (x: Tensor, dim?: number) => Tensor = cumulative("cummax", "max");
/** Smallest of the elements up to and including each one; NaN stays; the first of ties takes the gradient. */
export const cummin: (x: Tensor, dim?: number) => Tensor = cumulative("cummin", "min");
/** log of the sum of exp of the elements up to and including each one, without overflow. */
export const logcumsumexp: (x: Tensor, dim?: number) => Tensor = cumulative("logcumsumexp", "logSumExp");

/** `condition ? onTrue : onFalse`, elementwise, with broadcasting: NumPy's name of {@link select}. */
export const where = (condition: Tensor, onTrue: TensorLike, onFalse: TensorLike): Tensor =>
  selected("where", condition, onTrue, onFalse);

const segmentOf =
  (name: string, build: (x: Node, segments: Node, count: number) => Node) =>
  (x: Tensor, segments: Tensor, count: number): Tensor => {
    checkInteger(name, "count", count, 0);
    return operate(name, build, [x, segments], count);
  };
type Segment = (x: Tensor, segments: Tensor, count: number) => Tensor;

/** Sums of the rows of each of `count` segments; `segments` (i32) says of which one each row is. An empty one gives 0. */
export const segmentSum: Segment = segmentOf("segmentSum", (x, at, count) => segment("sum", x, at, count));
/** Largest of the rows of each segment; an empty one gives -inf, or the lowest integer. Ties share the gradient. */
export const segmentMax: Segment = segmentOf("segmentMax", (x, at, count) => segment("max", x, at, count));
/** Smallest of the rows of each segment; an empty one gives inf, or the highest integer. Ties share the gradient. */
export const segmentMin: Segment = segmentOf("segmentMin", (x, at, count) => segment("min", x, at, count));
/** Product of the rows of each segment; an empty one gives 1. */
export const segmentProd: Segment = segmentOf("segmentProd", (x, at, count) => segment("prod", x, at, count));
/** Mean of the rows of each segment; an empty one gives NaN. */
export const segmentMean: Segment = segmentOf("segmentMean", segmentMeanNode);

/** Elements move `shift` places on along a dim, and those that leave come in at the other end. */
export const roll = (x: Tensor, shift: number, dim = -1): Tensor => operate("roll", rollNode, [x], shift, dim);
/** NumPy's tile, PyTorch's repeat: the whole tensor `counts[dim]` times along each dim. */
export function tile(x: Tensor, counts: readonly number[]): Tensor {
  checkWhole("tile", "counts", counts);
  return operate("tile", tileNode, [x], counts);
}
/** NumPy's repeat, PyTorch's repeat_interleave: each element `count` times along a dim. */
export function repeat(x: Tensor, count: number, dim = -1): Tensor {
  checkInteger("repeat", "count", count, 0);
  return operate("repeat", repeatNode, [x], count, dim);
}
/** Tensors of one shape side by side along a new dim. */
export function stack(inputs: readonly Tensor[], dim = 0): Tensor {
  if (!Array.isArray(inputs) || inputs.length === 0)
    throw new HeddleError("argument", `stack: takes an array of at least one tensor, got ${shown(inputs)}`);
  const build = (...given: (Node | number)[]): Node => stackNode(given.slice(0, -1) as Node[], given.at(-1) as number);
  return operate("stack", build, inputs, dim);
}
/** The slices along a dim, which goes. */
export function unstack(x: Tensor, dim = 0): Tensor[] {
  checkTensor("unstack", x);
  const at = normalizeDim(dim, x.shape.length, "unstack");
  return range(x.shape[at] as number).map((index) => operate("unstack", pickNode, [x], at, index));
}
/**
 * Slice `index` along a dim (default the last), which goes: NumPy's `x[..., index]`, PyTorch's `x.select(dim, index)`. From the end
 * for a negative index.
 *
 * @throws HeddleError `shape` when there is no such slice.
 */
export function pick(x: Tensor, index: number, dim = -1): Tensor {
  checkTensor("pick", x);
  checkInteger("pick", "index", index, -Number.MAX_SAFE_INTEGER);
  const at = normalizeDim(dim, x.shape.length, "pick");
  const size = x.shape[at] as number;
  const place = index < 0 ? index + size : index;
  if (place < 0 || place >= size)
    throw new HeddleError(
      "shape",
      `pick: index ${index} is not in [${-size}, ${size - 1}], dim ${at} of ${formatType(x)}`,
    );
  return operate("pick", pickNode, [x], at, place);
}

const pickNode = (node: Node, at: number, index: number): Node => squeezeNode(sliceDim(node, at, index, index + 1), at);

/** Parts along a dim: of these sizes, or of one size, the last being what is left. */
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
/** A dim of size 1 before dim `dim` of the result: PyTorch's unsqueeze. */
export const expandDims = (x: Tensor, dim: number): Tensor => operate("expandDims", expandDim, [x], dim);
/** Without a dim of size 1, or without all of them. */
export const squeeze = (x: Tensor, dim?: number): Tensor => operate("squeeze", squeezeNode, [x], dim);
/** A dim moved to another place; the others keep their order. */
export const moveDim = (x: Tensor, from: number, to: number): Tensor =>
  operate(
    "moveDim",
    (node: Node, a: number, b: number) =>
      ops.moveDim(node, normalizeDim(a, node.shape.length, "moveDim"), normalizeDim(b, node.shape.length, "moveDim")),
    [x],
    from,
    to,
  );
/** The order of elements turned around along dims (default all): NumPy's name of {@link reverse}. */
export const flip = (x: Tensor, dims?: Dims): Tensor =>
  operate(
    "flip",
    (node: Node, over?: Dims) => ops.reverse(node, ops.resolveDims("flip", over, node.shape.length)),
    [x],
    dims,
  );

/** Zeros below diagonal `k` of the last two dims. */
export const triu = (x: Tensor, k = 0): Tensor => operate("triu", triuNode, [x], k);
/** Zeros above diagonal `k` of the last two dims. */
export const tril = (x: Tensor, k = 0): Tensor => operate("tril", trilNode, [x], k);
/** The matrix with a vector as its diagonal `k`, or diagonal `k` of a matrix. */
export const diag = (x: Tensor, k = 0): Tensor => operate("diag", diagNode, [x], k);
/** Diagonal `k` of the last two dims. */
export const diagonal = (x: Tensor, k = 0): Tensor => operate("diagonal", diagonalNode, [x], k);
/**
 * The identity matrix: ones on the diagonal, zeros elsewhere; f32 by default.
 *
 * @param columns default: as many as rows
 * @throws HeddleError `option` for a size that is none, and for an unknown option
 */
export function eye(rows: number, columns?: number | CreateOptions, options: CreateOptions = {}): Tensor {
  const given = typeof columns === "object" ? columns : options;
  const wide = typeof columns === "object" ? rows : (columns ?? rows);
  checkOptions("eye", given, ["dtype"]);
  const { dtype = "f32" } = given;
  checkDType("eye", dtype);
  checkInteger("eye", "rows", rows, 0);
  checkInteger("eye", "columns", wide, 0);
  return arange(rows).reshape([rows, 1]).eq(arange(wide)).cast(dtype);
}

/** Options of {@link meshgrid}. */
export interface MeshgridOptions {
  /** `"ij"` (default): dim i follows vector i; `"xy"`: the first two change places, as NumPy's default. */
  readonly indexing?: "ij" | "xy";
}

/** The coordinates of a grid: for each vector a tensor of the grid's shape. */
export function meshgrid(vectors: readonly Tensor[], options: MeshgridOptions = {}): Tensor[] {
  checkOptions("meshgrid", options, ["indexing"]);
  if (!Array.isArray(vectors) || vectors.some((vector) => vector?.shape?.length !== 1))
    throw new HeddleError("argument", `meshgrid: takes an array of vectors, got ${shown(vectors)}`);
  const { indexing = "ij" } = options;
  if (indexing !== "ij" && indexing !== "xy")
    throw new HeddleError("option", `meshgrid: indexing is ${shown(indexing)}`, { hint: 'it can be "ij" or "xy"' });
  const order = range(vectors.length);
  if (indexing === "xy" && order.length > 1) order.splice(0, 2, 1, 0);
  return vectors.map((_vector, at) =>
    operate(
      "meshgrid",
      (...given: (Node | number | readonly number[])[]) =>
        gridOf(given.slice(0, -2) as Node[], given.at(-2) as number, given.at(-1) as readonly number[]),
      vectors,
      at,
      order,
    ),
  );
}

/** A border of `amounts[dim] = [low, high]` elements taken from the tensor: mirrored, the nearest, or from the other side. */
export const padBorder = (
  x: Tensor,
  amounts: readonly (readonly [number, number])[],
  mode: "reflect" | "replicate" | "circular",
): Tensor => operate("padBorder", padBorderNode, [x], amounts, mode);
