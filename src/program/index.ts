/** @module Programs: the list of steps that one device runs. */
export * from "./count.ts";
export * from "./parse.ts";
export * from "./print.ts";
export * from "./program.ts";
export * from "./serve.ts";
export { isCollective, type SplitOptions, splitGraph } from "./split.ts";
export { type StableHloOptions, stablehloText } from "./stablehlo.ts";
export * from "./verify.ts";
