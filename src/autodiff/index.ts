/** @module Differentiation of graphs. */
export { gradients, pullback } from "./gradient.ts";
