/** @module Convolutions of any number of spatial dims and groups, as ONNX and Caffe have them. */
import type { Node } from "../ir/node.ts";
import { range } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import type { Tensor } from "../tensor/index.ts";
import * as h from "../tensor/index.ts";
import { operate } from "../tensor/tensor.ts";
import type { Window } from "./windows.ts";

/** A convolution of any number of spatial dims, by groups of channels. */
export interface ConvSizes {
  readonly window: Window;
  readonly groups: number;
  /** Zeros between the elements of the input: a transposed convolution's strides. */
  readonly inputDilation?: readonly number[];
}

/** The layout of PyTorch and ONNX for so many spatial dims, `kernel` telling the order of its features. */
const layoutOf = (spatial: number, kernel: "oi" | "io"): string => {
  const digits = range(spatial).join("");
  return `bf${digits},${kernel}${digits}->bf${digits}`;
};

/** A convolution, or, of an input with gaps, the transpose of one; the kernel's features are ordered as `kernel` says. */
export function convolve(
  x: Tensor,
  weight: Tensor,
  kernel: "oi" | "io",
  { window, groups, inputDilation }: ConvSizes,
): Tensor {
  const attrs = {
    layout: layoutOf(window.sizes.length, kernel),
    strides: window.strides,
    padding: window.padding,
    inputDilation: inputDilation ?? window.sizes.map(() => 1),
    kernelDilation: window.dilations,
  };
  const one = (part: Tensor, by: Tensor): Tensor =>
    operate(
      "conv",
      (left: Node, right: Node, given: typeof attrs) => ops.call("conv", [left, right], given),
      [part, by],
      attrs,
    );
  if (groups === 1) return one(x, weight);
  const part = (from: Tensor, dim: number, group: number): Tensor => {
    const size = (from.shape[dim] as number) / groups;
    return from.slice(
      from.shape.map((_size, each) => (each === dim ? group * size : 0)),
      from.shape.map((whole, each) => (each === dim ? (group + 1) * size : whole)),
    );
  };
  return h.concat(
    range(groups).map((group) => one(part(x, 1, group), part(weight, 0, group))),
    1,
  );
}
