/** @module Pooling layers. */
import { evalShape, maxPool2d as pool, type Tensor } from "../tensor/index.ts";
import { checkOptions } from "../util/options.ts";
import { checkImages, imagePadding, type Size2d, sizePair } from "./convolution.ts";
import { type Layer, positioned } from "./layer.ts";

/** Options of {@link maxPool2d}. */
export interface MaxPool2dOptions {
  /** Default: the size of the window. */
  readonly strides?: Size2d;
  /** Padding around the image, never the maximum; default 0. */
  readonly padding?: Size2d | "same" | "valid";
}

/** The maximum of each window of images `[batch, channels, height, width]`; an incomplete window at the edge is left out. */
export function maxPool2d(size: Size2d, options: MaxPool2dOptions = {}): Layer {
  checkOptions("maxPool2d", options, ["strides", "padding"]);
  const window = sizePair("maxPool2d", "size", size, 1);
  const strides = sizePair("maxPool2d", "strides", options.strides ?? size, 1);
  const padding = imagePadding("maxPool2d", options.padding ?? 0);
  const apply = (x: Tensor): Tensor => pool(x, window, { strides, padding });
  return positioned({
    kind: "maxPool2d",
    init(_key, input) {
      checkImages(input);
      return { params: {}, state: {}, output: evalShape(apply, input) };
    },
    apply: (_variables, x) => ({ y: apply(x), state: {} }),
  });
}
