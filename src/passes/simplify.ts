/** @module Simplification: rules that hold for every value, so that no user can tell whether they ran. */
import type { Graph } from "../ir/node.ts";
import { type RewriteTrace, type Rule, rewriteGraph } from "../rewrite/index.ts";
import { scalarRules } from "./scalar-rules.ts";
import { structureRules } from "./structure-rules.ts";

export const simplifyRules: readonly Rule[] = [...scalarRules, ...structureRules];

/** The graph with less work and the same values; sums over several dims may round differently. */
export const simplify = (graph: Graph, trace?: RewriteTrace): Graph => rewriteGraph(graph, simplifyRules, trace);
