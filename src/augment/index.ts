/** @module Augmentation: batches changed at random within the step, by seed, epoch and index of a row alone. */
export { type Augmentation, type AugmentedBatch, chain } from "./augmentation.ts";
export {
  type AffineOptions,
  affine,
  type ColourOptions,
  type CropOptions,
  colour,
  crop,
  type EraseOptions,
  erase,
  type FlipOptions,
  flip,
  noise,
  rotate,
} from "./images.ts";
export { cutmix, type MixtureOptions, mixup } from "./mixtures.ts";
export { type DropWordsOptions, dropWords, type SwapWordsOptions, swapWords } from "./words.ts";
