/** @module Puts the bodies of composites that no executor has a kernel for in their places. */
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import { typeOf } from "../ir/shape.ts";
import { nodesWithin } from "../ir/walk.ts";
import { bodyGraph, expandNode } from "../ops/index.ts";
import { pathOrder, type RewriteTrace, type Rule, rewriteGraph, rule } from "../rewrite/index.ts";
import { isByEntries } from "./formats.ts";

// The planner says whether what is given by entries becomes dense.
const expandsAway = (node: Node): boolean =>
  !isAbsent(node.op.body) && isAbsent(node.op.form) && node.types.length === 1 && !isByEntries(node);

export const expandRules: readonly Rule[] = [
  rule("*", "expand composite", "composite(x) = body(x)", (node) =>
    expandsAway(node) ? expandNode(node, node.inputs)[0] : undefined,
  ),
];

/** How many bodies lie within each other. */
const nesting = (node: Node): number =>
  expandsAway(node)
    ? 1 + Math.max(0, ...nodesWithin(bodyGraph(node.op, node.inputs.map(typeOf), node.attrs)).map(nesting))
    : 0;

/** What {@link expandRules} lower: a body is made of composites that are nested less deeply. */
export const expandOrder = pathOrder(nesting);

/** The graph with such composites expanded, however deep they are nested. */
export const expand = (graph: Graph, trace?: RewriteTrace): Graph => rewriteGraph(graph, expandRules, trace);
