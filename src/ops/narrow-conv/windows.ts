/** @module Which windows of 16-bit floats native code takes without making them wider first. */
import type { View } from "../../ir/kernel.ts";
import { untouched, type WindowAttrs, windowOrder } from "../window-lower.ts";

/** Whether a windowed value is an extreme of bf16. */
export const takesExtreme = ([x]: readonly View[], { op }: WindowAttrs): boolean =>
  x?.dtype === "bf16" && (op === "max" || op === "min");

/** The same for its gradient, where each input lies in exactly one window, and windows extend over one dim or two neighbours. */
export function takesGradient(inputs: readonly View[], attrs: WindowAttrs): boolean {
  const [{ shape }, source] = inputs as [View, View];
  const moving = windowOrder(attrs, inputs).flatMap((dim, index) => (untouched(attrs, dim) ? [] : [index]));
  const covers = shape.every((size, dim) => {
    const [window, stride] = [attrs.window[dim] as number, attrs.strides[dim] as number];
    const apart = attrs.padding[dim]?.[0] === 0 && (attrs.dilation?.[dim] ?? 1) === 1;
    return window === stride && apart && (source.shape[dim] as number) * stride >= size;
  });
  return takesExtreme(inputs, attrs) && covers && (moving.at(-1) ?? 0) - (moving[0] ?? 0) <= 1;
}
