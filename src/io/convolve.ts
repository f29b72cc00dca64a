/** @module Convolutions of any number of spatial dims and groups, as ONNX and Caffe have them. */

import { convolve as grouped } from "../functions/convolve.ts";
import type { Tensor } from "../functions/index.ts";
import type { Node } from "../ir/node.ts";
import { range } from "../ir/shape.ts";
import { operate } from "../tensor/tensor.ts";
import type { Window } from "./windows.ts";

/** A convolution of any number of spatial dims, by groups of channels. */
export interface ConvSizes {
  readonly window: Window;
  readonly groups: number;
  /** Zeros between the elements of the input: a transposed convolution's strides. */
  readonly inputDilation?: readonly number[];
}

/** A convolution, or, of an input with gaps, the transpose of one; the kernel's features are ordered as `kernel` says. */
export function convolve(
  x: Tensor,
  weight: Tensor,
  kernel: "oi" | "io",
  { window, groups, inputDilation }: ConvSizes,
): Tensor {
  const digits = range(window.sizes.length).join("");
  const attrs = {
    layout: `bf${digits},${kernel}${digits}->bf${digits}`,
    strides: window.strides,
    padding: window.padding,
    inputDilation: inputDilation ?? window.sizes.map(() => 1),
    kernelDilation: window.dilations,
  };
  const build = (image: Node, by: Node, given: typeof attrs, parts: number, of: "o" | "i"): Node =>
    grouped(image, by, given, parts, of);
  return operate("conv", build, [x, weight], attrs, groups, kernel === "oi" ? "o" : "i");
}
