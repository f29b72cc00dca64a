/** @module Clusters: the pieces of work that fusion makes, and their limits. */
import type { Node } from "../ir/node.ts";
import type { FoldSpace } from "./fold-space.ts";
import type { Storage } from "./storage.ts";
import type { RegionValues } from "./values.ts";

/** One piece of work: a fused group, a kernel, or a copy. */
export interface Cluster {
  /**
   * Scalar nodes (in a folded group, folds too) in topological order, or one kernel node, or the view node that needs a copy.
   */
  nodes: readonly Node[];
  readonly kind: "group" | "folded" | "kernel" | "copy";
  /** The iteration space of a folded group. */
  readonly space?: FoldSpace;
}

/** Whether the nodes of a cluster read each other's values from registers. */
export const hasRegisters = (cluster: Cluster): boolean => cluster.kind === "group" || cluster.kind === "folded";

/** Bounds that keep a group's working set in the caches of a core. */
export interface FusionLimits {
  readonly instructions: number;
  readonly inputs: number;
}

/** Whether nodes that share one walk read no more views from memory than a group may. */
export function fitsLimits(nodes: readonly Node[], values: RegionValues, limits: FusionLimits): boolean {
  if (nodes.length > limits.instructions) return false;
  const own = new Set(nodes.map((node) => values.storage(node)));
  const reads = nodes
    .flatMap((node) => node.inputs)
    .filter((input) => values.generator(input) === undefined && !own.has(values.storage(input)))
    .map((input) => values.view(input))
    .map(({ origin, offset, strides }) => `${(origin as Storage).id} ${offset} ${strides.join(" ")}`);
  return new Set(reads).size <= limits.inputs;
}
