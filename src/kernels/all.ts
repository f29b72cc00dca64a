/** @module All kernels, by family. */
export * from "./attention.ts";
export * from "./collective.ts";
export * from "./control.ts";
export * from "./conv.ts";
export * from "./dot.ts";
export * from "./entries/dot.ts";
export * from "./factor.ts";
export * from "./fft.ts";
export * from "./fused.ts";
export * from "./lookup.ts";
export * from "./narrow/dot.ts";
export * from "./random.ts";
export * from "./reduce.ts";
export * from "./softmax.ts";
export * from "./sort.ts";
export * from "./window.ts";
