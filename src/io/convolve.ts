/** @module Convolutions of any number of spatial dims and groups, as ONNX and Caffe have them. */
import type { Node } from "../ir/node.ts";
import { formatShape, range } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import type { Tensor } from "../tensor/index.ts";
import { operate } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import type { Window } from "./windows.ts";

/** A convolution of any number of spatial dims, by groups of channels. */
export interface ConvSizes {
  readonly window: Window;
  readonly groups: number;
  /** Zeros between the elements of the input: a transposed convolution's strides. */
  readonly inputDilation?: readonly number[];
}

/** The layout of PyTorch and ONNX for so many spatial dims, `kernel` telling the order of its features; with groups, their dim comes before that of features. */
const layoutOf = (spatial: number, kernel: "oi" | "io", grouped: boolean): string => {
  const digits = range(spatial).join("");
  return grouped ? `bgf${digits},g${kernel}${digits}->bgf${digits}` : `bf${digits},${kernel}${digits}->bf${digits}`;
};

/** A convolution, or, of an input with gaps, the transpose of one; the kernel's features are ordered as `kernel` says. */
export function convolve(
  x: Tensor,
  weight: Tensor,
  kernel: "oi" | "io",
  { window, groups, inputDilation }: ConvSizes,
): Tensor {
  const grouped = groups !== 1;
  const attrs = {
    layout: layoutOf(window.sizes.length, kernel, grouped),
    strides: window.strides,
    padding: window.padding,
    inputDilation: inputDilation ?? window.sizes.map(() => 1),
    kernelDilation: window.dilations,
  };
  const [left, right] = grouped ? [split(x, 1, groups), split(weight, 0, groups)] : [x, weight];
  const y = operate(
    "conv",
    (image: Node, by: Node, given: typeof attrs) => ops.call("conv", [image, by], given),
    [left, right],
    attrs,
  );
  return grouped ? y.reshape([y.shape[0] as number, -1, ...y.shape.slice(3)]) : y;
}

/** Channels, of which each group has as many, as two dims. */
function split(x: Tensor, dim: number, groups: number): Tensor {
  const channels = x.shape[dim] as number;
  if (channels % groups !== 0)
    throw new HeddleError("shape", `${channels} channels of ${formatShape(x.shape)} in ${groups} groups`);
  return x.reshape([...x.shape.slice(0, dim), groups, channels / groups, ...x.shape.slice(dim + 1)]);
}
