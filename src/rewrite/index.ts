/** @module Rewriting graphs by rules that read as equations. */
export { type Order, pathOrder, type Rank } from "./order.ts";
export { rewriteGraph, rewriteOnce } from "./rewrite.ts";
export { type Firing, RewriteTrace, type Rule, rule } from "./rule.ts";
