/**
 * @module Moves elementwise nodes from the group of the values they read to the group that reads their values, where that
 * stores less. Fusion computes everything as early as it can: `1 - y * y` beside `y`, long before the gradient asks for it.
 */
import type { Node } from "../ir/node.ts";
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

// A chain of more nodes than this is no longer cheap to move.
const longest = 12;

class Sinker {
  private readonly clusters: Map<Storage, Cluster>;
  private readonly values: RegionValues;
  private readonly limits: FusionLimits;
  private readonly readers = new Map<Storage, Readers>();
  private readonly position: ReadonlyMap<Node, number>;

  constructor(clusters: Map<Storage, Cluster>, values: RegionValues, limits: FusionLimits) {
    this.clusters = clusters;
    this.values = values;
    this.limits = limits;
    this.position = new Map(values.order.map((node, index) => [node, index]));
  }

  run(): void {
    for (const cluster of new Set(this.clusters.values()))
      for (const node of cluster.nodes) this.countReads(cluster, node, 1);
    for (const output of this.values.graph.outputs) this.readersOf(this.values.storage(output)).stored = true;
    for (const node of [...this.values.order].reverse()) {
      const source = this.clusters.get(this.values.storage(node));
      if (source?.kind !== "group" || source.nodes.length === 1 || !source.nodes.includes(node)) continue;
      const target = this.onlyReader(node);
      if (target === undefined || target === source || target.kind !== "group") continue;
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

  /** The one group that reads a value, if nothing else does. */
  private onlyReader(node: Node): Cluster | undefined {
    const { groups, stored } = this.readersOf(this.values.storage(node));
    const reading = [...groups].flatMap(([cluster, count]) => (count > 0 ? [cluster] : []));
    return stored || reading.length !== 1 ? undefined : reading[0];
  }

  /** The nodes to move along with `last` so that less is stored; undefined if nothing is gained. */
  private chain(last: Node, source: Cluster, target: Cluster): Set<Node> | undefined {
    const moved = new Set([last]);
    while (moved.size <= longest) {
      const needed = this.newlyStored(moved, source, target);
      const cost = [...needed.values()].reduce((total, bytes) => total + bytes, 0);
      if (cost < this.values.storage(last).bytes)
        return fitsLimits([...moved, ...target.nodes], this.values, this.limits) ? moved : undefined;
      const next = [...needed.keys()].find((node) => node !== undefined && this.readOnlyBy(node, moved, source));
      if (next === undefined) return undefined;
      moved.add(next);
    }
    return undefined;
  }

  /** Values that would have to be stored for `moved` to run in `target`, with their bytes. */
  private newlyStored(moved: ReadonlySet<Node>, source: Cluster, target: Cluster): Map<Node, number> {
    const needed = new Map<Node, number>();
    for (const node of moved) {
      for (const input of node.inputs) {
        if (moved.has(input) || this.values.generator(input) !== undefined) continue;
        const storage = this.values.storage(input);
        const owner = this.clusters.get(storage);
        const { groups, stored } = this.readersOf(storage);
        // A value that other clusters read from memory is stored anyway; so are the region's inputs.
        const storedForOthers =
          stored || [...groups].some(([cluster, count]) => count > 0 && cluster !== owner && cluster !== source);
        const alreadyStored = owner === source ? storedForOthers : owner === undefined || (groups.get(target) ?? 0) > 0;
        if (!alreadyStored) needed.set(input, storage.bytes);
      }
    }
    return needed;
  }

  private readOnlyBy(node: Node, moved: ReadonlySet<Node>, source: Cluster): boolean {
    if (!source.nodes.includes(node) || this.onlyReader(node) !== source) return false;
    return source.nodes.every((other) => moved.has(other) || !other.inputs.includes(node));
  }

  private move(moved: ReadonlySet<Node>, source: Cluster, target: Cluster): void {
    for (const node of moved) {
      this.countReads(source, node, -1);
      this.countReads(target, node, 1);
      this.clusters.set(this.values.storage(node), target);
    }
    source.nodes = source.nodes.filter((node) => !moved.has(node));
    target.nodes = [...moved, ...target.nodes].sort((left, right) => this.at(left) - this.at(right));
  }

  private at(node: Node): number {
    return this.position.get(node) as number;
  }
}
