/** @module Expansion of composites for which no executor has a kernel into their bodies. */
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import { typeOf } from "../ir/shape.ts";
import { nodesWithin } from "../ir/walk.ts";
import { bodyGraph, expandNode } from "../ops/index.ts";
import { pathOrder, type RewriteTrace, type Rule, rewriteGraph, rule } from "../rewrite/index.ts";
import { isByEntries } from "./formats.ts";

// The planner decides whether a matrix given by entries becomes dense.
const expandsAway = (node: Node): boolean =>
  !isAbsent(node.op.body) && isAbsent(node.op.form) && node.types.length === 1 && !isByEntries(node);

export const expandRules: readonly Rule[] = [
  rule("*", "expand composite", "composite(x) = body(x)", (node) =>
    expandsAway(node) ? expandNode(node, node.inputs)[0] : undefined,
  ),
];

/** How deep bodies are nested in each other. */
const nesting = (node: Node): number =>
  expandsAway(node)
    ? 1 + Math.max(0, ...nodesWithin(bodyGraph(node.op, node.inputs.map(typeOf), node.attrs)).map(nesting))
    : 0;

/** The order that {@link expandRules} lower: the composites in a body are nested less deeply. */
export const expandOrder = pathOrder(nesting);

/** The graph with these composites expanded, at any depth. */
export const expand = (graph: Graph, trace?: RewriteTrace): Graph => rewriteGraph(graph, expandRules, trace);
