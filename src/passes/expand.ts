/** @module Puts the bodies of composites that no executor has a kernel for in their places. */
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import { expandNode } from "../ops/index.ts";
import { type RewriteTrace, type Rule, rewriteGraph, rule } from "../rewrite/index.ts";
import { isByEntries } from "./formats.ts";

// The planner says whether what is given by entries becomes dense.
const expandsAway = (node: Node): boolean =>
  !isAbsent(node.op.body) && isAbsent(node.op.lower) && node.types.length === 1 && !isByEntries(node);

export const expandRules: readonly Rule[] = [
  rule("*", "expand composite", "composite(x) = body(x)", (node) =>
    expandsAway(node) ? expandNode(node, node.inputs)[0] : undefined,
  ),
];

/** The graph with such composites expanded, however deep they are nested. */
export const expand = (graph: Graph, trace?: RewriteTrace): Graph => rewriteGraph(graph, expandRules, trace);
