/** @module Convolutions of 1 to 3 spatial dims, by groups of channels, and their transposes. */
import { HeddleError } from "../../extend/index.ts";
import { conv1d, conv2d, conv3d, type Tensor } from "../../functions/index.ts";
import { range } from "../../ir/index.ts";
import type { Window } from "./windows.ts";

/** A convolution by a weight `[out, in / groups, …kernel]`. */
export const convolve = (x: Tensor, weight: Tensor, window: Window, groups: number): Tensor =>
  over(window, "oi", x, weight, { groups });

/**
 * The transpose of a convolution by a weight `[in, out / groups, …kernel]` that is reversed along its kernel dims: a
 * convolution of an input with gaps, which are the strides of the transposed convolution.
 */
export function convolveApart(
  x: Tensor,
  weight: Tensor,
  window: Window,
  groups: number,
  gaps: readonly number[],
): Tensor {
  const [features, results, ...kernel] = weight.shape as [number, number, ...number[]];
  // The parts of all groups side by side among the results, as a convolution has them.
  const turned = weight
    .reshape([groups, features / groups, results, ...kernel])
    .transpose([1, 0, 2, ...kernel.map((_size, dim) => dim + 3)])
    .reshape([features / groups, groups * results, ...kernel]);
  return over(window, "io", x, groups === 1 ? weight : turned, { groups, inputDilation: gaps });
}

function over(
  { sizes, strides, padding, dilations }: Window,
  kernel: "oi" | "io",
  x: Tensor,
  weight: Tensor,
  options: { readonly groups: number; readonly inputDilation?: readonly number[] },
): Tensor {
  const conv = [conv1d, conv2d, conv3d][sizes.length - 1];
  if (conv === undefined) throw new HeddleError("op", `a convolution over ${sizes.length} dims is not imported`);
  const digits = range(sizes.length).join("");
  const layout = `bf${digits},${kernel}${digits}->bf${digits}`;
  return conv(x, weight, { strides, padding, dilation: dilations, layout, ...options });
}
