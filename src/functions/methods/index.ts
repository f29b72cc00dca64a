/**
 * @module The functions that are methods too: what a file of this folder exports is a method of tensors by its name, with the tensor
 * as its first argument, docs and types included.
 */
export * from "./at.ts";
export * from "./casts.ts";
export * from "./close.ts";
export * from "./cumulative.ts";
export * from "./elementwise.ts";
export * from "./lookup.ts";
export * from "./order.ts";
export * from "./pairs.ts";
export * from "./products.ts";
export * from "./rearrange.ts";
export * from "./reductions.ts";
export * from "./shapes.ts";
export * from "./softmax.ts";
export * from "./statistics.ts";
