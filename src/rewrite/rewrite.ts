/** @module Rewriting of a graph by rules until none applies. */
import { inlineGraph, inputSpecs, mapGraphs, traceGraph } from "../ir/graph.ts";
import type { Attrs, Graph, Node } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import { apply, atPositionOf, isGraph } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import type { RewriteTrace, Rule } from "./rule.ts";

// Rules that undo each other, or add nodes without end, would not terminate; no sound list comes near these bounds.
const longestChain = 1000;
const deepestReplacement = 500;

/**
 * Rewrites a graph, and the graphs its ops own, to a fixed point: nodes are visited inputs first, and a replacement is
 * rewritten in turn. The first rule of the list that applies is used.
 *
 * @throws HeddleError `rewrite` naming the node where rules do not come to an end.
 */
export function rewriteGraph(graph: Graph, rules: readonly Rule[], trace?: RewriteTrace): Graph {
  const index = indexByRoot(rules);
  return rewriteOwned(
    graph,
    () => {
      const normalizer = new Normalizer(index, trace);
      return (node) => normalizer.normalize(node);
    },
    new Map(),
  );
}

/**
 * Rewrites each node of a graph, and of the graphs its ops own, at most once, inputs first, by the first rule that applies.
 * A replacement is not rewritten again, so this terminates also with rules that could undo themselves, such as those that move
 * an op in one direction.
 */
export function rewriteOnce(graph: Graph, rules: readonly Rule[], trace?: RewriteTrace): Graph {
  const index = indexByRoot(rules);
  return rewriteOwned(graph, () => (node) => firstStep(index, node, trace) ?? node, new Map());
}

type RuleIndex = (node: Node) => readonly Rule[];

/** Rules by the name of the root op, in the order of the list. */
function indexByRoot(rules: readonly Rule[]): RuleIndex {
  const index = new Map<string, readonly Rule[]>();
  return ({ op: { name } }) => {
    const known = index.get(name);
    if (known !== undefined) return known;
    const fitting = rules.filter(({ roots }) => roots.includes(name) || roots.includes("*"));
    index.set(name, fitting);
    return fitting;
  };
}

/** The replacement of a node by the first rule that applies. */
function firstStep(rules: RuleIndex, node: Node, trace: RewriteTrace | undefined): Node | undefined {
  for (const rule of rules(node)) {
    const next = atPositionOf(node, () => rule.rewrite(node));
    if (next === undefined || next === node) continue;
    trace?.record(rule, node, next);
    return next;
  }
  return undefined;
}

/** Rewrites the nodes of a graph, once their inputs are final, by the function that `begin` makes for each trace. */
function rewriteOwned(graph: Graph, begin: () => (node: Node) => Node, owned: Map<Graph, Graph>): Graph {
  const attrsOf = (attrs: Attrs): Attrs => {
    if (!Object.values(attrs).some(isGraph)) return attrs;
    return mapGraphs(attrs, body);
  };
  const body = (value: Graph): Graph => {
    const known = owned.get(value) ?? rewriteOwned(value, begin, owned);
    owned.set(value, known);
    return known;
  };
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => {
    const rewritten = begin();
    return inlineGraph(graph, inputs, (node, operands) => rewritten(apply(node.op, operands, attrsOf(node.attrs))));
  });
}

/** Rewrites the nodes of one trace to normal form, in which no rule applies. */
class Normalizer {
  private readonly rules: RuleIndex;
  private readonly trace: RewriteTrace | undefined;
  /** The final form of each visited node. */
  private readonly done = new Map<Node, Node>();
  private depth = 0;

  constructor(rules: RuleIndex, trace: RewriteTrace | undefined) {
    this.rules = rules;
    this.trace = trace;
  }

  normalize(node: Node): Node {
    const chain: Node[] = [];
    let current = node;
    for (;;) {
      const known = this.done.get(current);
      if (known !== undefined) return this.finish(chain, known);
      chain.push(current);
      const next = this.withFinalInputs(current);
      const step = next === current ? this.step(current) : next;
      if (step === undefined) return this.finish(chain, current);
      if (chain.length > longestChain) throw endless(current);
      current = step;
    }
  }

  private finish(chain: readonly Node[], result: Node): Node {
    for (const node of chain) this.done.set(node, result);
    this.done.set(result, result);
    return result;
  }

  private step(node: Node): Node | undefined {
    const next = firstStep(this.rules, node, this.trace);
    if (next !== undefined) this.trace?.checkLower(node, next);
    return next;
  }

  // Recursion is as deep as replacements are: inputs of the graph's nodes are done already.
  private withFinalInputs(node: Node): Node {
    if (++this.depth > deepestReplacement) throw endless(node);
    const inputs = node.inputs.map((input) => this.done.get(input) ?? this.normalize(input));
    this.depth--;
    if (inputs.every((input, index) => input === node.inputs[index])) return node;
    return atPositionOf(node, () => apply(node.op, inputs, node.attrs));
  }
}

function endless(node: Node): HeddleError {
  return new HeddleError("rewrite", `rules do not come to an end at ${describeNode(node)}`);
}
