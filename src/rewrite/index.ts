/** @module Rewriting graphs by rules that read as equations. */
export { rewriteGraph } from "./rewrite.ts";
export { type Firing, RewriteTrace, type Rule, rule } from "./rule.ts";
