/** @module Functions over nodes that several functions share: one dim sliced, added or removed; indices counted from the end. */

import type { Node } from "../ir/node.ts";
import { formatShape, formatType, normalizeDim, otherDims, type Shape } from "../ir/shape.ts";
import { inverseOrder } from "../ops/host-arrays.ts";
import * as ops from "../ops/index.ts";
import { inFloat32 } from "../ops/wide.ts";
import { HeddleError } from "../util/errors.ts";

/** Elements `from` to before `to` of a dim. */
export function sliceDim(x: Node, dim: number, from: number, to: number): Node {
  const start = x.shape.map((_size, other) => (other === dim ? from : 0));
  return ops.slice(
    x,
    start,
    x.shape.map((size, other) => (other === dim ? to : size)),
  );
}

/** A negative position counted from the end; a position before the first element stays as it is. */
export const fromEnd = (index: number, size: number): number => (index < 0 && index >= -size ? index + size : index);

/** i32 indices with negative ones counted from the end; indices of other dtypes, which lookups refuse, stay as they are. */
export const wrapped = (indices: Node, size: number): Node =>
  indices.dtype === "i32" ? ops.select(ops.lt(indices, 0), ops.add(indices, size), indices) : indices;

/** Inserts a dim of size 1 as dim `dim` of the result. */
export function expandDim(x: Node, dim: number): Node {
  const at = normalizeDim(dim, x.shape.length + 1, "expandDims");
  return ops.reshape(x, [...x.shape.slice(0, at), 1, ...x.shape.slice(at)]);
}

/** Removes one dim of size 1, or all of them. */
export function squeezeNode(x: Node, dim?: number): Node {
  const at = dim === undefined ? undefined : normalizeDim(dim, x.shape.length, "squeeze");
  if (at !== undefined && x.shape[at] !== 1)
    throw new HeddleError("shape", `squeeze: dim ${dim} of ${formatType(x)} is not of size 1`);
  return ops.reshape(
    x,
    x.shape.filter((size, other) => (at === undefined ? size !== 1 : other !== at)),
  );
}

/** Each element `count` times, one after another, along a dim. */
export function repeatNode(x: Node, count: number, dim: number): Node {
  const at = normalizeDim(dim, x.shape.length, "repeat");
  const wide = expandDim(x, at + 1);
  const shape = wide.shape.map((size, other) => (other === at + 1 ? count : size));
  return ops.reshape(
    ops.broadcastTo(wide, shape),
    x.shape.map((size, other) => (other === at ? size * count : size)),
  );
}

/** x to the power, for x >= 0. All derivatives are 0 at x = 0, so that later gradients avoid 0 times infinity. */
export function powerOrZero(x: Node, exponent: number): Node {
  const zero = ops.eq(x, 0);
  const base = ops.select(zero, 1, x);
  return ops.select(zero, 0, exponent === 0.5 ? ops.sqrt(base) : ops.pow(base, exponent));
}

/** Windows along a dim: their size and number, the distance of their starts, and the distance of their elements. */
export interface Sliding {
  readonly size: number;
  readonly count: number;
  readonly stride: number;
  readonly dilation: number;
}

/** The position of each element `[size, count]` of each window (i32). */
function placesOf({ size, count, stride, dilation }: Sliding): Node {
  const along = (dim: number, by: number): Node => ops.mul(ops.iota("i32", [size, count], dim), by);
  return ops.add(along(0, dilation), along(1, stride));
}

/** A dim as two: the elements of a window, and the windows. */
export const windowsAlong = (x: Node, dim: number, sliding: Sliding): Node => ops.take(x, placesOf(sliding), dim);

/** Two dims, `dim` and the next, added up into one of `length` elements. */
export function foldAlong(x: Node, dim: number, length: number, sliding: Sliding): Node {
  const rows = ops.transpose(x, [dim, dim + 1, ...otherDims(x.shape.length, [dim, dim + 1])]);
  const sums = ops.scatterAdd(rows, placesOf(sliding), length);
  return ops.transpose(sums, inverseOrder([dim, ...otherDims(sums.shape.length, [dim])]));
}

/** How a border is filled from the tensor itself. */
export type BorderMode = "reflect" | "replicate" | "circular";

/** Pads with a border of `amounts[dim] = [low, high]` elements of the node. @throws HeddleError `shape` if it has too few */
export function padBorderNode(x: Node, amounts: readonly (readonly [number, number])[], mode: BorderMode): Node {
  return amounts.reduce((y, [low, high], dim) => {
    const size = y.shape[dim] as number;
    if (low === 0 && high === 0) return y;
    const most = mode === "replicate" ? Infinity : mode === "circular" ? size : size - 1;
    if (low < 0 || high < 0 || low > most || high > most || size === 0)
      throw new HeddleError("shape", `pad ${mode}: [${low}, ${high}] does not fit dim ${dim} of ${formatType(y)}`);
    const part = (from: number, to: number): Node => sliceDim(y, dim, from, to);
    const reversed = (from: number, to: number): Node => ops.reverse(part(from, to), [dim]);
    const [before, after] = {
      reflect: () => [reversed(1, low + 1), reversed(size - 1 - high, size - 1)],
      replicate: () => [repeatNode(part(0, 1), low, dim), repeatNode(part(size - 1, size), high, dim)],
      circular: () => [part(size - low, size), part(0, high)],
    }[mode]() as [Node, Node];
    return ops.concat(
      [before, y, after].filter((piece) => piece.shape[dim] !== 0),
      dim,
    );
  }, x);
}

/** Column minus row of the last two dims, as i32. */
export function offDiagonal(what: string, shape: Shape): Node {
  if (shape.length < 2) throw new HeddleError("shape", `${what}: needs at least two dims, got ${formatShape(shape)}`);
  const matrix = shape.slice(-2);
  const difference = ops.sub(ops.iota("i32", matrix, 1), ops.iota("i32", matrix, 0));
  return ops.broadcastTo(difference, shape);
}

export function diagonalNode(x: Node, k = 0): Node {
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

/** The largest x over a dim, and log(sum(exp(x - largest))), kept apart so that neither loses digits. */
export function logSumExpParts(x: Node, dim: number): { shift: Node; log: Node } {
  // The result does not depend on the number subtracted: derivatives by it would cancel, except for rounding.
  const largest = ops.call("stopGradient", [ops.max(x, dim, { keepDims: true })]);
  // If all elements are -inf (or one is +inf), subtracting the largest would give NaN.
  const shift = ops.select(ops.isFinite(largest), largest, 0);
  return { shift, log: ops.log(ops.sum(ops.exp(ops.sub(x, shift)), dim, { keepDims: true })) };
}

export function softmaxNode(x: Node, dim = -1): Node {
  return inFloat32([x], (wide) => {
    const largest = ops.call("stopGradient", [ops.max(wide, dim, { keepDims: true })]);
    const shifted = ops.exp(ops.sub(wide, largest));
    return ops.div(shifted, ops.sum(shifted, dim, { keepDims: true }));
  });
}
