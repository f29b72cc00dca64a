/** @module Simplification: rules that hold for every value, so that no user can tell whether they ran. */
import type { Graph } from "../ir/node.ts";
import { pathOrder, type RewriteTrace, type Rule, rewriteGraph } from "../rewrite/index.ts";
import { HeddleError } from "../util/errors.ts";
import { scalarRules } from "./scalar-rules.ts";
import { structureRules } from "./structure-rules.ts";

/** The built-in rules of {@link simplify}, in the order in which they are tried: of scalar functions, then of structure. */
export const simplifyRules: readonly Rule[] = [...scalarRules, ...structureRules];

// What is built lies below what it is built of: each op is put in the place of higher ones only. All others are at 4.
const heights: { readonly [op: string]: number } = {
  constant: 0,
  broadcast: 1,
  reshape: 2,
  transpose: 3,
  div: 5,
  gather: 5,
  pow: 6,
  dot: 7,
  sampled: 7,
};

/** What {@link simplifyRules} and the rules of formats lower; reversing many dims is above reversing few. */
export const simplifyOrder = pathOrder(({ op, attrs }) =>
  op.name === "reverse" ? 4 + (attrs["dims"] as readonly number[]).length / 100 : (heights[op.name] ?? 4),
);

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
