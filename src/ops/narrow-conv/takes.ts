/** @module Which convolutions of 16-bit floats native code computes without making them wider first. */
import type { View } from "../../ir/kernel.ts";
import { type ConvAttrs, convDims, convForm } from "../convolution-lower.ts";

/** Those of bf16, but for many groups of few channels. */
export function takesHalf(inputs: readonly View[], { layout }: ConvAttrs, outputs: readonly View[]): boolean {
  const [x, kernel, out] = [...inputs, ...outputs] as [View, View, View];
  const form = convForm(convDims(layout), kernel.shape, out.shape);
  return x.dtype === "bf16" && (form === "conv" || form === "convFilter");
}
