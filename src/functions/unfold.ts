/** @module Images as columns of their windows (im2col), and back. */

import type { Node } from "../ir/node.ts";
import { formatShape, formatType, range, sizeOf } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkPadding } from "../tensor/arguments.ts";
import { checkTensor, operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { foldAlong, type Sliding, windowsAlong } from "./nodes.ts";
import { type Padding, perSpatial, resolvedPadding } from "./window-options.ts";

type Sizes = number | readonly number[];

/** Options of {@link unfold} and {@link fold}. */
export interface UnfoldOptions {
  /** Default 1. */
  readonly strides?: Sizes;
  /** Zeros around the image; default 0. */
  readonly padding?: Padding;
  /** Distance between a window's elements; default 1. */
  readonly dilation?: Sizes;
}

interface Placed {
  readonly padding: readonly (readonly [number, number])[];
  readonly sliding: readonly Sliding[];
}

/** The windows over dims of these sizes. */
function placed(what: string, sizes: readonly number[], window: Sizes, options: UnfoldOptions): Placed {
  checkOptions(what, options, ["strides", "padding", "dilation"]);
  const rank = sizes.length;
  checkPadding(what, options.padding ?? 0, rank);
  const kernel = perSpatial(what, "window", window, rank);
  const strides = perSpatial(what, "strides", options.strides ?? 1, rank);
  const dilation = perSpatial(what, "dilation", options.dilation ?? 1, rank);
  const spans = kernel.map((size, dim) => (size - 1) * (dilation[dim] as number) + 1);
  const padding = resolvedPadding(options.padding ?? 0, sizes, spans, strides);
  const sliding = kernel.map((size, dim) => {
    const [low, high] = padding[dim] as [number, number];
    const [stride, gap, span] = [strides[dim], dilation[dim], spans[dim]] as [number, number, number];
    const room = (sizes[dim] as number) + low + high - span;
    if (Math.min(size, stride, gap) < 1 || Math.min(low, high, room) < 0)
      throw new HeddleError(
        "shape",
        `${what}: a window of ${size} by strides of ${stride}, dilation ${gap} and padding ${low} and ${high} does not fit into ${sizes[dim]} elements`,
      );
    return { size, count: Math.floor(room / stride) + 1, stride, dilation: gap };
  });
  return { padding, sliding };
}

const paddedBy = (x: Node, padding: Placed["padding"], sign: 1 | -1): Node =>
  padding.every(([low, high]) => low === 0 && high === 0)
    ? x
    : ops.pad(
        x,
        ops.constant(x.dtype, 0),
        [0, 0, ...padding.map(([low]) => sign * low || 0)],
        [0, 0, ...padding.map(([, high]) => sign * high || 0)],
      );

function columnsOf(x: Node, sliding: readonly Sliding[]): Node {
  const [batch, channels] = x.shape as [number, number];
  // Each spatial dim becomes two dims, so the next one moves by one.
  const paired = sliding.reduce((y, windows, at) => windowsAlong(y, 2 + 2 * at, windows), x);
  const order = [
    0,
    1,
    ...range(sliding.length).map((at) => 2 + 2 * at),
    ...range(sliding.length).map((at) => 3 + 2 * at),
  ];
  const sizes = sliding.reduce((product, { size }) => product * size, channels);
  const counts = sliding.reduce((product, { count }) => product * count, 1);
  return ops.reshape(ops.transpose(paired, order), [batch, sizes, counts]);
}

function imagesOf(x: Node, lengths: readonly number[], sliding: readonly Sliding[]): Node {
  const [batch, rows] = x.shape as [number, number];
  const taps = sliding.reduce((product, { size }) => product * size, 1);
  const rank = sliding.length;
  const whole = ops.reshape(x, [
    batch,
    rows / taps,
    ...sliding.map(({ size }) => size),
    ...sliding.map(({ count }) => count),
  ]);
  const order = [0, 1, ...range(rank).flatMap((at) => [2 + at, 2 + rank + at])];
  return sliding.reduce(
    (y, windows, at) => foldAlong(y, 2 + at, lengths[at] as number, windows),
    ops.transpose(whole, order),
  );
}

/**
 * The windows of images `[batch, channels, …]`, with 1 to 3 further dims, as columns: `[batch, channels · elements of a window,
 * windows]`, PyTorch's `unfold` (im2col). The window is one size, or one per dim. A convolution is the product of its weight, reshaped to
 * `[out, in · elements]`, and these columns. Any dtype.
 *
 * @throws HeddleError `shape` if the window does not fit
 */
export function unfold(x: Tensor, window: Sizes, options: UnfoldOptions = {}): Tensor {
  checkTensor("unfold", x);
  const rank = x.shape.length - 2;
  if (rank < 1 || rank > 3)
    throw new HeddleError("shape", `unfold: takes [batch, channels, …] with 1 to 3 dims behind, got ${formatType(x)}`);
  const { padding, sliding } = placed("unfold", x.shape.slice(2), window, options);
  const build = (node: Node, around: Placed["padding"], windows: readonly Sliding[]): Node =>
    columnsOf(paddedBy(node, around, 1), windows);
  return operate("unfold", build, [x], padding, sliding);
}

/**
 * The transpose of {@link unfold}: adds columns up where their windows lie in images of `sizes` (one number per dim):
 * `[batch, channels, …sizes]`, PyTorch's `fold` (col2im). Window and options are the same as for `unfold`.
 *
 * @throws HeddleError `shape` unless columns of such images have this shape
 */
export function fold(x: Tensor, sizes: readonly number[], window: Sizes, options: UnfoldOptions = {}): Tensor {
  checkTensor("fold", x);
  if (!Array.isArray(sizes) || sizes.length < 1 || sizes.length > 3)
    throw new HeddleError("shape", `fold: takes the sizes of 1 to 3 dims, got ${shown(sizes)}`);
  const whole = perSpatial("fold", "sizes", sizes, sizes.length);
  const { padding, sliding } = placed("fold", whole, window, options);
  const [taps, count] = [sizeOf(sliding.map(({ size }) => size)), sizeOf(sliding.map((windows) => windows.count))];
  if (x.shape.length !== 3 || (x.shape[1] as number) % taps !== 0 || x.shape[2] !== count)
    throw new HeddleError(
      "shape",
      `fold: ${formatShape(whole)} is made of [batch, channels · ${taps}, ${count}], got ${formatType(x)}`,
    );
  const lengths = whole.map((size, dim) => size + (padding[dim]?.[0] as number) + (padding[dim]?.[1] as number));
  const build = (node: Node, around: Placed["padding"], long: readonly number[], windows: readonly Sliding[]): Node =>
    paddedBy(imagesOf(node, long, windows), around, -1);
  return operate("fold", build, [x], padding, lengths, sliding);
}
