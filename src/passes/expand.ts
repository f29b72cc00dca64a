/** @module Puts the bodies of composites that no executor has a kernel for in their places. */
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import { expandNode } from "../ops/index.ts";
import { type RewriteTrace, type Rule, rewriteGraph, rule } from "../rewrite/index.ts";

const expandsAway = ({ op, types }: Node): boolean => !isAbsent(op.body) && isAbsent(op.lower) && types.length === 1;

export const expandRules: readonly Rule[] = [
  rule("*", "expand composite", "composite(x) = body(x)", (node) =>
    expandsAway(node) ? expandNode(node, node.inputs)[0] : undefined,
  ),
];

/** The graph with such composites expanded, however deep they are nested. */
export const expand = (graph: Graph, trace?: RewriteTrace): Graph => rewriteGraph(graph, expandRules, trace);
