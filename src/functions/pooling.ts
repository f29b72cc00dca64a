/** @module Pooling of tensors over their last 1 to 3 dims. */

import { dtypes, isInteger, isLong } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatShape, formatType, range, sameShape, sizeOf } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkPadding } from "../tensor/arguments.ts";
import { checkTensor, operate, operateAll, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { toIndices } from "./indices.ts";
import { sliceDim } from "./nodes.ts";
import { type Padding, perSpatial, resolvedPadding, withLastWindow } from "./window-options.ts";

type Sizes = number | readonly number[];

/** Options of {@link maxPool1d}, {@link maxPool2d} and {@link maxPool3d}. */
export interface MaxPoolOptions {
  /** Default: the size of the window. */
  readonly strides?: Sizes;
  /** Elements of padding are never the maximum; default 0. */
  readonly padding?: Padding;
  /** Distance between a window's elements; default 1. */
  readonly dilation?: Sizes;
  /** Whether a last window that is incomplete counts; default false. */
  readonly ceilMode?: boolean;
  /** Whether to give `{ values, indices }`, with the place of each maximum. Default false. */
  readonly indices?: boolean;
}

/** Maxima of windows, and their positions (i32): row-major among the pooled dims, as {@link maxUnpool2d} takes them. */
export interface Maxima {
  readonly values: Tensor;
  readonly indices: Tensor;
}

/** Options of {@link maxUnpool1d}, {@link maxUnpool2d} and {@link maxUnpool3d}. */
export interface UnpoolOptions {
  /** Default: the size of the window. */
  readonly strides?: Sizes;
  /** Default 0. */
  readonly padding?: Sizes;
  /** Sizes of the result; default the smallest sizes that pool to the shape of x. */
  readonly size?: Sizes;
}

/** Options of {@link avgPool1d}, {@link avgPool2d} and {@link avgPool3d}. */
export interface AvgPoolOptions {
  /** Default: the size of the window. */
  readonly strides?: Sizes;
  /** Default 0. */
  readonly padding?: Padding;
  /** Whether a last window that is incomplete counts; default false. */
  readonly ceilMode?: boolean;
  /** Whether padding counts as elements that are 0; default true, as in PyTorch. */
  readonly countIncludePad?: boolean;
}

/** Windows over the last dims, as the ops take them; `plain` is the padding without the part that ceilMode adds. */
interface Placed {
  readonly attrs: {
    readonly window: number[];
    readonly strides: number[];
    readonly padding: [number, number][];
    readonly dilation: number[];
  };
  readonly plain: readonly (readonly [number, number])[];
  readonly rank: number;
}

function placed(what: string, x: Node, window: Sizes, rank: number, options: MaxPoolOptions): Placed {
  if (x.shape.length < rank)
    throw new HeddleError(
      "shape",
      `${what}: needs at least ${["one dim", "two dims", "three dims"][rank - 1]}, got ${formatShape(x.shape)}`,
    );
  const sizes = perSpatial(what, "window", window, rank);
  const strides = perSpatial(what, "strides", options.strides ?? window, rank);
  const dilation = perSpatial(what, "dilation", options.dilation ?? 1, rank);
  const spans = sizes.map((size, dim) => (size - 1) * (dilation[dim] as number) + 1);
  const spatial = x.shape.slice(-rank);
  const plain = resolvedPadding(options.padding ?? 0, spatial, spans, strides);
  const padding = plain.map((amounts, dim): [number, number] => {
    const [size, span, stride] = [spatial[dim], spans[dim], strides[dim]] as [number, number, number];
    return options.ceilMode === true ? withLastWindow(size, span, stride, amounts) : amounts;
  });
  const lead = x.shape.slice(0, -rank);
  const full = <T>(list: readonly T[], neutral: () => T): T[] => [...lead.map(neutral), ...list];
  const attrs = {
    window: full(sizes, () => 1),
    strides: full(strides, () => 1),
    padding: full<[number, number]>(padding, () => [0, 0]),
    dilation: full(dilation, () => 1),
  };
  return { attrs, plain, rank };
}

/** Attributes of the op; dilation of 1 is left out, so that equal windows are the same op. */
function windowAttrs(op: "max" | "sum", { attrs }: Placed) {
  const { dilation, ...rest } = attrs;
  return { op, ...rest, ...(dilation.every((gap) => gap === 1) ? {} : { dilation }) };
}

const reduced = (x: Node, op: "max" | "sum", windows: Placed): Node =>
  ops.call("reduceWindow", [x], windowAttrs(op, windows));

function buildMax(what: string, x: Node, window: Sizes, rank: number, options: MaxPoolOptions): Node {
  return reduced(x, "max", placed(what, x, window, rank, options));
}

/** The most positions that f32 can number exactly. */
const mostInSingle = 2 ** 24;

/** `[values, indices]`; indices are taken like the maxima, from numbers in a float dtype that holds them exactly. */
function buildMaxima(what: string, x: Node, window: Sizes, rank: number, options: MaxPoolOptions): Node[] {
  const windows = placed(what, x, window, rank, options);
  const spatial = x.shape.slice(-rank);
  const size = sizeOf(spatial);
  if (isLong(x.dtype))
    throw new HeddleError("dtype", `${what}: not defined with indices for ${formatType(x)}`, {
      hint: "cast to f64, or to i32",
    });
  const single = size <= mostInSingle && (x.dtype === "f32" || dtypes[x.dtype].bytes < 4);
  const wide = ops.cast(x, single ? "f32" : "f64");
  const positions = ops.broadcastTo(ops.reshape(ops.iota(wide.dtype, [size], 0), spatial), x.shape);
  const found = ops.call("windowTake", [wide, positions], windowAttrs("max", windows));
  return [reduced(x, "max", windows), ops.cast(found, "i32")];
}

/** The number of elements of each window between `from` and `to` of one dim, in the result's shape. */
function counted(like: Node, dim: number, { attrs }: Placed, from: number, to: number): Node {
  const start = ops.sub(
    ops.mul(ops.iota(like.dtype, like.shape, dim), attrs.strides[dim] as number),
    attrs.padding[dim]?.[0] as number,
  );
  return ops.sub(ops.minimum(ops.add(start, attrs.window[dim] as number), to), ops.maximum(start, from));
}

function buildAverage(what: string, x: Node, window: Sizes, rank: number, options: AvgPoolOptions): Node {
  const { countIncludePad = true, ...rest } = options;
  const windows = placed(what, x, window, rank, rest);
  const sums = reduced(x, "sum", windows);
  const lead = x.shape.length - rank;
  let constant = 1;
  let total: Node | undefined;
  for (let dim = lead; dim < x.shape.length; dim++) {
    const [low, high] = windows.plain[dim - lead] as readonly [number, number];
    const [, reach] = windows.attrs.padding[dim] as [number, number];
    const size = x.shape[dim] as number;
    const [from, to] = countIncludePad ? [-low, size + high] : [0, size];
    if ((low === 0 || countIncludePad) && reach <= to - size) constant *= windows.attrs.window[dim] as number;
    else {
      const count = counted(sums, dim, windows, from, to);
      total = total === undefined ? count : ops.mul(total, count);
    }
  }
  return ops.div(sums, total === undefined ? constant : constant === 1 ? total : ops.mul(total, constant));
}

/** Borders of part `at` of `parts` of a dim, as in PyTorch: parts overlap where they do not divide it. */
const part = (size: number, parts: number, at: number): [number, number] => [
  Math.floor((at * size) / parts),
  Math.ceil(((at + 1) * size) / parts),
];

function buildAdaptive(x: Node, kind: "max" | "avg", sizes: readonly number[]): Node {
  const rank = sizes.length;
  const lead = x.shape.length - rank;
  const what = `adaptive${kind === "max" ? "Max" : "Avg"}Pool${rank}d`;
  const spatial = x.shape.slice(lead);
  if (lead < 0 || spatial.some((size, dim) => size === 0 || (sizes[dim] as number) < 1))
    throw new HeddleError("shape", `${what}: cannot pool ${formatType(x)} to ${formatShape(sizes)}`);
  if (spatial.every((size, dim) => size % (sizes[dim] as number) === 0)) {
    const window = spatial.map((size, dim) => size / (sizes[dim] as number));
    return kind === "max" ? buildMax(what, x, window, rank, {}) : buildAverage(what, x, window, rank, {});
  }
  const pieces = (y: Node, dim: number): Node => {
    const size = y.shape[lead + dim] as number;
    return ops.concat(
      range(sizes[dim] as number).map((at) => {
        const piece = sliceDim(y, lead + dim, ...part(size, sizes[dim] as number, at));
        // A mean of means of equal weight is the mean; the first of ties must be found in the whole region.
        if (kind === "avg") return ops.mean(piece, lead + dim, { keepDims: true });
        return dim + 1 < rank ? pieces(piece, dim + 1) : buildMax(what, piece, piece.shape.slice(lead), rank, {});
      }),
      lead + dim,
    );
  };
  return kind === "max" ? pieces(x, 0) : range(rank).reduce(pieces, x);
}

const maxOf = (rank: number) => {
  const what = `maxPool${rank}d`;
  const build = (x: Node, window: Sizes, options: MaxPoolOptions = {}): Node =>
    buildMax(what, x, window, rank, options);
  const both = (x: Node, window: Sizes, options: MaxPoolOptions = {}): Node[] =>
    buildMaxima(what, x, window, rank, options);
  return ((x: Tensor, window: Sizes, options: MaxPoolOptions = {}): Tensor | Maxima => {
    checkOptions(what, options, ["strides", "padding", "dilation", "ceilMode", "indices"]);
    checkPadding(what, options.padding ?? 0, rank);
    const { indices: wanted = false, ...rest } = options;
    if (!wanted) return operate(what, build, [x], window, rest);
    const [values, indices] = operateAll(`${what} indices`, both, [x], window, rest) as [Tensor, Tensor];
    return { values, indices };
  }) as MaxPool;
};

function buildUnpool(x: Node, indices: Node, sizes: readonly number[]): Node {
  const lead = x.shape.slice(0, x.shape.length - sizes.length);
  const flat = (node: Node): Node => ops.reshape(node, [sizeOf(lead), sizeOf(node.shape.slice(lead.length))]);
  const zeros = ops.full(x.dtype, [sizeOf(lead), sizeOf(sizes)], 0);
  return ops.reshape(ops.scatter("replace", zeros, flat(indices), flat(x), 1), [...lead, ...sizes]);
}

const unpoolOf = (rank: number): MaxUnpool => {
  const what = `maxUnpool${rank}d`;
  return (x, indices, window, options = {}) => {
    checkTensor(what, x);
    checkTensor(what, indices);
    checkOptions(what, options, ["strides", "padding", "size"]);
    if (x.shape.length < rank || !sameShape(x.shape, indices.shape) || !isInteger(indices.dtype))
      throw new HeddleError(
        "shape",
        `${what}: takes maxima and their integer indices in one shape, got ${formatType(x)} and ${formatType(indices)}`,
      );
    const kernel = perSpatial(what, "window", window, rank);
    const strides = perSpatial(what, "strides", options.strides ?? window, rank);
    const padding = perSpatial(what, "padding", options.padding ?? 0, rank);
    const least = x.shape
      .slice(-rank)
      .map(
        (size, dim) => (size - 1) * (strides[dim] as number) - 2 * (padding[dim] as number) + (kernel[dim] as number),
      );
    const sizes = options.size === undefined ? least : perSpatial(what, "size", options.size, rank);
    if (sizes.some((size) => size < 0))
      throw new HeddleError("shape", `${what}: ${formatShape(sizes)} is not a shape, for ${formatType(x)}`);
    return operate(what, buildUnpool, [x, toIndices(indices)], sizes);
  };
};

const averageOf = (rank: number) => {
  const what = `avgPool${rank}d`;
  const build = (x: Node, window: Sizes, options: AvgPoolOptions = {}): Node =>
    ops.inFloat32([x], (wide) => buildAverage(what, wide, window, rank, options));
  return (x: Tensor, window: Sizes, options: AvgPoolOptions = {}): Tensor => {
    checkOptions(what, options, ["strides", "padding", "ceilMode", "countIncludePad"]);
    checkPadding(what, options.padding ?? 0, rank);
    return operate(what, build, [x], window, options);
  };
};

const adaptiveOf = (rank: number, kind: "max" | "avg") => {
  const what = `adaptive${kind === "max" ? "Max" : "Avg"}Pool${rank}d`;
  const build = (x: Node, sizes: readonly number[]): Node =>
    kind === "max" ? buildAdaptive(x, kind, sizes) : ops.inFloat32([x], (wide) => buildAdaptive(wide, kind, sizes));
  return (x: Tensor, size: Sizes): Tensor => operate(what, build, [x], perSpatial(what, "size", size, rank));
};

interface MaxPool {
  (x: Tensor, window: Sizes, options: MaxPoolOptions & { readonly indices: true }): Maxima;
  (x: Tensor, window: Sizes, options?: MaxPoolOptions & { readonly indices?: false }): Tensor;
}
type MaxUnpool = (x: Tensor, indices: Tensor, window: Sizes, options?: UnpoolOptions) => Tensor;
type AvgPool = (x: Tensor, window: Sizes, options?: AvgPoolOptions) => Tensor;
type AdaptivePool = (x: Tensor, size: Sizes) => Tensor;

/**
 * Largest element of each window over the last dim; strides are the window's size by default. NaN wins; the first of ties takes the
 * gradient. With `indices: true` it gives `{ values, indices }`.
 *
 * @throws HeddleError `shape` if the window does not fit, or has an element of neither x nor its padding
 */
export const maxPool1d: MaxPool = maxOf(1);
/** {@link maxPool1d} over the last two dims. */
export const maxPool2d: MaxPool = maxOf(2);
/** {@link maxPool1d} over the last three dims. */
export const maxPool3d: MaxPool = maxOf(3);
/** {@link maxUnpool2d} over the last dim. */
export const maxUnpool1d: MaxUnpool = unpoolOf(1);
/**
 * Puts maxima of {@link maxPool2d} back to their positions, among zeros: `indices` are those of the pooling, window and options the same
 * as there. The gradient is taken from those positions.
 *
 * @throws HeddleError `shape` unless indices are integers of the shape of x; `value` when it runs and an index is outside of the result
 */
export const maxUnpool2d: MaxUnpool = unpoolOf(2);
/** {@link maxUnpool2d} over the last three dims. */
export const maxUnpool3d: MaxUnpool = unpoolOf(3);
/** Mean of each window over the last dim, of floats; strides are the window's size by default. */
export const avgPool1d: AvgPool = averageOf(1);
/** Mean of each window over the last two dims. */
export const avgPool2d: AvgPool = averageOf(2);
/** Mean of each window over the last three dims. */
export const avgPool3d: AvgPool = averageOf(3);
/** Largest element of each of `size` parts of the last dim; parts overlap if `size` does not divide the dim, as in PyTorch. */
export const adaptiveMaxPool1d: AdaptivePool = adaptiveOf(1, "max");
/** Largest element of each of `size` (one number, or one per dim) parts of the last two dims, as {@link adaptiveMaxPool1d}. */
export const adaptiveMaxPool2d: AdaptivePool = adaptiveOf(2, "max");
/** Largest element of each of `size` (one number, or one per dim) parts of the last three dims, as {@link adaptiveMaxPool1d}. */
export const adaptiveMaxPool3d: AdaptivePool = adaptiveOf(3, "max");
/** Mean of each of `size` parts of the last dim; parts overlap if `size` does not divide the dim, as in PyTorch. */
export const adaptiveAvgPool1d: AdaptivePool = adaptiveOf(1, "avg");
/** Mean of each of `size` (one number, or one per dim) parts of the last two dims, as {@link adaptiveAvgPool1d}. */
export const adaptiveAvgPool2d: AdaptivePool = adaptiveOf(2, "avg");
/** Mean of each of `size` (one number, or one per dim) parts of the last three dims, as {@link adaptiveAvgPool1d}. */
export const adaptiveAvgPool3d: AdaptivePool = adaptiveOf(3, "avg");
