/**
 * @module Moves elementwise nodes from the group of the values they read to the group that reads their values, where that
 * stores less. Fusion computes everything as early as it can: `1 - y * y` beside `y`, long before the gradient asks for it.
 * Cheap nodes that both groups need are computed in both.
 */
import { isInteger } from "../ir/dtype.ts";
import type { Node } from "../ir/node.ts";
import { sizeOf } from "../ir/shape.ts";
import { flopsOf } from "../ir/walk.ts";
import { type Cluster, type FusionLimits, fitsLimits } from "./cluster.ts";
import { isWhole, type Storage } from "./storage.ts";
import type { RegionValues } from "./values.ts";

/** Sinks nodes; changes `clusters`. */
export function sinkNodes(clusters: Map<Storage, Cluster>, values: RegionValues, limits: FusionLimits): void {
  new Sinker(clusters, values, limits).run();
}

/** The readers of a value: groups that read the value unchanged, or anything that needs it in memory. */
interface Readers {
  readonly groups: Map<Cluster, number>;
  stored: boolean;
}

/** Nodes to compute in another group; the rest of their own group needs those that do not move. */
interface Chain {
  readonly nodes: ReadonlySet<Node>;
  readonly moved: ReadonlySet<Node>;
}

// A chain of more nodes than this is no longer cheap to move.
const longest = 12;

/** Whether computing a value again costs less than reading the value. Integer arithmetic may refuse values, and refuses them once. */
const isCheap = (node: Node): boolean => !isInteger(node.dtype) && flopsOf(node) <= sizeOf(node.shape);

/** The same for a value that a group would keep besides: where no cache holds it, a function such as tanh takes no longer than memory does. */
const mayRepeat = (node: Node): boolean =>
  isCheap(node) || (!isInteger(node.dtype) && sizeOf(node.shape) > 1 << 18 && flopsOf(node) <= 10 * sizeOf(node.shape));

class Sinker {
  private readonly clusters: Map<Storage, Cluster>;
  private readonly values: RegionValues;
  private readonly limits: FusionLimits;
  private readonly readers = new Map<Storage, Readers>();

  constructor(clusters: Map<Storage, Cluster>, values: RegionValues, limits: FusionLimits) {
    this.clusters = clusters;
    this.values = values;
    this.limits = limits;
  }

  run(): void {
    for (const cluster of new Set(this.clusters.values()))
      for (const node of cluster.nodes) this.countReads(cluster, node, 1);
    for (const output of this.values.graph.outputs) this.readersOf(this.values.storage(output)).stored = true;
    for (const node of [...this.values.order].reverse()) {
      const source = this.clusters.get(this.values.storage(node));
      if (source?.kind !== "group" || source.nodes.length === 1 || !source.nodes.includes(node)) continue;
      const [target, ...others] = this.othersOf(this.values.storage(node), source) ?? [];
      if (target?.kind !== "group" || others.length > 0 || (this.reads(source, node) && !mayRepeat(node))) continue;
      const chain = this.chain(node, source, target);
      if (chain !== undefined) this.move(chain, source, target);
    }
  }

  private readersOf(storage: Storage): Readers {
    const known = this.readers.get(storage) ?? { groups: new Map(), stored: false };
    this.readers.set(storage, known);
    return known;
  }

  private countReads(cluster: Cluster, node: Node, change: number): void {
    const copy = cluster.kind === "copy" ? this.values.copies.get(node) : undefined;
    const views = copy === undefined ? node.inputs.map((input) => this.values.view(input)) : [copy.from];
    views.forEach((view, index) => {
      if (copy === undefined && this.values.generator(node.inputs[index] as Node) !== undefined) return;
      const readers = this.readersOf(view.origin as Storage);
      if (cluster.kind !== "group" || !isWhole(view)) readers.stored = true;
      else readers.groups.set(cluster, (readers.groups.get(cluster) ?? 0) + change);
    });
    // What waits for a value cannot be in one walk with the value.
    for (const input of [node, ...node.inputs])
      for (const storage of this.values.waitsOf(input)) this.readersOf(storage).stored = true;
  }

  /** The groups besides these that read a value; undefined if the value must be in memory anyway. */
  private othersOf(storage: Storage, ...known: readonly (Cluster | undefined)[]): Cluster[] | undefined {
    const { groups, stored } = this.readersOf(storage);
    if (stored) return undefined;
    return [...groups].flatMap(([cluster, count]) => (count > 0 && !known.includes(cluster) ? [cluster] : []));
  }

  /** Whether nodes of a group read a value, besides these nodes. */
  private reads({ nodes }: Cluster, value: Node, besides?: ReadonlySet<Node>): boolean {
    const readsIt = (input: Node): boolean => this.values.view(input).origin === this.values.storage(value);
    return nodes.some((node) => besides?.has(node) !== true && node.inputs.some(readsIt));
  }

  /** The chain that ends with `last`, so that less is stored; undefined if nothing is gained. */
  private chain(last: Node, source: Cluster, target: Cluster): Chain | undefined {
    const { bytes } = this.values.storage(last);
    const nodes = new Set([last]);
    const moved = new Set(this.reads(source, last) ? [] : [last]);
    while (nodes.size <= longest) {
      const needed = this.newlyStored({ nodes, moved }, source, target);
      const cost = [...needed.values()].reduce((sum, size) => sum + size, 0);
      const own = [...needed.keys()].filter((node) => this.clusters.get(this.values.storage(node)) === source);
      // `1 + tanh` and `1 - tanh²` need as much memory as the tanh, which serves both.
      const serves = nodes.size <= 2 && needed.size === 1 && own[0] !== undefined && !isCheap(own[0]);
      if (cost < bytes || (cost === bytes && serves))
        return fitsLimits([...nodes, ...target.nodes], this.values, this.limits) ? { nodes, moved } : undefined;
      const leaving = own.find((node) => this.leaves(node, moved, source, target));
      const next = leaving ?? own.find(isCheap);
      if (next === undefined) return undefined;
      nodes.add(next);
      if (leaving !== undefined) moved.add(leaving);
    }
    return undefined;
  }

  /** Values to store, or to keep for a target that computes values again, for the chain to run in the target; with their bytes. */
  private newlyStored({ nodes, moved }: Chain, source: Cluster, target: Cluster): Map<Node, number> {
    const needed = new Map<Node, number>();
    for (const input of [...nodes].flatMap((node) => node.inputs)) {
      if (nodes.has(input) || target.nodes.includes(input) || this.values.generator(input) !== undefined) continue;
      const storage = this.values.storage(input);
      const owner = this.clusters.get(storage);
      const isRead = (this.readersOf(storage).groups.get(target) ?? 0) > 0;
      // A value that other clusters read from memory is stored anyway; so are the region's inputs.
      const isStoredAnyway =
        owner === source ? this.othersOf(storage, owner)?.length !== 0 : owner === undefined || isRead;
      const isStored = moved.size === nodes.size ? isStoredAnyway : isRead;
      if (!isStored) needed.set(input, storage.bytes);
    }
    return needed;
  }

  /** Whether nothing but the target and the nodes that move there needs a value. */
  private leaves(node: Node, moved: ReadonlySet<Node>, source: Cluster, target: Cluster): boolean {
    const others = this.othersOf(this.values.storage(node), source, target);
    return others?.length === 0 && !this.reads(source, node, moved);
  }

  private move({ nodes, moved }: Chain, source: Cluster, target: Cluster): void {
    for (const node of moved) {
      this.countReads(source, node, -1);
      this.clusters.set(this.values.storage(node), target);
    }
    for (const node of nodes) this.countReads(target, node, 1);
    for (const node of nodes) if (!moved.has(node)) this.readersOf(this.values.storage(node)).groups.delete(target);
    source.nodes = source.nodes.filter((node) => !moved.has(node));
    target.nodes = this.values.inOrder(new Set([...nodes, ...target.nodes]));
  }
}
