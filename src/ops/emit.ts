/**
 * @module Functions that build graphs: one per op, over nodes and numbers, with broadcasting. Ops are found by name, so
 * gradients can use every op without circular imports.
 */

import { type DType, dtypes, isFloat, isHalf } from "../ir/dtype.ts";
import type { Reduction } from "../ir/equation.ts";
import type { Node } from "../ir/node.ts";
import {
  broadcastShapes,
  formatShape,
  formatType,
  normalizeDim,
  otherDims,
  range,
  type Shape,
  sameShape,
  sizeOf,
} from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { broadcastInDim, broadcastTo, call, cast, constant, full, type Operand } from "./emit-scalar.ts";
import { inverseOrder } from "./host-arrays.ts";
import { type DotAttrs, productIn } from "./narrow/dtypes.ts";
import { div, eq, mul } from "./spelled.ts";

export * from "./emit-composed.ts";
export * from "./emit-scalar.ts";
export * from "./spelled.ts";

/** Reshapes; one size may be -1. */
export function reshape(x: Node, shape: Shape): Node {
  const open = shape.indexOf(-1);
  const known = shape.reduce((product, size) => (size === -1 ? product : product * size), 1);
  const resolved = open < 0 ? shape : shape.map((size, dim) => (dim === open ? sizeOf(x.shape) / known : size));
  if (open >= 0 && (!Number.isInteger(resolved[open]) || known === 0)) {
    throw new HeddleError("shape", `reshape: ${formatType(x)} does not fill ${formatShape(shape)}`);
  }
  return sameShape(x.shape, resolved) ? x : call("reshape", [x], { shape: resolved });
}

/** Permutes dims; reverses them by default. Output dim `i` is input dim `order[i]`. */
export function transpose(x: Node, order: readonly number[] = range(x.shape.length).reverse()): Node {
  const dims = order.map((dim) => normalizeDim(dim, x.shape.length, "transpose"));
  return dims.every((dim, index) => dim === index) && dims.length === x.shape.length
    ? x
    : call("transpose", [x], { order: dims });
}

/** Elements start, start + stride, … below limit, along each dim; strides default to 1; negative starts and limits do not count from the end. */
export const slice = (
  x: Node,
  start: readonly number[],
  limit: readonly number[],
  stride: readonly number[] = start.map(() => 1),
): Node => call("slice", [x], { start, limit, stride });

/** Pads with `value` (a scalar); negative amounts cut off; `interior` goes between elements. */
export const pad = (
  x: Node,
  value: Node,
  low: readonly number[],
  high: readonly number[],
  interior: readonly number[] = low.map(() => 0),
): Node => call("pad", [x, value], { low, high, interior });

/** Joins tensors of one dtype along a dim; all other dims agree. A negative `dim` counts from the end. */
export function concat(inputs: readonly Node[], dim: number): Node {
  const at = normalizeDim(dim, inputs[0]?.shape.length ?? 0, "concat");
  return inputs.length === 1 ? (inputs[0] as Node) : call("concat", inputs, { dim: at });
}

/** The elements in reverse order along `dims`; negative ones count from the end. */
export function reverse(x: Node, dims: readonly number[]): Node {
  const resolved = resolveDims("reverse", dims, x.shape.length);
  return resolved.length === 0 ? x : call("reverse", [x], { dims: resolved });
}

/** x, unchanged: nodes that use the result are not merged with nodes that use x, and run after `after`. */
export const barrier = (x: Node, after: readonly Node[]): Node => call("optimizationBarrier", [x, ...after]);

/** Counts up from 0 along `dim`. */
export const iota = (dtype: DType, shape: Shape, dim: number): Node => call("iota", [], { dtype, shape, dim });

/** Dims to reduce over: a dim, some dims, or all. */
export type Dims = number | readonly number[] | undefined;

/**
 * Resolves a dim, some dims or nothing (all) to dims counted from 0, in ascending order.
 *
 * @param what names the caller in messages
 * @throws HeddleError `shape` for a dim that is out of range or repeats.
 */
export function resolveDims(what: string, dims: Dims, rank: number): number[] {
  const list = dims === undefined ? range(rank) : typeof dims === "number" ? [dims] : dims;
  const resolved = list.map((dim) => normalizeDim(dim, rank, what)).sort((a, b) => a - b);
  if (new Set(resolved).size !== resolved.length)
    throw new HeddleError("shape", `${what}: dims ${formatShape(list)} repeat`);
  return resolved;
}

/** The operand of a sum or product: bool becomes i32, with true as 1. */
export const countable = (op: string, x: Node): Node =>
  x.dtype === "bool" && (op === "sum" || op === "prod") ? cast(x, "i32") : x;

/** Reduces over `dims`; with `keepDims` they stay as size 1. */
export function reduce(
  op: Reduction | "prod" | "and" | "or",
  x: Node,
  dims?: Dims,
  options: { keepDims?: boolean } = {},
): Node {
  const over = resolveDims(op, dims, x.shape.length);
  const value = countable(op, x);
  const result = over.length === 0 ? value : call("reduce", [value], { op, dims: over });
  return options.keepDims === true
    ? reshape(
        result,
        x.shape.map((size, dim) => (over.includes(dim) ? 1 : size)),
      )
    : result;
}

/** Sums over dims (default all); integers wrap, a sum of no elements is 0, bool is counted in i32. */
export const sum = (x: Node, dims?: Dims, options?: { keepDims?: boolean }): Node => reduce("sum", x, dims, options);
/** The largest elements over dims (default all); NaN wins, ties share the gradient; no elements are an error. */
export const max = (x: Node, dims?: Dims, options?: { keepDims?: boolean }): Node => reduce("max", x, dims, options);
/** Products over dims (default all); integers wrap, a product of no elements is 1, bool counts as 0 and 1 in i32. */
export const prod = (x: Node, dims?: Dims, options?: { keepDims?: boolean }): Node => reduce("prod", x, dims, options);
/** The smallest elements over dims (default all); NaN wins, ties share the gradient; no elements are an error. */
export const min = (x: Node, dims?: Dims, options?: { keepDims?: boolean }): Node => reduce("min", x, dims, options);

/** Mean over `dims`; integers and bool are averaged as f32. 16-bit floats are summed and divided in f32. */
export function mean(x: Node, dims?: Dims, options?: { keepDims?: boolean }): Node {
  const over = resolveDims("mean", dims, x.shape.length);
  const count = over.reduce((product, dim) => product * (x.shape[dim] as number), 1);
  const value = isFloat(x.dtype) && !isHalf(x.dtype) ? x : cast(x, "f32");
  const result = div(reduce("sum", value, over, options), count);
  return isHalf(x.dtype) ? cast(result, x.dtype) : result;
}

/** Index (i32) of the largest element along a dim (default the last): the first of ties; the first NaN if there is one. */
export const argMax = (x: Node, dim = -1): Node =>
  call("argMax", [x], { dim: normalizeDim(dim, x.shape.length, "argMax") });

/** How a cumulative op combines the elements. */
export type CumulativeKind = "sum" | "prod" | "max" | "min" | "logSumExp";

/** Combines all elements up to and including each one, along a dim (default the last). */
export const cumulative = (kind: CumulativeKind, x: Node, dim = -1): Node =>
  call("cumulative", [countable(kind, x)], { kind, dim: normalizeDim(dim, x.shape.length, `cumulative ${kind}`) });

/** Cumulative sums along a dim (default the last). */
export const cumsum = (x: Node, dim = -1): Node => cumulative("sum", x, dim);

/** The elements moved by `by` positions along a dim, towards its end if positive; `value` fills the free positions. */
export function shifted(x: Node, dim: number, by: number, value: number): Node {
  const along = (amount: number): number[] => x.shape.map((_size, other) => (other === dim ? amount : 0));
  return pad(x, constant(x.dtype, value), along(by), along(-by || 0));
}

/** The general product of StableHLO: batch dims first, then the free dims of `x`, then those of `y`; in `dtype`, as if cast to it. */
export function dotGeneral(x: Node, y: Node, { dtype, ...dims }: DotAttrs): Node {
  const [left, right, wider] = productIn(x, y, dtype);
  return call("dot", [left, right], { ...dims, ...wider });
}

/** The product `x, y -> out` by letters, as in einsum with two operands; each letter at most once per operand. */
export function einsumPair(
  x: Node,
  xLetters: readonly string[],
  y: Node,
  yLetters: readonly string[],
  out: readonly string[],
): Node {
  const alone = (node: Node, mine: readonly string[], other: readonly string[]): [Node, readonly string[]] => {
    const extra = mine.flatMap((letter, dim) => (out.includes(letter) || other.includes(letter) ? [] : [dim]));
    return [sum(node, extra), mine.filter((_letter, dim) => !extra.includes(dim))];
  };
  const [a, aLetters] = alone(x, xLetters, yLetters);
  const [b, bLetters] = alone(y, yLetters, xLetters);
  const shared = aLetters.filter((letter) => bLetters.includes(letter));
  const batch = shared.filter((letter) => out.includes(letter));
  const contract = shared.filter((letter) => !out.includes(letter));
  const indicesOf = (list: readonly string[], wanted: readonly string[]): number[] =>
    wanted.map((letter) => list.indexOf(letter));
  const product = dotGeneral(a, b, {
    xBatch: indicesOf(aLetters, batch),
    yBatch: indicesOf(bLetters, batch),
    xContract: indicesOf(aLetters, contract),
    yContract: indicesOf(bLetters, contract),
  });
  const free = (list: readonly string[]): string[] => list.filter((letter) => !shared.includes(letter));
  const productLetters = [...batch, ...free(aLetters), ...free(bLetters)];
  return transpose(product, indicesOf(productLetters, out));
}

/** NumPy's matmul: vectors, matrices, and batches of matrices that broadcast; in `dtype`, as if both were cast to it. */
export function matmul(x: Node, y: Node, dtype?: DType): Node {
  if (x.shape.length === 0 || y.shape.length === 0)
    throw new HeddleError("shape", `matmul: scalars are not matrices: ${formatType(x)}, ${formatType(y)}`);
  if (dtype === undefined && (x.dtype === "bool" || x.dtype !== y.dtype)) {
    throw new HeddleError("dtype", `matmul: needs two numbers of one dtype, got ${formatType(x)}, ${formatType(y)}`, {
      hint: 'cast them, or name the dtype of the result: matmul(x, y, { dtype: "i32" })',
    });
  }
  if (x.shape.length === 1)
    return reshapeAway(matmul(reshape(x, [1, ...x.shape]), y, dtype), y.shape.length === 1 ? -1 : -2);
  if (y.shape.length === 1) return reshapeAway(matmul(x, reshape(y, [...y.shape, 1]), dtype), -1);
  if (x.shape.at(-1) !== y.shape.at(-2)) {
    throw new HeddleError(
      "shape",
      `matmul: ${formatType(x)} times ${formatType(y)}: inner sizes ${x.shape.at(-1)} and ${y.shape.at(-2)} differ`,
    );
  }
  const batch = broadcastShapes(x.shape.slice(0, -2), y.shape.slice(0, -2));
  if (batch === undefined)
    throw new HeddleError("shape", `matmul: batch dims of ${formatType(x)} and ${formatType(y)} do not broadcast`);
  const wider = dtype === undefined ? {} : { dtype };
  // The whole batch shares a matrix on the right: one larger product instead of many small ones.
  if (y.shape.length === 2) {
    return dotGeneral(x, y, { xBatch: [], yBatch: [], xContract: [x.shape.length - 1], yContract: [0], ...wider });
  }
  const dims = range(batch.length);
  const left = broadcastTo(x, [...batch, ...x.shape.slice(-2)]);
  const right = broadcastTo(y, [...batch, ...y.shape.slice(-2)]);
  return dotGeneral(left, right, {
    xBatch: dims,
    yBatch: dims,
    xContract: [batch.length + 1],
    yContract: [batch.length],
    ...wider,
  });
}

function reshapeAway(x: Node, dim: number): Node {
  const at = normalizeDim(dim, x.shape.length, "matmul");
  return reshape(
    x,
    otherDims(x.shape.length, [at]).map((keptDim) => x.shape[keptDim] as number),
  );
}

/** `x[b…, indices[b…, i…], rest…]`: rows of the dim after the batch dims. */
export const gather = (x: Node, indices: Node, batchDims = 0): Node => call("gather", [x, indices], { batchDims });

/** The transpose of {@link gather}: adds `updates` into zeros of `size` rows. */
export const scatterAdd = (updates: Node, indices: Node, size: number, batchDims = 0): Node =>
  call("scatterAdd", [updates, indices], { size, batchDims });

/** A tensor as a matrix whose rows are its lines along a dim, and the way back. */
export interface Rows {
  readonly rows: Node;
  readonly back: (rows: Node) => Node;
}

/** How scatter combines an element and an update. */
export type ScatterOp = "sum" | "prod" | "max" | "min" | "replace";

/** A copy of x in which rows of `updates` are combined at `indices` (i32). */
export const scatter = (op: ScatterOp, x: Node, indices: Node, updates: Node, batchDims = 0): Node =>
  call("scatter", [x, indices, updates], { op, batchDims });

/** A tensor as a matrix `[all other dims, dim]`, and the way back. */
export function asRows(x: Node, dim: number): Rows {
  const order = [...otherDims(x.shape.length, [dim]), dim];
  const moved = transpose(x, order);
  const lead = moved.shape.slice(0, -1);
  const back = (rows: Node): Node =>
    transpose(reshape(rows, [...lead, rows.shape.at(-1) as number]), inverseOrder(order));
  return { rows: reshape(moved, [sizeOf(lead), x.shape[dim] as number]), back };
}

/** NumPy's take_along_axis: element `indices[…, i, …]` (i32) of each line along a dim. */
export function takeAlong(x: Node, indices: Node, dim: number): Node {
  const at = normalizeDim(dim, x.shape.length, "takeAlongDim");
  const ids = asRows(indices, at);
  return ids.back(gather(asRows(x, at).rows, ids.rows, 1));
}

/** The transpose of {@link takeAlong}: adds into zeros of `size` elements along a dim. */
export function scatterAddAlong(updates: Node, indices: Node, size: number, dim: number): Node {
  const rows = asRows(updates, dim);
  return rows.back(scatterAdd(rows.rows, asRows(indices, dim).rows, size, 1));
}

/** Takes the elements at `indices` (i32) along `dim`, the same at all other positions. */
export function take(x: Node, indices: Node, dim = 0): Node {
  const at = normalizeDim(dim, x.shape.length, "take");
  const order = [at, ...otherDims(x.shape.length, [at])];
  const rows = gather(transpose(x, order), indices);
  const resultOrder = [
    ...range(indices.shape.length).map((index) => at + index),
    ...otherDims(
      rows.shape.length,
      range(indices.shape.length).map((index) => at + index),
    ),
  ];
  return transpose(rows, inverseOrder(resultOrder));
}

/** 1 where the class is the index (i32), else 0, along a new last dim; an index out of range gives zeros. */
export function oneHot(indices: Node, classes: number, dtype: DType = "f32"): Node {
  const shape = [...indices.shape, classes];
  const column = broadcastInDim(indices, shape, range(indices.shape.length));
  return cast(eq(column, iota(indices.dtype, shape, indices.shape.length)), dtype);
}

/** Uniform 32-bit words from a key (u32[2]); bits depend only on the key and the index in the whole tensor. */
export function randomBits(key: Node, shape: Shape, options: { stream?: number; start?: Node } = {}): Node {
  const start = options.start ?? full("i32", [shape.length], 0);
  return call("randomBits", [key, start], { shape, total: shape, stream: options.stream ?? 0 });
}

/** A new key for each value of `data` (a scalar i32): steps, layers and loops get distinct keys this way. */
export function foldIn(key: Node, data: Operand): Node {
  const index = typeof data === "number" ? constant("i32", data) : data;
  const words = call("randomBits", [key, reshape(mul(index, 2), [1])], { shape: [2], total: [2 ** 31], stream: 1 });
  return words;
}

/** Lowest value of a dtype: the identity of max. */
export const lowest = (dtype: DType): number => (isFloat(dtype) ? -Infinity : dtypes[dtype].lowest);
