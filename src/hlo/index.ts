/** @module StableHLO: graphs as text that XLA compiles, and how each op is spelled in it. */
import "../ops/index.ts";
import "./movement.ts";
import "./collective.ts";
import "./control.ts";
import "./factor.ts";
import "./fourier.ts";
import "./lookup.ts";
import "./random.ts";
import "./reduce.ts";
import "./scalar.ts";
import "./window.ts";

export * from "./block.ts";
export { type StableHloOptions, stablehloText } from "./module.ts";
export { stablehloRules } from "./rules.ts";
