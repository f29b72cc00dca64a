/** @module Pooling layers. */
import * as tensors from "../functions/index.ts";
import { evalShape, type Tensor } from "../functions/index.ts";
import { checkOptions } from "../util/options.ts";
import { checkImages, imagePadding, type Size, type Size2d, sizesOf } from "./convolution.ts";
import { type Layer, madeBy, type NoTensors, positioned } from "./layer.ts";

type Size1d = number | readonly [number];
type Size3d = number | readonly [number, number, number];

/** Options of max pooling layers. */
export interface MaxPoolLayerOptions<S = Size> {
  /** Default: the size of the window. */
  readonly strides?: S;
  /** Padding around the image, which is never the maximum; default 0. */
  readonly padding?: S | "same" | "valid";
  /** Distance between a window's elements; default 1. */
  readonly dilation?: S;
  /** Whether an incomplete window at the edge counts; default false. */
  readonly ceilMode?: boolean;
}

/** Options of {@link maxPool2d}. */
export type MaxPool2dOptions = MaxPoolLayerOptions<Size2d>;

/** Options of average pooling layers. */
export interface AvgPoolLayerOptions<S = Size> {
  /** Default: the size of the window. */
  readonly strides?: S;
  /** Padding around the image; default 0. */
  readonly padding?: S | "same" | "valid";
  /** Whether an incomplete window at the edge counts; default false. */
  readonly ceilMode?: boolean;
  /** Whether padding counts as zeros in the mean; default true, as in PyTorch. */
  readonly countIncludePad?: boolean;
}

/** A layer without variables over images with `rank` spatial dims. */
function pooling(kind: string, rank: number, apply: (x: Tensor) => Tensor): Layer<NoTensors> {
  return positioned({
    kind,
    init(_key, input) {
      checkImages(input, rank);
      return { params: {}, state: {}, output: evalShape(apply, input) };
    },
    apply: (_variables, x) => ({ y: apply(x), state: {} }),
  });
}

const maxFunctions = [tensors.maxPool1d, tensors.maxPool2d, tensors.maxPool3d] as const;
const averageFunctions = [tensors.avgPool1d, tensors.avgPool2d, tensors.avgPool3d] as const;

function maxLayer(rank: number, size: Size, options: MaxPoolLayerOptions): Layer<NoTensors> {
  const kind = `maxPool${rank}d`;
  checkOptions(kind, options, ["strides", "padding", "dilation", "ceilMode"]);
  const window = sizesOf(kind, "size", size, 1, rank);
  const windowOptions = {
    strides: sizesOf(kind, "strides", options.strides ?? size, 1, rank),
    padding: imagePadding(kind, options.padding ?? 0, rank),
    dilation: sizesOf(kind, "dilation", options.dilation ?? 1, 1, rank),
    ceilMode: options.ceilMode ?? false,
  };
  const pool = maxFunctions[rank - 1] as typeof tensors.maxPool2d;
  return pooling(kind, rank, (x) => pool(x, window, windowOptions));
}

function averageLayer(rank: number, size: Size, options: AvgPoolLayerOptions): Layer<NoTensors> {
  const kind = `avgPool${rank}d`;
  checkOptions(kind, options, ["strides", "padding", "ceilMode", "countIncludePad"]);
  const window = sizesOf(kind, "size", size, 1, rank);
  const windowOptions = {
    strides: sizesOf(kind, "strides", options.strides ?? size, 1, rank),
    padding: imagePadding(kind, options.padding ?? 0, rank),
    ceilMode: options.ceilMode ?? false,
    countIncludePad: options.countIncludePad ?? true,
  };
  const pool = averageFunctions[rank - 1] as typeof tensors.avgPool2d;
  return pooling(kind, rank, (x) => pool(x, window, windowOptions));
}

function adaptiveLayer(
  kind: string,
  rank: number,
  size: Size,
  pool: typeof tensors.adaptiveAvgPool2d,
): Layer<NoTensors> {
  const sizes = sizesOf(kind, "size", size, 1, rank);
  return pooling(kind, rank, (x) => pool(x, sizes));
}

/** The maximum of each window of sequences `[batch, channels, width]`. */
export const maxPool1d = (size: Size1d, options: MaxPoolLayerOptions<Size1d> = {}): Layer<NoTensors> =>
  madeBy(maxLayer(1, size, options), "maxPool1d", size, options);
/** The maximum of each window of images `[batch, channels, height, width]`; an incomplete window at the edge is left out. */
export const maxPool2d = (size: Size2d, options: MaxPool2dOptions = {}): Layer<NoTensors> =>
  madeBy(maxLayer(2, size, options), "maxPool2d", size, options);
/** The maximum of each window of volumes `[batch, channels, depth, height, width]`. */
export const maxPool3d = (size: Size3d, options: MaxPoolLayerOptions<Size3d> = {}): Layer<NoTensors> =>
  madeBy(maxLayer(3, size, options), "maxPool3d", size, options);

/** The mean of each window of sequences `[batch, channels, width]`. */
export const avgPool1d = (size: Size1d, options: AvgPoolLayerOptions<Size1d> = {}): Layer<NoTensors> =>
  madeBy(averageLayer(1, size, options), "avgPool1d", size, options);
/** The mean of each window of images `[batch, channels, height, width]`. */
export const avgPool2d = (size: Size2d, options: AvgPoolLayerOptions<Size2d> = {}): Layer<NoTensors> =>
  madeBy(averageLayer(2, size, options), "avgPool2d", size, options);
/** The mean of each window of volumes `[batch, channels, depth, height, width]`. */
export const avgPool3d = (size: Size3d, options: AvgPoolLayerOptions<Size3d> = {}): Layer<NoTensors> =>
  madeBy(averageLayer(3, size, options), "avgPool3d", size, options);

/** The maxima of `size` parts of sequences, whatever their width. */
export const adaptiveMaxPool1d = (size: Size1d): Layer<NoTensors> =>
  madeBy(adaptiveLayer("adaptiveMaxPool1d", 1, size, tensors.adaptiveMaxPool1d), "adaptiveMaxPool1d", size);
/** The maxima of `size` parts of images, whatever their height and width. */
export const adaptiveMaxPool2d = (size: Size2d): Layer<NoTensors> =>
  madeBy(adaptiveLayer("adaptiveMaxPool2d", 2, size, tensors.adaptiveMaxPool2d), "adaptiveMaxPool2d", size);
/** The maxima of `size` parts of volumes, whatever their sizes. */
export const adaptiveMaxPool3d = (size: Size3d): Layer<NoTensors> =>
  madeBy(adaptiveLayer("adaptiveMaxPool3d", 3, size, tensors.adaptiveMaxPool3d), "adaptiveMaxPool3d", size);
/** The means of `size` parts of sequences, whatever their width. */
export const adaptiveAvgPool1d = (size: Size1d): Layer<NoTensors> =>
  madeBy(adaptiveLayer("adaptiveAvgPool1d", 1, size, tensors.adaptiveAvgPool1d), "adaptiveAvgPool1d", size);
/** The means of `size` parts of images, whatever their height and width. */
export const adaptiveAvgPool2d = (size: Size2d): Layer<NoTensors> =>
  madeBy(adaptiveLayer("adaptiveAvgPool2d", 2, size, tensors.adaptiveAvgPool2d), "adaptiveAvgPool2d", size);
/** The means of `size` parts of volumes, whatever their sizes. */
export const adaptiveAvgPool3d = (size: Size3d): Layer<NoTensors> =>
  madeBy(adaptiveLayer("adaptiveAvgPool3d", 3, size, tensors.adaptiveAvgPool3d), "adaptiveAvgPool3d", size);

/** Dims after batch and channels. */
const spatial = (x: Tensor): number[] => x.shape.map((_size, dim) => dim).slice(2);

/** A layer over images of any number of spatial dims. */
function globalPooling(kind: string, apply: (x: Tensor) => Tensor): Layer<NoTensors> {
  return positioned({
    kind,
    init: (_key, input) => ({ params: {}, state: {}, output: evalShape(apply, input) }),
    apply: (_variables, x) => ({ y: apply(x), state: {} }),
  });
}

/** The mean of each channel: `[batch, channels, …]` to `[batch, channels]`. */
export const globalAvgPool = (): Layer<NoTensors> =>
  madeBy(
    globalPooling("globalAvgPool", (x) => x.mean(spatial(x))),
    "globalAvgPool",
  );
/** The maximum of each channel: `[batch, channels, …]` to `[batch, channels]`; ties share the gradient. */
export const globalMaxPool = (): Layer<NoTensors> =>
  madeBy(
    globalPooling("globalMaxPool", (x) => x.max(spatial(x))),
    "globalMaxPool",
  );
