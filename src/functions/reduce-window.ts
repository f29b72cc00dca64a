/** @module Reductions over sliding windows of any dims. */

import { isHalf } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { formatType, range } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkPadding, checkWhole } from "../tensor/arguments.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { type Padding, perSpatial, resolvedPadding } from "./window-options.ts";

/** How the elements of a window are combined: sum, product, largest, smallest, or bitwise and logical and, or. */
export type WindowOp = "sum" | "prod" | "max" | "min" | "and" | "or";

/** Options of {@link reduceWindow}; lists have an entry per dim of the window. */
export interface ReduceWindowOptions {
  /** How the elements of a window are combined. */
  readonly op: WindowOp;
  /** Distance between the windows; default 1. */
  readonly strides?: number | readonly number[];
  /** Padding, which counts as the identity (0 of a sum, 1 of a product, never the maximum); less than a window. Default 0. */
  readonly padding?: Padding;
  /** Distance between a window's elements; default 1. */
  readonly dilation?: number | readonly number[];
}

const what = "reduceWindow";
const windowOps: readonly WindowOp[] = ["sum", "prod", "max", "min", "and", "or"];

function build(x: Node, window: readonly number[], options: ReduceWindowOptions): Node {
  const rank = window.length;
  if (rank > x.shape.length)
    throw new HeddleError("shape", `${what}: a window of ${rank} dims, [${window.join(", ")}], of ${formatType(x)}`, {
      hint: "a window has one size for each of the last dims, or for all of them",
    });
  const strides = perSpatial(what, "strides", options.strides ?? 1, rank);
  const dilation = perSpatial(what, "dilation", options.dilation ?? 1, rank);
  const spans = window.map((size, dim) => (size - 1) * (dilation[dim] as number) + 1);
  const padding = resolvedPadding(options.padding ?? 0, x.shape.slice(x.shape.length - rank), spans, strides);
  const attrs = { window, strides, padding, dilation };
  const moving = range(rank).filter((dim) => window[dim] !== 1 || strides[dim] !== 1 || String(padding[dim]) !== "0,0");
  // The kernels slide over three dims: the last dims first, so that the first of equal extremes in row-major order wins.
  const steps = range(Math.ceil(moving.length / 3)).map((step) =>
    moving.slice(-3 * (step + 1), moving.length - 3 * step),
  );
  const countable = ops.countable(options.op, x);
  const wide = steps.length > 1 && isHalf(x.dtype) ? ops.cast(countable, "f32") : countable;
  const result = steps.reduce((value, dims) => over(value, options.op, dims, attrs), wide);
  return ops.cast(result, countable.dtype);
}

/** Attributes of a window over the last dims, with an entry per dim. */
interface Entries {
  readonly window: readonly number[];
  readonly strides: readonly number[];
  readonly padding: readonly (readonly [number, number])[];
  readonly dilation: readonly number[];
}

/** Reduces over windows along some of the dims; along other dims the windows have one element. */
function over(x: Node, op: WindowOp, dims: readonly number[], { window, strides, padding, dilation }: Entries): Node {
  const lead = x.shape.length - window.length;
  const full = <T>(list: readonly T[], neutral: T): T[] =>
    x.shape.map((_size, dim) => (dims.includes(dim - lead) ? (list[dim - lead] as T) : neutral));
  return ops.call(what, [x], {
    op,
    window: full(window, 1),
    strides: full(strides, 1),
    padding: full<readonly [number, number]>(padding, [0, 0]),
    // Dilation of 1 is left out, so that equal windows are the same op.
    ...(dilation.every((gap) => gap === 1) ? {} : { dilation: full(dilation, 1) }),
  });
}

/**
 * Combines the elements of each window that slides over the last dims: StableHLO's `reduce_window`. `window` has a size for
 * each of these dims; the dims before them stay. A dim of size n with padding low and high becomes
 * `floor((n + low + high - ((size - 1) * dilation + 1)) / stride) + 1`.
 *
 * `sum` and `prod` of integers wrap, and of bool they count in i32; 16-bit floats are combined in f32. `max` and `min` propagate NaN and
 * give the gradient to the first of ties; `and` and `or` take integers and bool. {@link maxPool2d} and {@link avgPool2d} are the same
 * for images, with strides as large as the window by default.
 *
 * @throws HeddleError `option` for another op; `argument` unless window, strides and dilation are whole numbers; `shape` when a
 * window does not fit, or would lie in the padding only; `dtype` if the op is not defined for it.
 * @example reduceWindow(tensor([1, 2, 3, 4]), [2], { op: "sum" }) // [3, 5, 7]
 */
export function reduceWindow(x: Tensor, window: readonly number[], options: ReduceWindowOptions): Tensor {
  checkOptions(what, options, ["op", "strides", "padding", "dilation"]);
  if (!(windowOps as readonly unknown[]).includes(options.op))
    throw new HeddleError("option", `${what}: op is ${shown(options.op)}`, {
      hint: `it can be ${windowOps.join(", ")}`,
    });
  checkWhole(what, "window", window);
  checkPadding(what, options.padding ?? 0, window.length);
  return operate(what, build, [x], window, options);
}
