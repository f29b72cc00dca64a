/** @module Simplification: rules that hold for every value, so that no user can tell whether they ran. */
import type { Graph } from "../ir/node.ts";
import { type RewriteTrace, type Rule, rewriteGraph } from "../rewrite/index.ts";
import { HeddleError } from "../util/errors.ts";
import { scalarRules } from "./scalar-rules.ts";
import { structureRules } from "./structure-rules.ts";

/** The built-in rules of {@link simplify}, in the order in which they are tried: of scalar functions, then of structure. */
export const simplifyRules: readonly Rule[] = [...scalarRules, ...structureRules];

const ownRules: Rule[] = [];

/**
 * Adds a rule of one's own to the simplification of every graph that is compiled from now on; it is tried before the built-in
 * ones. It must hold for every value, and where it changes rounding that is the user's to answer for.
 *
 * @throws HeddleError `option` when a rule of that name is there already.
 * @example addRewriteRule(rule("log", "log of exp", "log(exp(x)) = x", (node) => …))
 */
export function addRewriteRule(rule: Rule): void {
  if ([...simplifyRules, ...ownRules].some(({ name }) => name === rule.name))
    throw new HeddleError("option", `there is a rewrite rule '${rule.name}' already`);
  ownRules.push(rule);
}

/** The graph with less work and the same values; sums over several dims may round differently. */
export const simplify = (graph: Graph, trace?: RewriteTrace): Graph =>
  rewriteGraph(graph, [...ownRules, ...simplifyRules], trace);
