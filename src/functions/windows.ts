/** @module Convolutions of tensors with 1 to 3 spatial dims. */

import type { Node } from "../ir/node.ts";
import { formatType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { checkPadding } from "../tensor/arguments.ts";
import { operate, type Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { convolve } from "./convolve.ts";
import { type Padding, perSpatial, resolvedPadding } from "./window-options.ts";

export type { Padding } from "./window-options.ts";

/** Options of {@link conv1d}, {@link conv2d} and {@link conv3d}. */
export interface ConvOptions {
  /** Default 1. */
  readonly strides?: number | readonly number[];
  /** Default 0. */
  readonly padding?: Padding;
  /** Distance between the kernel's elements; default 1. */
  readonly dilation?: number | readonly number[];
  /**
   * Distance between the input's elements, with zeros in between, before padding: StableHLO's `lhs_dilation`, the strides of
   * a transposed convolution. Default 1.
   */
  readonly inputDilation?: number | readonly number[];
  /** Groups of features; each result depends on the input features of its own group. Default 1. */
  readonly groups?: number;
  /** The roles of the dims; default PyTorch's, such as `"bf01,oi01->bf01"`. */
  readonly layout?: string;
}

/** Options of {@link conv2d}. */
export type Conv2dOptions = ConvOptions;

/** Options of {@link convTranspose1d}, {@link convTranspose2d} and {@link convTranspose3d}. */
export interface ConvTransposeOptions {
  /** Distance between the input's elements in the result; default 1. */
  readonly strides?: number | readonly number[];
  /** Elements cut off the result on each side; default 0. */
  readonly padding?: number | readonly number[];
  /** Further elements at the end of each dim, which a convolution with these strides would leave out; default 0. */
  readonly outputPadding?: number | readonly number[];
  /** Distance between the kernel's elements; default 1. */
  readonly dilation?: number | readonly number[];
  /** Groups of features, as in {@link ConvOptions}; default 1. */
  readonly groups?: number;
}

const digits = ["0", "01", "012"] as const;

function checkGroups(what: string, groups: number, x: Node, features: number, results: number): void {
  checkInteger(what, "groups", groups, 1);
  if (features % groups === 0 && results % groups === 0) return;
  throw new HeddleError(
    "shape",
    `${what}: ${groups} groups do not divide ${features} features of ${formatType(x)} and ${results} results`,
  );
}

function checkRanks(what: string, x: Node, weight: Node, rank: number): void {
  if (x.shape.length === rank + 2 && weight.shape.length === rank + 2) return;
  throw new HeddleError(
    "shape",
    `${what}: takes an input and a weight of ${rank + 2} dims, got ${formatType(x)} and ${formatType(weight)}`,
  );
}

function buildConv(x: Node, weight: Node, rank: number, options: ConvOptions = {}): Node {
  const what = `conv${rank}d`;
  const spatial = digits[rank - 1] as string;
  const layout = options.layout ?? `bf${spatial},oi${spatial}->bf${spatial}`;
  const dims = ops.convDims(layout);
  checkRanks(what, x, weight, rank);
  const strides = perSpatial(what, "strides", options.strides ?? 1, rank);
  const kernelDilation = perSpatial(what, "dilation", options.dilation ?? 1, rank);
  const inputDilation = perSpatial(what, "inputDilation", options.inputDilation ?? 1, rank);
  const sizes = dims.spatial.map((digit, dim) => {
    const size = x.shape[dims.x.indexOf(digit)] as number;
    return size === 0 ? 0 : (size - 1) * (inputDilation[dim] as number) + 1;
  });
  const spans = dims.spatial.map(
    (digit, dim) => ((weight.shape[dims.kernel.indexOf(digit)] as number) - 1) * (kernelDilation[dim] as number) + 1,
  );
  const padding = resolvedPadding(options.padding ?? 0, sizes, spans, strides);
  const attrs = { strides, padding, inputDilation, kernelDilation };
  const { groups = 1 } = options;
  const [features, results] = [x.shape[dims.x.indexOf("f")], weight.shape[dims.kernel.indexOf("o")]] as [
    number,
    number,
  ];
  checkGroups(what, groups, x, features, results);
  return convolve(x, weight, { layout, ...attrs }, groups);
}

const convOf = (rank: number) => {
  const build = (x: Node, weight: Node, options?: ConvOptions): Node => buildConv(x, weight, rank, options);
  return (x: Tensor, weight: Tensor, options: ConvOptions = {}): Tensor => {
    const what = `conv${rank}d`;
    checkOptions(what, options, ["strides", "padding", "dilation", "inputDilation", "groups", "layout"]);
    checkPadding(what, options.padding ?? 0, rank);
    return operate(what, build, [x, weight], options);
  };
};

type Conv = (x: Tensor, weight: Tensor, options?: ConvOptions) => Tensor;

/**
 * 1-D convolution of floats x [batch, features, width] by weight [out, in / groups, kernel width]: [batch, out, width'].
 *
 * @throws HeddleError `shape` or `dtype` if x and weight do not fit; `argument` for malformed options
 */
export const conv1d: Conv = convOf(1);
/** 2-D convolution of x [batch, features, height, width] by weight [out, in / groups, kernel height, kernel width], as {@link conv1d}. */
export const conv2d: Conv = convOf(2);
/** 3-D convolution of x [batch, features, depth, height, width] by weight [out, in / groups, …kernel], as {@link conv1d}. */
export const conv3d: Conv = convOf(3);

/** The gradient of a convolution by its input, as a function: a convolution of the dilated input by the reversed kernel. */
function buildTranspose(x: Node, weight: Node, rank: number, options: ConvTransposeOptions = {}): Node {
  const what = `convTranspose${rank}d`;
  const spatial = digits[rank - 1] as string;
  checkRanks(what, x, weight, rank);
  const of = (name: "strides" | "padding" | "outputPadding" | "dilation", usual: number): number[] =>
    perSpatial(what, name, options[name] ?? usual, rank);
  const [strides, cut, more, dilation] = [
    of("strides", 1),
    of("padding", 0),
    of("outputPadding", 0),
    of("dilation", 1),
  ];
  more.forEach((amount, dim) => {
    if (amount >= 0 && amount < Math.max(strides[dim] as number, dilation[dim] as number)) return;
    throw new HeddleError("option", `${what}: outputPadding ${amount} must be less than the stride or the dilation`);
  });
  const spans = weight.shape.slice(2).map((size, dim) => (size - 1) * (dilation[dim] as number) + 1);
  const padding = spans.map((span, dim): [number, number] => {
    const low = span - 1 - (cut[dim] as number);
    return [low, low + (more[dim] as number)];
  });
  const { groups = 1 } = options;
  const features = x.shape[1] as number;
  checkGroups(what, groups, x, features, features);
  if (weight.shape[0] !== features)
    throw new HeddleError(
      "shape",
      `${what}: the weight ${formatType(weight)} takes ${weight.shape[0]} features, not ${features}`,
    );
  const reversed = ops.reverse(
    weight,
    spans.map((_span, dim) => dim + 2),
  );
  const attrs = { strides: strides.map(() => 1), padding, inputDilation: strides, kernelDilation: dilation };
  return convolve(x, reversed, { layout: `bf${spatial},io${spatial}->bf${spatial}`, ...attrs }, groups, "i");
}

const transposeOf = (rank: number) => {
  const build = (x: Node, weight: Node, options?: ConvTransposeOptions): Node =>
    buildTranspose(x, weight, rank, options);
  return (x: Tensor, weight: Tensor, options: ConvTransposeOptions = {}): Tensor => {
    const what = `convTranspose${rank}d`;
    checkOptions(what, options, ["strides", "padding", "outputPadding", "dilation", "groups"]);
    return operate(what, build, [x, weight], options);
  };
};

type ConvTranspose = (x: Tensor, weight: Tensor, options?: ConvTransposeOptions) => Tensor;

/** Transposed 1-D convolution of x [batch, in, width] by weight [in, out / groups, kernel width], as in PyTorch. */
export const convTranspose1d: ConvTranspose = transposeOf(1);
/** Transposed 2-D convolution of x [batch, in, height, width] by weight [in, out / groups, …kernel], as in PyTorch. */
export const convTranspose2d: ConvTranspose = transposeOf(2);
/** Transposed 3-D convolution of x [batch, in, depth, height, width] by weight [in, out / groups, …kernel], as in PyTorch. */
export const convTranspose3d: ConvTranspose = transposeOf(3);
