/** @module Heddle's compressors, each of which registers itself. */
export { bf16, f16 } from "./cast.ts";
export { type CountSketchOptions, countSketch } from "./count-sketch.ts";
export { type Int8Options, int8 } from "./int8.ts";
export { type PowerSgdOptions, powerSgd } from "./power-sgd.ts";
export { type QuantilesOptions, quantiles, type SketchMlOptions, sketchMl } from "./quantiles.ts";
export { oneBit, sign } from "./sign.ts";
export { randomK, type ShareOptions, topK } from "./sparse.ts";
