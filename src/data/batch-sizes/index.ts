/** @module Sizes of batches over a training. */
export { type BatchSizes, fixed, type StepNoise } from "./batch-sizes.ts";
export { type ByNoiseOptions, byNoise, type NoiseSizes } from "./by-noise.ts";
export { bySpeed } from "./by-speed.ts";
export { type GrowingOptions, growing } from "./growing.ts";
export { hybrid } from "./hybrid.ts";
