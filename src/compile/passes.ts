/** @module The passes between differentiation and planning, in order. */
import type { Graph } from "../ir/node.ts";
import { verifyGraph } from "../ir/verify.ts";
import { topological } from "../ir/walk.ts";
import { channelsLast } from "../passes/channels-last.ts";
import { expand, expandOrder } from "../passes/expand.ts";
import { open } from "../passes/open.ts";
import { prune } from "../passes/prune.ts";
import { simplify, simplifyOrder } from "../passes/simplify.ts";
import { type Order, RewriteTrace } from "../rewrite/index.ts";

export interface Pass {
  readonly name: string;
  /** Why it exists and why it stands here. */
  readonly why: string;
  /** What its rules lower, where it has any that run to a fixed point: why they come to an end. */
  readonly order?: Order;
  readonly run: (graph: Graph, trace: RewriteTrace) => Graph;
}

/** What every graph that is compiled goes through, in this order; each says why it stands where it does. */
export const standardPasses: readonly Pass[] = [
  {
    name: "open",
    why: "remat and derivatives of one's own are graphs with a wish for the transforms, which are done; before prune, which looks into loops",
    run: open,
  },
  {
    name: "prune",
    why: "scans stack their carries for a gradient that may not be asked for; early, since what goes needs no other pass",
    run: prune,
  },
  {
    name: "expand",
    why: "composites without a kernel hide ops from the rules; their named gradients are taken by now",
    order: expandOrder,
    run: expand,
  },
  {
    name: "simplify",
    why: "gradients are written for clarity and leave ones, zeros and transposes behind",
    order: simplifyOrder,
    run: simplify,
  },
  {
    name: "channelsLast",
    why: "native convolutions read channels last; after simplify, so that few transposes are left to move",
    order: simplifyOrder,
    run: channelsLast,
  },
];

export interface PassReport {
  readonly name: string;
  readonly milliseconds: number;
  readonly nodesBefore: number;
  readonly nodesAfter: number;
  readonly trace: RewriteTrace;
}

export interface PassResult {
  readonly graph: Graph;
  readonly reports: readonly PassReport[];
}

/**
 * Runs passes in order; the graph is verified after each.
 *
 * @param options.skip Names of passes to leave out.
 * @param options.check Whether each use of a rule is checked to lower the order of its pass; tests do so, a user's own rules
 *   have none.
 * @throws HeddleError `rewrite` naming a rule that does not.
 */
export function runPasses(
  graph: Graph,
  passes: readonly Pass[] = standardPasses,
  options: { readonly skip?: readonly string[]; readonly check?: boolean } = {},
): PassResult {
  const reports: PassReport[] = [];
  let current = graph;
  for (const { name, order, run } of passes) {
    if (options.skip?.includes(name)) continue;
    const trace = new RewriteTrace(options.check === true ? order : undefined);
    const nodesBefore = countNodes(current);
    const start = performance.now();
    current = run(current, trace);
    const milliseconds = performance.now() - start;
    verifyGraph(current);
    reports.push({ name, milliseconds, nodesBefore, nodesAfter: countNodes(current), trace });
  }
  return { graph: current, reports };
}

const countNodes = (graph: Graph): number => topological(graph.outputs).length;
