/** @module Simplification: rules that hold for every value, so that no user can tell whether they ran. */
import type { Graph } from "../ir/node.ts";
import { pathOrder, type RewriteTrace, type Rule, rewriteGraph } from "../rewrite/index.ts";
import { HeddleError } from "../util/errors.ts";
import { movementRules } from "./movement-rules.ts";
import { scalarRules } from "./scalar-rules.ts";

/**
 * The built-in rules of {@link simplify}, in the order in which they are tried: rules of scalar functions, then of structure.
 */
export const simplifyRules: readonly Rule[] = [...scalarRules, ...movementRules];

// A rule replaces an op by lower ones only. Ops that are not listed are at 4.
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

/** The order that {@link simplifyRules} and the rules of formats lower; reversing many dims is above reversing few. */
export const simplifyOrder = pathOrder(({ op, attrs }) =>
  op.name === "reverse" ? 4 + (attrs["dims"] as readonly number[]).length / 100 : (heights[op.name] ?? 4),
);

const userRules: Rule[] = [];

/**
 * Adds a rule to the simplification of every graph that is compiled from now on; it is tried before the built-in rules.
 * The rule must hold for every value; the user answers for a rule that changes rounding.
 *
 * @throws HeddleError `option` when a rule of that name exists.
 * @example addRewriteRule(rule("log", "log of exp", "log(exp(x)) = x", (node) => …))
 */
export function addRewriteRule(rule: Rule): void {
  if ([...simplifyRules, ...userRules].some(({ name }) => name === rule.name))
    throw new HeddleError("option", `a rewrite rule '${rule.name}' exists already`);
  userRules.push(rule);
}

/** The graph with less work and the same values; sums over several dims may round differently. */
export const simplify = (graph: Graph, trace?: RewriteTrace): Graph =>
  rewriteGraph(graph, [...userRules, ...simplifyRules], trace);
