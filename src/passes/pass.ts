/** @module What a pass is, and which ones an executor adds to a compile. */
import type { Graph } from "../ir/node.ts";
import type { Order, RewriteTrace } from "../rewrite/index.ts";

/** A change of graphs. */
export interface GraphPass {
  readonly name: string;
  /** Why it exists and why it stands here. */
  readonly why: string;
  /** What its rules lower, where it has any that run to a fixed point: why they come to an end. */
  readonly order?: Order;
  readonly run: (graph: Graph, trace: RewriteTrace) => Graph;
}

/** The passes that are worth their while on an executor, after those that every graph goes through. */
export interface ExecutorPasses {
  /** On the whole graph. */
  readonly beforePlanning?: readonly GraphPass[];
  /** On the graph of each class of devices, and of each body of its loops and branches. */
  readonly afterPlanning?: readonly GraphPass[];
}
