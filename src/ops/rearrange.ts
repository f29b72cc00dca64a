/** @module Conveniences that move, repeat and pick elements, composed of ops; all over nodes, named as in NumPy and PyTorch. */
import { isFloat } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatShape, formatType, normalizeDim, range, type Shape, sizeOf, stridesOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { identityOf } from "./reduce.ts";

/** Elements `from` to before `to` of a dim. */
export function sliceDim(x: Node, dim: number, from: number, to: number): Node {
  const start = x.shape.map((_size, other) => (other === dim ? from : 0));
  return emit.slice(
    x,
    start,
    x.shape.map((size, other) => (other === dim ? to : size)),
  );
}

/** A place counted from the end where it is negative; what is before the first element stays as it was given. */
export const fromEnd = (place: number, size: number): number => (place < 0 && place >= -size ? place + size : place);

/** i32 indices counted from the end where they are negative; of another dtype, which no lookup takes, as they are. */
export const wrapped = (indices: Node, size: number): Node =>
  indices.dtype === "i32" ? emit.select(emit.lt(indices, 0), emit.add(indices, size), indices) : indices;

/** A slice whose starts and limits may be counted from the end. */
export function sliceFromEnd(
  x: Node,
  start: readonly number[],
  limit: readonly number[],
  stride?: readonly number[],
): Node {
  const counted = (places: readonly number[]): number[] =>
    places.map((place, dim) => fromEnd(place, x.shape[dim] ?? 0));
  return emit.slice(x, counted(start), counted(limit), stride);
}

/** A dim of size 1 before `dim` of the result. */
export function expandDim(x: Node, dim: number): Node {
  const at = normalizeDim(dim, x.shape.length + 1, "expandDims");
  return emit.reshape(x, [...x.shape.slice(0, at), 1, ...x.shape.slice(at)]);
}

/** Without one dim of size 1, or without all. */
export function squeeze(x: Node, dim?: number): Node {
  const at = dim === undefined ? undefined : normalizeDim(dim, x.shape.length, "squeeze");
  if (at !== undefined && x.shape[at] !== 1)
    throw new HeddleError("shape", `squeeze: dim ${dim} of ${formatType(x)} is not of size 1`);
  return emit.reshape(
    x,
    x.shape.filter((size, other) => (at === undefined ? size !== 1 : other !== at)),
  );
}

/** Tensors of one shape side by side along a new dim. */
export function stack(inputs: readonly Node[], dim = 0): Node {
  return emit.concat(
    inputs.map((input) => expandDim(input, dim)),
    dim < 0 ? dim + (inputs[0]?.shape.length ?? 0) + 1 : dim,
  );
}

/** Elements move `shift` places on along a dim, and those that leave come in at the other end. */
export function roll(x: Node, shift: number, dim: number): Node {
  const at = normalizeDim(dim, x.shape.length, "roll");
  const size = x.shape[at] as number;
  const by = size === 0 ? 0 : ((shift % size) + size) % size;
  if (by === 0) return x;
  return emit.concat([sliceDim(x, at, size - by, size), sliceDim(x, at, 0, size - by)], at);
}

/** The whole tensor `counts[dim]` times along each dim; missing counts come first and are 1, missing dims too. */
export function tile(x: Node, counts: readonly number[]): Node {
  const rank = Math.max(counts.length, x.shape.length);
  const full = <T>(list: readonly T[], neutral: T): T[] => [...new Array<T>(rank - list.length).fill(neutral), ...list];
  const [shape, times] = [full(x.shape, 1), full(counts, 1)];
  const wide = shape.flatMap((size, dim) => [times[dim] as number, size]);
  const from = emit.reshape(
    x,
    shape.flatMap((size) => [1, size]),
  );
  return emit.reshape(
    emit.broadcastTo(from, wide),
    shape.map((size, dim) => size * (times[dim] as number)),
  );
}

/** Each element `count` times, one after another, along a dim. */
export function repeat(x: Node, count: number, dim: number): Node {
  const at = normalizeDim(dim, x.shape.length, "repeat");
  const wide = expandDim(x, at + 1);
  const shape = wide.shape.map((size, other) => (other === at + 1 ? count : size));
  return emit.reshape(
    emit.broadcastTo(wide, shape),
    x.shape.map((size, other) => (other === at ? size * count : size)),
  );
}

/** Column minus row of the last two dims, as i32. */
function offDiagonal(what: string, shape: Shape): Node {
  if (shape.length < 2) throw new HeddleError("shape", `${what}: needs at least two dims, got ${formatShape(shape)}`);
  const matrix = shape.slice(-2);
  const difference = emit.sub(emit.iota("i32", matrix, 1), emit.iota("i32", matrix, 0));
  return emit.broadcastTo(difference, shape);
}

/** Zeros below diagonal `k` of each matrix. */
export const triu = (x: Node, k = 0): Node =>
  emit.select(emit.ge(offDiagonal("triu", x.shape), k), x, emit.zerosLike(x));

/** Zeros above diagonal `k` of each matrix. */
export const tril = (x: Node, k = 0): Node =>
  emit.select(emit.le(offDiagonal("tril", x.shape), k), x, emit.zerosLike(x));

/** A square matrix with a vector as its diagonal `k`, zeros elsewhere. */
function diagonalMatrix(x: Node, k: number): Node {
  const zero = emit.constant(x.dtype, 0);
  const rows = emit.pad(x, zero, [Math.max(0, -k)], [Math.max(0, k)]);
  const size = rows.shape[0] as number;
  const wide = emit.broadcastInDim(rows, [size, size], [0]);
  return emit.select(emit.eq(offDiagonal("diag", wide.shape), k), wide, emit.zerosLike(wide));
}

/** Diagonal `k` of the last two dims. */
export function diagonal(x: Node, k = 0): Node {
  const [rows, columns] = x.shape.slice(-2) as [number, number];
  if (x.shape.length < 2) throw new HeddleError("shape", `diagonal: needs at least two dims, got ${formatType(x)}`);
  const size = Math.max(0, Math.min(k < 0 ? rows + k : rows, k < 0 ? columns : columns - k));
  const lead = x.shape.slice(0, -2);
  const flat = emit.reshape(x, [...lead, rows * columns]);
  const start = size === 0 ? 0 : k < 0 ? -k * columns : k;
  const zeros = lead.map(() => 0);
  const end = size === 0 ? 0 : start + (size - 1) * (columns + 1) + 1;
  return emit.slice(flat, [...zeros, start], [...lead, end], [...lead.map(() => 1), columns + 1]);
}

/** NumPy's diag: the matrix of a vector, or the diagonal of a matrix. */
export function diag(x: Node, k = 0): Node {
  if (x.shape.length === 1) return diagonalMatrix(x, k);
  if (x.shape.length === 2) return diagonal(x, k);
  throw new HeddleError("shape", `diag: takes a vector or a matrix, got ${formatType(x)}`);
}

/** How a border is filled from the tensor itself. */
export type BorderMode = "reflect" | "replicate" | "circular";

/** A border of `amounts[dim] = [low, high]` elements that are the tensor's own. */
export function padBorder(x: Node, amounts: readonly (readonly [number, number])[], mode: BorderMode): Node {
  return amounts.reduce((y, [low, high], dim) => {
    const size = y.shape[dim] as number;
    if (low === 0 && high === 0) return y;
    const most = mode === "replicate" ? Infinity : mode === "circular" ? size : size - 1;
    if (low < 0 || high < 0 || low > most || high > most || size === 0)
      throw new HeddleError("shape", `pad ${mode}: [${low}, ${high}] does not fit dim ${dim} of ${formatType(y)}`);
    const part = (from: number, to: number): Node => sliceDim(y, dim, from, to);
    const reversed = (from: number, to: number): Node => emit.reverse(part(from, to), [dim]);
    const [before, after] = {
      reflect: () => [reversed(1, low + 1), reversed(size - 1 - high, size - 1)],
      replicate: () => [repeat(part(0, 1), low, dim), repeat(part(size - 1, size), high, dim)],
      circular: () => [part(size - low, size), part(0, high)],
    }[mode]() as [Node, Node];
    return emit.concat(
      [before, y, after].filter((piece) => piece.shape[dim] !== 0),
      dim,
    );
  }, x);
}

/** Index (i32) of the smallest element along a dim: the first of ties; the first NaN. */
export function argMin(x: Node, dim = -1): Node {
  // The bits of integers turned around turn their order around, where their negatives may not exist.
  return emit.argMax(isFloat(x.dtype) ? emit.neg(x) : emit.not(x), dim);
}

/** Whether all elements along dims are true. */
export const all = (x: Node, dims?: emit.Dims, options?: { keepDims?: boolean }): Node =>
  emit.reduce("and", emit.cast(x, "bool"), dims, options);

/** Whether any element along dims is true. */
export const any = (x: Node, dims?: emit.Dims, options?: { keepDims?: boolean }): Node =>
  emit.reduce("or", emit.cast(x, "bool"), dims, options);

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
  const part = (at: number): Node => wrapped(squeeze(sliceDim(indices, last, at, at + 1), last), shape[at] as number);
  const flat = range(parts).map((at) => emit.mul(part(at), strides[at] as number));
  const inside = range(parts).map((at) => emit.and(emit.ge(part(at), 0), emit.lt(part(at), shape[at] as number)));
  const total = flat.reduce((sum, one) => emit.add(sum, one), emit.full("i32", indices.shape.slice(0, -1), 0));
  const legal = inside.reduce((both, one) => emit.and(both, one), emit.full("bool", indices.shape.slice(0, -1), 1));
  return emit.select(legal, total, -1);
}

const rowsOf = (x: Node, parts: number): Node =>
  emit.reshape(x, [sizeOf(x.shape.slice(0, parts)), ...x.shape.slice(parts)]);

/** TensorFlow's gather_nd: `out[i…, r…] = x[indices[i…, 0], indices[i…, 1], …, r…]`. */
export function gatherNd(x: Node, indices: Node): Node {
  const flat = flatIndices("gatherNd", indices, x.shape);
  return emit.gather(rowsOf(x, indices.shape.at(-1) as number), flat);
}

/** A copy of x in which `updates[i…, r…]` are combined at `indices[i…]`. */
export function scatterNd(x: Node, indices: Node, updates: Node, op: emit.ScatterOp): Node {
  const flat = flatIndices("scatterNd", indices, x.shape);
  const rows = rowsOf(x, indices.shape.at(-1) as number);
  return emit.reshape(emit.scatter(op, rows, flat, updates), x.shape);
}

/** PyTorch's scatter_reduce with include_self: each update goes into its line along a dim. */
export function scatterAlong(x: Node, indices: Node, updates: Node, dim: number, op: emit.ScatterOp): Node {
  const at = normalizeDim(dim, x.shape.length, "scatterAlongDim");
  const [rows, places, values] = [x, indices, updates].map((operand) => emit.asRows(operand, at)) as [
    emit.Rows,
    emit.Rows,
    emit.Rows,
  ];
  return rows.back(emit.scatter(op, rows.rows, places.rows, values.rows, 1));
}

/** Combines the rows of each segment; `segments` (i32) says of which one each row is. */
export function segment(op: "sum" | "prod" | "max" | "min", x: Node, segments: Node, count: number): Node {
  const shape = [count, ...x.shape.slice(segments.shape.length)];
  if (op === "sum") return emit.scatterAdd(x, segments, count);
  return emit.scatter(op, emit.full(x.dtype, shape, identityOf(op, x.dtype)), segments, x);
}

/** The mean of the rows of each segment; NaN for a segment without rows. */
export function segmentMean(x: Node, segments: Node, count: number): Node {
  const value = isFloat(x.dtype) ? x : emit.cast(x, "f32");
  const rows = emit.scatterAdd(emit.full(value.dtype, segments.shape, 1), segments, count);
  const sums = emit.scatterAdd(value, segments, count);
  return emit.div(sums, emit.broadcastInDim(rows, sums.shape, [0]));
}

/** `x[…]` along dim 0 of one of several coordinate vectors, over the grid of all of them. */
export function gridOf(vectors: readonly Node[], at: number, order: readonly number[]): Node {
  const shape = order.map((vector) => vectors[vector]?.shape[0] as number);
  return emit.broadcastInDim(vectors[at] as Node, shape, [order.indexOf(at)]);
}
