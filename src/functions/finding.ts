/**
 * @module Positions by value: of nonzero elements, in sorted numbers, in bins. If the shape of a result depends on values, the
 * values are read, blocking; in a traced function the option `size` fixes the shape, as in JAX.
 */

import { type DType, isFloat, isInteger, isValueOf } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatShape, formatType, normalizeDim, sameShape, sizeOf, stridesOf } from "../ir/shape.ts";
import { literal, type Operand } from "../ops/emit-scalar.ts";
import * as ops from "../ops/index.ts";
import { checkWhole } from "../tensor/arguments.ts";
import {
  checkTensor,
  isTensor,
  operate,
  operateAll,
  type Tensor,
  type TensorLike,
  valuesAtHand,
} from "../tensor/tensor.ts";
import { isTracing } from "../tensor/tracing.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { tensor } from "./create.ts";
import { toIndices } from "./indices.ts";
import { moveDim } from "./methods/shapes.ts";
import { repeatNode } from "./nodes.ts";

/** Options of functions whose result's size depends on values. */
export interface SizeOptions {
  /** Places in the result; if there are more elements, the first are kept. Must be given in a traced function; default: all elements. */
  readonly size?: number;
}

/** Options of {@link nonzero} and {@link booleanMask}. */
export interface FoundOptions extends SizeOptions {
  /** The value of unused positions; default 0. */
  readonly fill?: number;
}

/** The option `size`, or, outside of traced functions, the count of the values. */
function sizeOr(name: string, size: number | undefined, unknown: string, count: () => number): number {
  if (size !== undefined) {
    checkInteger(name, "size", size, 0);
    return size;
  }
  if (!isTracing()) return count();
  throw unknownSize(name, unknown);
}

/** Whether {@link sort} puts x before y: NaN is above all numbers. */
function isBefore(x: Node, y: Node): Node {
  const less = ops.lt(x, y);
  return isFloat(x.dtype) ? ops.or(less, ops.and(ops.isNaN(y), ops.not(ops.isNaN(x)))) : less;
}

function placesOf(sorted: Node, operand: Operand, right: boolean): Node {
  if (sorted.shape.length !== 1)
    throw new HeddleError("shape", `searchsorted: takes a sorted vector, got ${formatType(sorted)}`, {
      hint: "several vectors, each with its own values, are vmap(searchsorted)",
    });
  const values = typeof operand === "object" ? operand : literal("searchsorted", sorted.dtype, operand);
  if (sorted.dtype !== values.dtype)
    throw new HeddleError("dtype", `searchsorted: ${formatType(sorted)} and ${formatType(values)} are of two dtypes`, {
      hint: "cast one of them",
    });
  const [count] = sorted.shape as [number];
  let found = ops.full("i32", values.shape, 0);
  if (count === 0 || sizeOf(values.shape) === 0) return found;
  // Binary search in steps of powers of two: a step is taken if its last element belongs before the value.
  for (let step = 2 ** Math.floor(Math.log2(count)); step >= 1; step /= 2) {
    const next = ops.add(found, step);
    const last = ops.gather(sorted, ops.minimum(ops.sub(next, 1), count - 1));
    const passes = right ? ops.not(isBefore(values, last)) : isBefore(last, values);
    found = ops.select(ops.and(ops.le(next, count), passes), next, found);
  }
  return found;
}

/**
 * `[positions, number]`: the positions (i32) of the first `size` true elements of a bool vector, in order, and the number of all true
 * elements; unused positions hold the vector's length.
 */
function whereTrue(flags: Node, size: number): [places: Node, number: Node] {
  const [count] = flags.shape as [number];
  const ones = ops.cast(flags, "i32");
  const number = ops.sum(ones);
  if (count === 0) return [ops.full("i32", [size], 0), number];
  const rank = ops.sub(ops.cumsum(ones), 1);
  // A further row, which is cut off, takes elements beyond `size`.
  const row = ops.select(flags, ops.minimum(rank, size), size);
  const start = ops.full("i32", [size + 1], count);
  const positions = ops.scatter("min", start, row, ops.iota("i32", [count], 0));
  return [ops.slice(positions, [0], [size]), number];
}

const flagsOf = (x: Node): Node => ops.reshape(x.dtype === "bool" ? x : ops.ne(x, 0), [sizeOf(x.shape)]);

/** The number of elements that are not 0 (i32). */
const countNonzero = (x: Node): Node => ops.sum(ops.cast(flagsOf(x), "i32"));

function coordinates(x: Node, size: number, fill: number): Node {
  const [flat] = whereTrue(flagsOf(x), size);
  const rank = x.shape.length;
  if (rank === 0) return ops.full("i32", [size, 0], 0);
  const strides = stridesOf(x.shape);
  const free = ops.ge(flat, sizeOf(x.shape));
  const columns = x.shape.map((length, dim) => {
    const index = ops.rem(ops.div(flat, Math.max(1, strides[dim] as number)), Math.max(1, length));
    return ops.reshape(ops.select(free, fill, index), [size, 1]);
  });
  return ops.concat(columns, 1);
}

function maskedRows(x: Node, mask: Node, size: number, fill: number): Node {
  const rest = x.shape.slice(mask.shape.length);
  const count = sizeOf(mask.shape);
  const [positions] = whereTrue(flagsOf(mask), size);
  if (count === 0 || size === 0) return ops.full(x.dtype, [size, ...rest], fill);
  const rows = ops.gather(ops.reshape(x, [count, ...rest]), ops.minimum(positions, count - 1));
  const free = ops.broadcastInDim(ops.ge(positions, count), rows.shape, [0]);
  return ops.select(free, ops.full(x.dtype, rows.shape, fill), rows);
}

function repeated(x: Node, counts: Node, size: number): Node {
  const [length] = x.shape as [number];
  if (length === 0 || size === 0) return ops.full(x.dtype, [size, ...x.shape.slice(1)], 0);
  const ends = ops.cumsum(counts);
  const from = placesOf(ends, ops.iota("i32", [size], 0), true);
  return ops.gather(x, ops.minimum(from, length - 1));
}

/** Bounds of `bins` bins of one width between two numbers; equal numbers give a range of width 1 around them. */
function binEdges(low: Node, high: Node, bins: number): Node {
  const same = ops.cast(ops.eq(low, high), low.dtype);
  const [from, to] = [ops.sub(low, ops.mul(same, 0.5)), ops.add(high, ops.mul(same, 0.5))];
  const steps = ops.iota(low.dtype, [bins + 1], 0);
  const edges = ops.add(ops.mul(steps, ops.div(ops.sub(to, from), bins)), from);
  return ops.select(ops.eq(steps, bins), to, edges);
}

/** The number of elements between each two edges, or the sum of their weights; the last bin includes both its bounds. */
function countsBetween(x: Node, edges: Node, weights: Node | undefined): Node {
  const bins = (edges.shape[0] as number) - 1;
  const flat = ops.reshape(x, [sizeOf(x.shape)]);
  const last = ops.broadcastTo(ops.slice(edges, [bins], [bins + 1]), flat.shape);
  const bin = ops.sub(placesOf(edges, flat, true), 1);
  // Elements outside go to a further bin, which is cut off.
  const bounded = ops.select(ops.eq(flat, last), bins - 1, ops.select(ops.lt(bin, 0), bins, bin));
  const each = weights === undefined ? ops.full("i32", flat.shape, 1) : ops.reshape(weights, flat.shape);
  return ops.slice(ops.scatterAdd(each, ops.minimum(bounded, bins), bins + 1), [0], [bins]);
}

/** The count of each of the numbers 0, 1, … below `size` among indices (i32), or the sum of its weights. */
function countsOf(indices: Node, size: number, weights: Node | undefined): Node {
  const flat = ops.reshape(indices, [sizeOf(indices.shape)]);
  const each = weights === undefined ? ops.full("i32", flat.shape, 1) : ops.reshape(weights, flat.shape);
  return ops.scatterAdd(each, flat, size);
}

/** The error of a traced function without the size of its result. */
export const unknownSize = (name: string, what: string): HeddleError =>
  new HeddleError("argument", `${name}: ${what} is not known yet`, {
    hint: "shapes are static in a traced function: give the most that there can be, as { size: … }",
  });

function checkFill(name: string, dtype: DType, fill: unknown): void {
  if (typeof fill === "number" && (isFloat(dtype) || isValueOf(dtype, fill))) return;
  throw new HeddleError("dtype", `${name}: fill must be a number of ${dtype}, got ${shown(fill)}`);
}

const counted = (name: string, x: Tensor): number => operate(`${name} count`, countNonzero, [x]).itemSync();

/**
 * Coordinates of the elements that are not 0, or true, in row-major order: `[count, rank]` in i32, one row per element, as
 * `gatherNd(x, nonzero(x))` takes them; PyTorch's `nonzero`, NumPy's `argwhere`.
 *
 * @throws HeddleError `argument` in a traced function without `size`; `dtype` for a fill that is not in i32
 * @example nonzero(tensor([[0, 5], [7, 0]])) // [[0, 1], [1, 0]]
 */
export function nonzero(x: Tensor, options: FoundOptions = {}): Tensor {
  checkTensor("nonzero", x);
  checkOptions("nonzero", options, ["size", "fill"]);
  const { fill = 0 } = options;
  checkFill("nonzero", "i32", fill);
  const unknown = `how many elements of ${formatType(x)} are not 0`;
  const size = sizeOr("nonzero", options.size, unknown, () => counted("nonzero", x));
  return operate("nonzero", coordinates, [x], size, fill);
}

/**
 * The elements, or rows, of x where a mask is true: NumPy's `x[mask]`. The mask (bool, or numbers, of which all but 0 are true) has
 * the first dims of x, or all of them; they become one dim. The gradient goes to the elements that were taken.
 *
 * @throws HeddleError `shape` for a mask with other dims; `argument` in a traced function without `size`; `dtype` for a fill that the
 * dtype of x does not have
 * @example booleanMask(tensor([1, 2, 3]), tensor([true, false, true])) // [1, 3]
 */
export function booleanMask(x: Tensor, mask: Tensor, options: FoundOptions = {}): Tensor {
  checkTensor("booleanMask", x);
  checkTensor("booleanMask", mask);
  checkOptions("booleanMask", options, ["size", "fill"]);
  const { fill = 0 } = options;
  checkFill("booleanMask", x.dtype, fill);
  const rank = mask.shape.length;
  if (rank === 0 || !sameShape(mask.shape, x.shape.slice(0, rank)))
    throw new HeddleError("shape", `booleanMask: ${formatType(mask)} does not have the first dims of ${formatType(x)}`);
  const unknown = `how much of ${formatType(mask)} is true`;
  const size = sizeOr("booleanMask", options.size, unknown, () => counted("booleanMask", mask));
  return operate("booleanMask", maskedRows, [x, mask], size, fill);
}

/**
 * NumPy's `repeat`, PyTorch's `repeat_interleave`: repeats each slice along a dim (default the last) by its count: one number for all
 * ({@link repeat}), a list, or a vector of integers of at least 0. In a traced function a vector needs `size`, the sum of its
 * counts: beyond it slices are dropped, and unused positions repeat the last slice, as in JAX.
 *
 * @throws HeddleError `shape` unless there is a count for each slice; `value` for a negative count whose value is known; `argument`
 * for a vector in a traced function without `size`
 */
export function repeatInterleave(
  x: Tensor,
  counts: number | readonly number[] | Tensor,
  dim = -1,
  options: SizeOptions = {},
): Tensor {
  const name = "repeatInterleave";
  checkTensor(name, x);
  checkOptions(name, options, ["size"]);
  if (!isTensor(counts)) checkWhole(name, "counts", counts, true);
  const at = normalizeDim(dim, x.shape.length, name);
  if (typeof counts === "number") {
    checkInteger(name, "counts", counts, 0);
    return operate(name, repeatNode, [x], counts, at);
  }
  const each = isTensor(counts) ? counts : tensor(Int32Array.from(counts as readonly number[]));
  if (!sameShape(each.shape, [x.shape[at] as number]) || !isInteger(each.dtype))
    throw new HeddleError(
      "shape",
      `${name}: dim ${at} of ${formatType(x)} needs a count for each, got ${formatType(each)}`,
    );
  const known = isTensor(counts) ? valuesAtHand(counts) : counts;
  const negative = Array.from(known ?? [], Number).find((count) => count < 0);
  if (negative !== undefined) throw new HeddleError("value", `${name}: a count is ${negative}`);
  const total = (): number => Array.from(known ?? [], Number).reduce((sum, count) => sum + count, 0);
  const size = isTensor(counts)
    ? sizeOr(name, options.size, `the sum of the counts ${formatType(each)}`, total)
    : (options.size ?? total());
  const build = (node: Node, by: Node, length: number): Node => repeated(node, by, length);
  return moveDim(operate(name, build, [moveDim(x, at, 0), toIndices(each)], size), 0, at);
}

/** Options of {@link searchsorted}. */
export interface SearchOptions {
  /** Whether a value goes before (`"left"`, default) or after elements that are equal to it. */
  readonly side?: "left" | "right";
}

/**
 * The positions (i32, from 0 to the length) at which values (a tensor of any shape, or a number) would be inserted into a vector in
 * ascending order to keep it in order: NumPy's `searchsorted`. NaN is above all numbers. The order of the vector is not checked.
 *
 * @throws HeddleError `shape` unless the first is a vector; `dtype` for two dtypes; `option` for another side
 * @example searchsorted(tensor([1, 3, 5]), tensor([3, 4])) // [1, 2]
 */
export function searchsorted(sorted: Tensor, values: TensorLike, options: SearchOptions = {}): Tensor {
  checkTensor("searchsorted", sorted);
  checkOptions("searchsorted", options, ["side"]);
  const { side = "left" } = options;
  if (side !== "left" && side !== "right")
    throw new HeddleError("option", `searchsorted: side is ${shown(side)}`, { hint: 'it can be "left" or "right"' });
  return operate("searchsorted", placesOf, [sorted, values], side === "right");
}

/** Options of {@link bincount}. */
export interface BincountOptions extends SizeOptions {
  /** The weight of each element, in the shape of x; default 1, in i32. */
  readonly weights?: Tensor;
}

/**
 * The count of each of the numbers 0, 1, … among integers of any shape: `[size]` in i32, or the sums of `weights` in their dtype;
 * without `size` up to the largest number.
 *
 * @throws HeddleError `dtype` unless x is of integers; `shape` for weights of another shape; `value` when it runs and a number is
 * outside `[0, size)`; `argument` in a traced function without `size`
 * @example bincount(tensor([1, 3, 1], { dtype: "i32" })) // [0, 2, 0, 1]
 */
export function bincount(x: Tensor, options: BincountOptions = {}): Tensor {
  checkTensor("bincount", x);
  checkOptions("bincount", options, ["size", "weights"]);
  if (!isInteger(x.dtype)) throw new HeddleError("dtype", `bincount: takes integers, got ${formatType(x)}`);
  checkWeights("bincount", x, options.weights);
  const unknown = `the largest number of ${formatType(x)}`;
  const size = sizeOr("bincount", options.size, unknown, () => (x.size === 0 ? 0 : Number(x.max().itemSync()) + 1));
  const weights = options.weights === undefined ? [] : [options.weights];
  const build = (...inputs: unknown[]): Node =>
    countsOf(inputs[0] as Node, inputs.at(-1) as number, inputs.length > 2 ? (inputs[1] as Node) : undefined);
  return operate("bincount", build as never, [toIndices(x), ...weights], Math.max(size, 0));
}

function checkWeights(name: string, x: Tensor, weights: unknown): void {
  if (weights === undefined) return;
  checkTensor(name, weights);
  if (!sameShape(weights.shape, x.shape) || weights.dtype === "bool")
    throw new HeddleError(
      "shape",
      `${name}: weights must be numbers of shape ${formatShape(x.shape)}, got ${formatType(weights)}`,
    );
}

/** Options of {@link histogram}. */
export interface HistogramOptions {
  /** The number of bins of one width, or the bounds of all bins, ascending, one more than bins; default 10. */
  readonly bins?: number | readonly number[] | Tensor;
  /** The bounds of the first and the last bin; default the smallest and the largest element, or 0 and 1 without elements. */
  readonly range?: readonly [number, number];
  /** The weight of each element, in the shape of x; default 1, in i32. */
  readonly weights?: Tensor;
  /** Whether counts are divided by their sum and the width of their bin, in floats; default false. */
  readonly density?: boolean;
}

/**
 * The number of elements of floats or integers in each bin, and the bounds of the bins, as NumPy's `histogram`. A bin includes its
 * lower bound but not its upper one, except for the last, which includes both. Elements outside all bins, and NaN, are not counted.
 * Bounds of integers that are computed are f32.
 *
 * @throws HeddleError `option` for no bins, bounds that do not ascend, and a malformed range; `shape` for weights of another shape;
 * `value`, unless traced, if the range is computed and an element is NaN or infinite
 * @example histogram(tensor([0, 1, 1, 4]), { bins: 2 }) // counts [3, 1], edges [0, 2, 4]
 */
export function histogram(
  x: Tensor,
  options: HistogramOptions = {},
): { readonly counts: Tensor; readonly edges: Tensor } {
  checkTensor("histogram", x);
  checkOptions("histogram", options, ["bins", "range", "weights", "density"]);
  const { bins = 10, range, weights, density = false } = options;
  checkWeights("histogram", x, weights);
  const values = isFloat(x.dtype) ? x : x.cast("f32");
  const edges = typeof bins === "number" ? evenEdges(values, bins, range) : givenEdges(values, bins);
  const build = (...[node, bounds, by]: Node[]): Node[] => [countsBetween(node as Node, bounds as Node, by)];
  const operands = weights === undefined ? [values, edges] : [values, edges, weights];
  const [counts] = operateAll("histogram", build, operands) as [Tensor];
  if (!density) return { counts, edges };
  const shares = isFloat(counts.dtype) ? counts : counts.cast(values.dtype);
  const last = edges.shape[0] as number;
  const widths = edges.slice([1], [last]).sub(edges.slice([0], [last - 1]));
  return { counts: shares.div(widths.cast(shares.dtype)).div(shares.sum()), edges };
}

function evenEdges(x: Tensor, bins: number, range: readonly [number, number] | undefined): Tensor {
  checkInteger("histogram", "bins", bins, 1);
  if (
    range !== undefined &&
    !(Array.isArray(range) && range.length === 2 && range.every(Number.isFinite) && range[0] <= range[1])
  )
    throw new HeddleError("option", `histogram: range must be [low, high], finite and ascending, got ${shown(range)}`);
  const known = range ?? (x.size === 0 ? [0, 1] : undefined);
  const build = (node: Node, count: number, ends?: readonly number[]): Node => {
    const [low, high] = ends?.map((end) => ops.constant(node.dtype, end)) ?? [ops.min(node), ops.max(node)];
    return binEdges(low as Node, high as Node, count);
  };
  const edges = operate("histogram edges", build, [x], bins, known);
  const bounds = known === undefined ? valuesAtHand(edges) : undefined;
  if (bounds !== undefined && !(Number.isFinite(Number(bounds[0])) && Number.isFinite(Number(bounds[bins]))))
    throw new HeddleError("value", `histogram: ${formatType(x)} has NaN or infinite elements, so it has no range`, {
      hint: "give the range: elements outside of it, and NaN, are not counted",
    });
  return edges;
}

function givenEdges(x: Tensor, bins: readonly number[] | Tensor): Tensor {
  if (!isTensor(bins) && !(Array.isArray(bins) && bins.every((bound) => typeof bound === "number")))
    throw new HeddleError("option", `histogram: bins must be a number, or their bounds, got ${shown(bins)}`);
  const edges = isTensor(bins) ? bins.cast(x.dtype) : tensor(bins as readonly number[], { dtype: x.dtype });
  if (edges.shape.length !== 1 || edges.size < 2)
    throw new HeddleError("shape", `histogram: bins need at least two bounds, got ${formatType(edges)}`);
  const bounds = valuesAtHand(edges);
  const odd = bounds?.findIndex((bound, index) => !(index === 0 || bound >= (bounds[index - 1] as never)));
  if (bounds !== undefined && odd !== undefined && odd >= 0)
    throw new HeddleError("option", `histogram: bins must ascend, got ${bounds[odd - 1]} before ${bounds[odd]}`);
  return edges;
}
