/**
 * @module Convolutions and pooling of images that lie in the rows of a matrix: channels one after another, each row by row. The gradients
 * are those of the functions of tensors.
 */

import * as t from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { cells, type Expression, formatSize, type MatrixAttrs, type Operator, type Size } from "./expression.ts";
import { apply, type Matrix } from "./matrix.ts";

type Pair = readonly [down: number, across: number];

/** Sizes of images and of the windows over them. */
export interface Windows {
  /** Images, channels, rows and columns. */
  readonly input: readonly [images: number, channels: number, rows: number, columns: number];
  /** Rows and columns of a window. */
  readonly window: Pair;
  readonly strides: Pair;
  readonly padding: Pair;
}

/** A convolution: windows, and how many channels the result has. */
export interface Convolution extends Windows {
  readonly filters: number;
}

type Build = (x: t.Tensor, y: t.Tensor, attrs: Convolution) => t.Tensor;

const images = (x: t.Tensor, [, ...sizes]: Windows["input"]): t.Tensor =>
  t.reshape(x, [x.shape[0] as number, ...sizes]);
const kernels = (w: t.Tensor, { filters, input, window }: Convolution): t.Tensor =>
  t.reshape(w, [filters, input[1], ...window]);
const options = ({ strides, padding }: Windows) => ({ strides: [...strides], padding: [...padding] });

const convolved: Build = (x, w, attrs) => t.conv2d(images(x, attrs.input), kernels(w, attrs), options(attrs));
const largest = (x: t.Tensor, attrs: Windows): t.Tensor =>
  t.maxPool2d(images(x, attrs.input), [...attrs.window], options(attrs));
const average = (x: t.Tensor, attrs: Windows): t.Tensor =>
  t.avgPool2d(images(x, attrs.input), [...attrs.window], options(attrs));

/** The gradient of `fn` at `x`, where that of the result is `slope`. */
const pulledBack = (fn: (x: t.Tensor) => t.Tensor, x: t.Tensor, slope: t.Tensor): t.Tensor =>
  t.grad((at: t.Tensor) => {
    const result = fn(at);
    return t.sum(t.mul(result, t.reshape(slope, result.shape)));
  })(x) as t.Tensor;

function operator(name: string, build: Build): Operator {
  return {
    name,
    build: ([x, y], attrs, size) =>
      t.reshape(build(x as t.Tensor, y as t.Tensor, attrs as unknown as Convolution), size),
    // Each element of the result of the forward function takes a window of each channel.
    work: ([x], size) => 20 * (cells((x as Expression).size) + cells(size)),
  };
}

const operators = {
  conv2d: operator("conv2d", convolved),
  conv2dData: operator("conv2dData", (w, slope, attrs) =>
    pulledBack(
      (x) => convolved(x, w, attrs),
      t.zeros([attrs.input[0], attrs.input[1] * attrs.input[2] * attrs.input[3]], { dtype: "f64" }),
      slope,
    ),
  ),
  conv2dFilter: operator("conv2dFilter", (x, slope, attrs) =>
    pulledBack(
      (w) => convolved(x, w, attrs),
      t.zeros([attrs.filters, attrs.input[1] * attrs.window[0] * attrs.window[1]], { dtype: "f64" }),
      slope,
    ),
  ),
  maxPool: operator("maxPool", (x, _none, attrs) => largest(x, attrs)),
  maxPoolBackward: operator("maxPoolBackward", (x, slope, attrs) => pulledBack((at) => largest(at, attrs), x, slope)),
  avgPool: operator("avgPool", (x, _none, attrs) => average(x, attrs)),
  avgPoolBackward: operator("avgPoolBackward", (x, slope, attrs) => pulledBack((at) => average(at, attrs), x, slope)),
} satisfies Record<string, Operator>;

const attrsOf = (windows: Windows): MatrixAttrs => ({ ...windows });

/** Rows and columns of the result for one channel. @throws HeddleError `shape` for windows that do not fit */
function resultOf(what: string, { input, window, strides, padding }: Windows): Pair {
  const [down, across] = [0, 1].map((dim) => {
    const room = (input[dim + 2] as number) + 2 * (padding[dim] as number) - (window[dim] as number);
    return room < 0 ? 0 : Math.floor(room / (strides[dim] as number)) + 1;
  }) as [number, number];
  if (down > 0 && across > 0) return [down, across];
  throw new HeddleError(
    "shape",
    `${what}: windows of ${window.join("x")} do not fit images of ${input[2]}x${input[3]} with padding ${padding.join("x")}`,
  );
}

function checkSize(what: string, name: string, x: Matrix, size: Size): void {
  if (x.rows === size[0] && x.columns === size[1]) return;
  throw new HeddleError(
    "shape",
    `${what}: ${name} is ${formatSize(x.shape)}, and the sizes that are given make it ${formatSize(size)}`,
  );
}

/** The size of the matrix of images. */
const inputSize = ({ input: [count, channels, rows, columns] }: Windows): Size => [count, channels * rows * columns];

function outputSize(what: string, windows: Windows, channels: number): Size {
  const [down, across] = resultOf(what, windows);
  return [windows.input[0], channels * down * across];
}

const filterSize = ({ filters, input, window }: Convolution): Size => [filters, input[1] * window[0] * window[1]];

/** Images convolved with filters, a filter in each row of `w`: a row for each image. @throws HeddleError `shape` */
export function conv2d(x: Matrix, w: Matrix, windows: Convolution): Matrix {
  checkSize("conv2d", "the input", x, inputSize(windows));
  checkSize("conv2d", "the filter", w, filterSize(windows));
  return apply(operators.conv2d, [x, w], outputSize("conv2d", windows, windows.filters), attrsOf(windows));
}

/** The gradient of {@link conv2d} by its images. @throws HeddleError `shape` */
export function conv2dData(w: Matrix, slope: Matrix, windows: Convolution): Matrix {
  checkSize("conv2d_backward_data", "the filter", w, filterSize(windows));
  checkSize("conv2d_backward_data", "dout", slope, outputSize("conv2d_backward_data", windows, windows.filters));
  return apply(operators.conv2dData, [w, slope], inputSize(windows), attrsOf(windows));
}

/** The gradient of {@link conv2d} by its filters. @throws HeddleError `shape` */
export function conv2dFilter(x: Matrix, slope: Matrix, windows: Convolution): Matrix {
  checkSize("conv2d_backward_filter", "the input", x, inputSize(windows));
  checkSize("conv2d_backward_filter", "dout", slope, outputSize("conv2d_backward_filter", windows, windows.filters));
  return apply(operators.conv2dFilter, [x, slope], filterSize(windows), attrsOf(windows));
}

/** The largest or the mean element of each window of each channel; padding counts for the mean. @throws HeddleError `shape` */
export function pool(kind: "max" | "avg", x: Matrix, windows: Windows): Matrix {
  const what = `${kind}_pool`;
  checkSize(what, "the input", x, inputSize(windows));
  return apply(operators[`${kind}Pool`], [x], outputSize(what, windows, windows.input[1]), attrsOf(windows));
}

/** The gradient of {@link pool}. @throws HeddleError `shape` */
export function poolBackward(kind: "max" | "avg", x: Matrix, slope: Matrix, windows: Windows): Matrix {
  const what = `${kind}_pool_backward`;
  checkSize(what, "the input", x, inputSize(windows));
  checkSize(what, "dout", slope, outputSize(what, windows, windows.input[1]));
  return apply(operators[`${kind}PoolBackward`], [x, slope], inputSize(windows), attrsOf(windows));
}
