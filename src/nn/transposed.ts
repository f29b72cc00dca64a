/** @module Transposed convolution layers. */
import {
  convTranspose1d as transpose1d,
  convTranspose2d as transpose2d,
  convTranspose3d as transpose3d,
} from "../functions/index.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { type Size, type Size2d, sizesOf, weighted } from "./convolution.ts";
import type { LayerInit } from "./initialise.ts";
import { type Biased, type Layer, madeBy, type Weighted } from "./layer.ts";

/** Options of transposed convolution layers, as in PyTorch. */
export interface ConvTransposeLayerOptions<S = Size> {
  /** Number of output channels. */
  readonly out: number;
  /** Sizes of the kernel. */
  readonly kernel: S;
  /** Distance between the input's elements in the output; default 1. */
  readonly strides?: S;
  /** Elements cut off each side of the output; default 0. */
  readonly padding?: S;
  /** Elements added to the end of each dim of the output: a strided convolution gives several input sizes the same output size. Default 0. */
  readonly outputPadding?: S;
  /** Distance between the kernel's elements; default 1. */
  readonly dilation?: S;
  /** Default 1. */
  readonly groups?: number;
  /** Add a bias; default true. */
  readonly bias?: boolean;
  /** Initial values of the parameters; default PyTorch's. */
  readonly init?: LayerInit;
}

/** Options of {@link convTranspose1d}. */
export type ConvTranspose1dOptions = ConvTransposeLayerOptions<number | readonly [number]>;
/** Options of {@link convTranspose2d}. */
export type ConvTranspose2dOptions = ConvTransposeLayerOptions<Size2d>;
/** Options of {@link convTranspose3d}. */
export type ConvTranspose3dOptions = ConvTransposeLayerOptions<number | readonly [number, number, number]>;

const functions = [transpose1d, transpose2d, transpose3d] as const;

function layer<Bias extends boolean>(
  what: string,
  rank: number,
  options: ConvTransposeLayerOptions & Biased<Bias>,
): Layer<Weighted<Bias>> {
  checkOptions(what, options, [
    ...["out", "kernel", "strides", "padding", "outputPadding", "dilation", "groups", "bias", "init"],
  ]);
  const { out, groups = 1 } = options;
  checkInteger(what, "out", out, 1);
  checkInteger(what, "groups", groups, 1);
  const kernel = sizesOf(what, "kernel", options.kernel, 1, rank);
  const window = {
    strides: sizesOf(what, "strides", options.strides ?? 1, 1, rank),
    padding: sizesOf(what, "padding", options.padding ?? 0, 0, rank),
    outputPadding: sizesOf(what, "outputPadding", options.outputPadding ?? 0, 0, rank),
    dilation: sizesOf(what, "dilation", options.dilation ?? 1, 1, rank),
    groups,
  };
  const transpose = functions[rank - 1] as typeof transpose2d;
  const shapeOf = (channels: number): number[] => {
    if (channels % groups !== 0 || out % groups !== 0)
      throw new HeddleError("shape", `${groups} groups do not divide ${channels} channels and ${out} output channels`);
    return [channels, out / groups, ...kernel];
  };
  const layerOptions = { bias: options.bias, init: options.init, out: () => out };
  return weighted(what, rank, layerOptions, shapeOf, (x, weight) => transpose(x, weight, window));
}

/**
 * Transposed convolution of sequences `[batch, in, width]`. Parameters `weight` `[in, out / groups, width]` and `bias`
 * `[out]`, as in PyTorch.
 */
export const convTranspose1d = <Bias extends boolean = true>(
  options: ConvTranspose1dOptions & Biased<Bias>,
): Layer<Weighted<Bias>> => madeBy(layer("convTranspose1d", 1, options), "convTranspose1d", options);
/**
 * Transposed convolution of images `[batch, in, height, width]`. Parameters `weight` `[in, out / groups, height, width]`
 * and `bias` `[out]`, as in PyTorch.
 */
export const convTranspose2d = <Bias extends boolean = true>(
  options: ConvTranspose2dOptions & Biased<Bias>,
): Layer<Weighted<Bias>> => madeBy(layer("convTranspose2d", 2, options), "convTranspose2d", options);
/**
 * Transposed convolution of volumes `[batch, in, depth, height, width]`. Parameters `weight`
 * `[in, out / groups, depth, height, width]` and `bias` `[out]`, as in PyTorch.
 */
export const convTranspose3d = <Bias extends boolean = true>(
  options: ConvTranspose3dOptions & Biased<Bias>,
): Layer<Weighted<Bias>> => madeBy(layer("convTranspose3d", 3, options), "convTranspose3d", options);
