/** @module Passes, and those that an executor adds to a compile. */
import type { Graph } from "../ir/node.ts";
import type { Order, RewriteTrace } from "../rewrite/index.ts";

/** A change of graphs. */
export interface GraphPass {
  readonly name: string;
  /** Why the pass exists, and why it is at this position. */
  readonly why: string;
  /** The order that the rules of the pass lower, where they run to a fixed point; so they terminate. */
  readonly order?: Order;
  readonly run: (graph: Graph, trace: RewriteTrace) => Graph;
}

/** The passes of an executor, which run after those of every graph. */
export interface ExecutorPasses {
  /** Passes over the whole graph. */
  readonly beforePlanning?: readonly GraphPass[];
  /** Passes over the graph of each class of devices, and over each body of its loops and branches. */
  readonly afterPlanning?: readonly GraphPass[];
}
