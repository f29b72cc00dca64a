/** @module Passes over graphs: simplification and layout. */
export { channelsLast } from "./channels-last.ts";
export { expand } from "./expand.ts";
export { formatRules, isByEntries } from "./formats.ts";
export type { ExecutorPasses, GraphPass } from "./pass.ts";
export { prune } from "./prune.ts";
export { addRewriteRule, simplify, simplifyOrder, simplifyRules } from "./simplify.ts";
