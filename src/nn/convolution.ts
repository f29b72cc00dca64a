/** @module Convolution layers. */

import {
  conv1d as convolve1d,
  conv2d as convolve2d,
  conv3d as convolve3d,
  evalShape,
  padBorder,
  type Tensor,
  type Tensors,
} from "../functions/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { checkPadding } from "../tensor/arguments.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { checkInit, type Initialiser, initialValue, type LayerInit, uniformByFanIn } from "./initialise.ts";
import { type Biased, type Layer, madeBy, positioned, scopeKey, type Weighted } from "./layer.ts";

/** A size for height and width, or one for each. */
export type Size2d = number | readonly [number, number];

/** A size for all spatial dims, or one for each. */
export type Size = number | readonly number[];

/** Values of the padding: zeros, the mirror image, the nearest element, or the opposite side. */
export type PaddingMode = "zeros" | "reflect" | "replicate" | "circular";

/** Options that convolution layers share. */
export interface ConvLayerOptions<S = Size> {
  /** Number of output channels. */
  readonly out: number;
  /** Sizes of the kernel. */
  readonly kernel: S;
  /** Default 1. */
  readonly strides?: S;
  /** What is added around the image: a size, `"valid"` for none, `"same"` to keep its sizes. Default 0. */
  readonly padding?: S | "same" | "valid";
  /** Values of the padding; default zeros. Other modes need a padding in numbers. */
  readonly paddingMode?: PaddingMode;
  /** Distance between the kernel's elements; default 1. */
  readonly dilation?: S;
  /** Groups into which the channels are divided; an output channel depends on the channels of its own group. Default 1. */
  readonly groups?: number;
  /** Add a bias; default true. */
  readonly bias?: boolean;
  /** Initial values of the parameters, such as `{ weight: nn.init.kaimingNormal() }`; default PyTorch's. */
  readonly init?: LayerInit;
}

/** Options of {@link conv1d}. */
export type Conv1dOptions = ConvLayerOptions<number | readonly [number]>;
/** Options of {@link conv2d}. */
export type Conv2dOptions = ConvLayerOptions<Size2d>;
/** Options of {@link conv3d}. */
export type Conv3dOptions = ConvLayerOptions<number | readonly [number, number, number]>;

/** Spatial dims by name, for messages. */
const dimNames = [["width"], ["height", "width"], ["depth", "height", "width"]] as const;
const namesOf = (rank: number): string => (dimNames[rank - 1] as readonly string[]).join(", ");

/** Checks a size and gives one for each spatial dim. */
export function sizesOf(what: string, name: string, size: Size, lowest: number, rank: number): number[] {
  const list = typeof size === "number" ? new Array<number>(rank).fill(size) : size;
  if (!Array.isArray(list) || list.length !== rank)
    throw new HeddleError("option", `${what}: ${name} must be a number or [${namesOf(rank)}], got ${String(size)}`);
  for (const length of list as number[]) checkInteger(what, name, length, lowest);
  return [...(list as number[])];
}

/** Checks padding and gives it in the form that the operations take. */
export function imagePadding(
  what: string,
  padding: Size | "same" | "valid",
  rank: number,
): number[] | "same" | "valid" {
  if (typeof padding !== "string") return sizesOf(what, "padding", padding, 0, rank);
  checkPadding(what, padding, rank);
  return padding;
}

/** Whether images are more probably `[batch, height, width, channels]` than `[batch, channels, height, width]`. */
export const looksChannelsLast = ([, height = 0, width = 0, channels = 0, ...more]: readonly number[]): boolean =>
  more.length === 0 && [1, 3, 4].includes(channels) && Math.min(height, width) >= 8;

/** The hint for images whose channels are last. */
export const channelsFirst =
  "put (x) => x.transpose([0, 3, 1, 2]) before the first convolution, which takes [batch, channels, height, width]";

/** Adds a hint to errors of an input that is probably channels-last. */
function hintingAtLayout<T>({ shape }: TensorType, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof HeddleError) || error.hint !== undefined || !looksChannelsLast(shape)) throw error;
    const { code, plain, where } = error;
    const hint = `if the images are [batch, height, width, channels], ${channelsFirst}`;
    throw new HeddleError(code, plain, { ...(where === undefined ? {} : { where }), hint, cause: error });
  }
}

/** Throws unless the input is a batch of images. */
export function checkImages(input: TensorType, rank = 2): void {
  if (input.shape.length !== rank + 2) {
    throw new HeddleError("shape", `takes images [batch, channels, ${namesOf(rank)}], got ${formatType(input)}`);
  }
}

/** A layer with a `weight` and a `bias`, which has one value per output channel. */
export function weighted<Bias extends boolean>(
  kind: string,
  rank: number,
  options: {
    readonly bias?: Bias | undefined;
    readonly init?: LayerInit | undefined;
    readonly out: (channels: number) => number;
  },
  shapeOf: (channels: number) => number[],
  apply: (x: Tensor, weight: Tensor) => Tensor,
): Layer<Weighted<Bias>> {
  const { bias = true, init = {} } = options;
  checkInit(kind, init);
  const layer = positioned<Weighted>({
    kind,
    init(key, input) {
      checkImages(input, rank);
      if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
      const { dtype } = input;
      const shape = shapeOf(input.shape[1] as number);
      const fanIn = shape.slice(1).reduce((product, size) => product * size, 1);
      // Before anything is drawn, so that an image too small for the kernel is reported at once.
      const output = hintingAtLayout(input, () => evalShape(apply, input, { dtype, shape }));
      const defaultInit: Initialiser = (parameterKey, sizes) => uniformByFanIn(parameterKey, sizes, fanIn, dtype);
      const make = (name: "weight" | "bias", ordinal: number, sizes: readonly number[]): Tensor =>
        initialValue(name, init[name] ?? defaultInit, scopeKey(key, ordinal), { shape: sizes, dtype });
      const weight = make("weight", 0, shape);
      const out = options.out(input.shape[1] as number);
      const params = bias ? { weight, bias: make("bias", 1, [out]) } : { weight };
      return { params: params as Weighted, state: {}, output };
    },
    apply({ params }, x) {
      const y = apply(x, params.weight);
      if (!bias) return { y, state: {} };
      return { y: y.add(params.bias.reshape([-1, ...new Array<number>(rank).fill(1)])), state: {} };
    },
  });
  // Without a bias, the tree of parameters has no `bias`.
  return layer as Layer<Tensors> as Layer<Weighted<Bias>>;
}

const optionNames = ["out", "kernel", "strides", "padding", "paddingMode", "dilation", "groups", "bias", "init"];
const functions = [convolve1d, convolve2d, convolve3d] as const;

function checkMode(what: string, mode: unknown, padding: unknown): void {
  if (mode === "zeros") return;
  if (mode !== "reflect" && mode !== "replicate" && mode !== "circular")
    throw new HeddleError("option", `${what}: paddingMode is ${shown(mode)}`, {
      hint: 'it can be "zeros", "reflect", "replicate" or "circular"',
    });
  if (typeof padding === "string")
    throw new HeddleError("option", `${what}: paddingMode "${mode}" needs a padding in numbers, got "${padding}"`);
}

/** The convolution of a layer, by its options. */
function convolution(what: string, rank: number, options: Omit<ConvLayerOptions, "out">) {
  const { groups = 1, paddingMode = "zeros" } = options;
  checkInteger(what, "groups", groups, 1);
  const padding = imagePadding(what, options.padding ?? 0, rank);
  checkMode(what, paddingMode, padding);
  const kernel = sizesOf(what, "kernel", options.kernel, 1, rank);
  const window = {
    strides: sizesOf(what, "strides", options.strides ?? 1, 1, rank),
    dilation: sizesOf(what, "dilation", options.dilation ?? 1, 1, rank),
  };
  const convolve = functions[rank - 1] as typeof convolve2d;
  const run = (x: Tensor, weight: Tensor, parts: number): Tensor => {
    if (paddingMode === "zeros" || typeof padding === "string")
      return convolve(x, weight, { ...window, padding, groups: parts });
    const border = [[0, 0] as const, [0, 0] as const, ...padding.map((size) => [size, size] as const)];
    return convolve(padBorder(x, border, paddingMode), weight, { ...window, groups: parts });
  };
  return { kernel, groups, run };
}

function convLayer<Bias extends boolean>(
  what: string,
  rank: number,
  options: ConvLayerOptions & Biased<Bias>,
): Layer<Weighted<Bias>> {
  checkOptions(what, options, optionNames);
  checkInteger(what, "out", options.out, 1);
  const { kernel, groups, run } = convolution(what, rank, options);
  const shapeOf = (channels: number): number[] => {
    if (channels % groups !== 0 || options.out % groups !== 0)
      throw new HeddleError(
        "shape",
        `${groups} groups do not divide ${channels} channels and ${options.out} output channels`,
      );
    return [options.out, channels / groups, ...kernel];
  };
  const layerOptions = { bias: options.bias, init: options.init, out: () => options.out };
  return weighted<Bias>(what, rank, layerOptions, shapeOf, (x, weight) => run(x, weight, groups));
}

/**
 * Cross-correlation of sequences `[batch, in, width]` with `out` kernels. Parameters `weight` `[out, in / groups, width]`
 * and `bias` `[out]` in the dtype of the input, initialised as PyTorch does.
 *
 * @throws HeddleError `option` when a size is not a whole number in its range.
 */
export const conv1d = <Bias extends boolean = true>(options: Conv1dOptions & Biased<Bias>): Layer<Weighted<Bias>> =>
  madeBy(convLayer("conv1d", 1, options), "conv1d", options);

/**
 * Cross-correlation of images `[batch, in, height, width]` with `out` kernels. Parameters `weight`
 * `[out, in / groups, height, width]` and `bias` `[out]` in the dtype of the input, initialised as PyTorch does.
 *
 * @throws HeddleError `option` when a size is not a whole number in its range.
 */
export const conv2d = <Bias extends boolean = true>(options: Conv2dOptions & Biased<Bias>): Layer<Weighted<Bias>> =>
  madeBy(convLayer("conv2d", 2, options), "conv2d", options);

/**
 * Cross-correlation of volumes `[batch, in, depth, height, width]` with `out` kernels. Parameters `weight`
 * `[out, in / groups, depth, height, width]` and `bias` `[out]` in the dtype of the input, initialised as PyTorch does.
 *
 * @throws HeddleError `option` when a size is not a whole number in its range.
 */
export const conv3d = <Bias extends boolean = true>(options: Conv3dOptions & Biased<Bias>): Layer<Weighted<Bias>> =>
  madeBy(convLayer("conv3d", 3, options), "conv3d", options);

/** Options of {@link depthwiseConv2d}. */
export interface DepthwiseConv2dOptions extends Omit<Conv2dOptions, "out" | "groups"> {
  /** Output channels per input channel; default 1. */
  readonly multiplier?: number;
}

const depthwiseNames = optionNames.filter((name) => name !== "out" && name !== "groups").concat("multiplier");

/**
 * A convolution of each channel with kernels of its own: {@link conv2d} with as many groups as there are channels. Parameters
 * `weight` `[in * multiplier, 1, height, width]` and `bias` `[in * multiplier]`.
 */
export function depthwiseConv2d<Bias extends boolean = true>(
  options: DepthwiseConv2dOptions & Biased<Bias>,
): Layer<Weighted<Bias>> {
  const what = "depthwiseConv2d";
  checkOptions(what, options, depthwiseNames);
  const { multiplier = 1 } = options;
  checkInteger(what, "multiplier", multiplier, 1);
  const { kernel, run } = convolution(what, 2, options);
  const layerOptions = { bias: options.bias, init: options.init, out: (channels: number) => channels * multiplier };
  return madeBy(
    weighted(
      what,
      2,
      layerOptions,
      (channels) => [channels * multiplier, 1, ...kernel],
      (x, weight) => run(x, weight, x.shape[1] as number),
    ),
    "depthwiseConv2d",
    options,
  );
}

/** Options of {@link separableConv2d}: those of the depthwise part, and the number of output channels. */
export interface SeparableConv2dOptions extends Omit<DepthwiseConv2dOptions, "init"> {
  /** Number of output channels. */
  readonly out: number;
  /** Initial values of the parameters of both parts. */
  readonly init?: { readonly depthwise?: LayerInit; readonly pointwise?: LayerInit };
}

/**
 * A depthwise convolution without bias, then a convolution with kernels of size 1 that mixes the channels. Parameters
 * `depthwise.weight` `[in * multiplier, 1, height, width]`, `pointwise.weight` `[out, in * multiplier, 1, 1]` and
 * `pointwise.bias` `[out]`.
 */
export function separableConv2d<Bias extends boolean = true>(
  options: SeparableConv2dOptions & Biased<Bias>,
): Layer<{ readonly depthwise: Weighted<false>; readonly pointwise: Weighted<Bias> }> {
  checkOptions("separableConv2d", options, [...depthwiseNames, "out"]);
  const { out, bias = true, init = {}, ...depthwiseOptions } = options;
  checkOptions("separableConv2d init", init, ["depthwise", "pointwise"]);
  const depthwiseLayer = depthwiseConv2d({
    ...depthwiseOptions,
    bias: false,
    ...(init.depthwise === undefined ? {} : { init: init.depthwise }),
  });
  const pointwiseLayer = conv2d({
    out,
    kernel: 1,
    bias: bias as Bias,
    ...(init.pointwise === undefined ? {} : { init: init.pointwise }),
  });
  return madeBy(
    positioned({
      kind: "separableConv2d",
      init(key, input) {
        const depthwise = depthwiseLayer.init(scopeKey(key, "depthwise"), input);
        const pointwise = pointwiseLayer.init(scopeKey(key, "pointwise"), depthwise.output);
        const params = { depthwise: depthwise.params, pointwise: pointwise.params };
        return { params, state: {}, output: pointwise.output };
      },
      apply({ params: { depthwise, pointwise } }, x) {
        const { y } = depthwiseLayer.apply({ params: depthwise, state: {} }, x);
        return { y: pointwiseLayer.apply({ params: pointwise, state: {} }, y).y, state: {} };
      },
    }),
    "separableConv2d",
    options,
  );
}
