/**
 * @module Fusion: elementwise nodes that share one pass over memory.
 *
 * Nodes join greedily, in topological order, the groups of the values they read. A join must not make a cycle: no path
 * may leave a group and return to it.
 */
import type { View } from "../ir/kernel.ts";
import type { Node } from "../ir/node.ts";
import { type Shape, sameShape } from "../ir/shape.ts";
import { type Cluster, type FusionLimits, fitsLimits } from "./cluster.ts";
import { foldGroups } from "./fold.ts";
import { Joinable } from "./joins.ts";
import { sinkNodes } from "./sink.ts";
import { isWhole, type Storage } from "./storage.ts";
import { formOf, type RegionValues } from "./values.ts";

export const defaultLimits: FusionLimits = { instructions: 64, inputs: 16 };

/** Partitions the work of a region into clusters. `values` has the views of all values. */
export function fuseRegion(values: RegionValues, limits: FusionLimits = defaultLimits): Map<Storage, Cluster> {
  const clusters = new Fuser(values, limits).run();
  sinkNodes(clusters, values, limits);
  return foldGroups(clusters, values, limits);
}

class Piece extends Joinable<Piece> {
  nodes: Node[];
  readonly kind: Cluster["kind"];
  readonly shape: Shape | undefined;
  /** Pieces that this piece reads through views, and so can never join. */
  readonly apart = new Set<Piece>();

  constructor(kind: Cluster["kind"], node: Node, shape?: Shape) {
    super();
    this.kind = kind;
    this.nodes = [node];
    this.shape = shape;
  }

  absorb(other: Piece): void {
    this.nodes.push(...other.nodes);
    for (const dep of other.apart) this.apart.add(dep);
    this.take(other);
  }
}

class Fuser {
  private readonly values: RegionValues;
  private readonly limits: FusionLimits;
  private readonly owner = new Map<Storage, Piece>();

  constructor(values: RegionValues, limits: FusionLimits) {
    this.values = values;
    this.limits = limits;
  }

  run(): Map<Storage, Cluster> {
    for (const node of this.values.order) this.add(node);
    const clusters = new Map<Piece, Cluster>();
    const result = new Map<Storage, Cluster>();
    for (const [storage, piece] of this.owner) {
      const root = piece.root();
      const cluster = clusters.get(root) ?? {
        kind: root.kind,
        nodes: this.values.inOrder(root.nodes),
      };
      clusters.set(root, cluster);
      result.set(storage, cluster);
    }
    return result;
  }

  private add(node: Node): void {
    const form = formOf(node);
    const copy = this.values.copies.get(node);
    if (copy !== undefined) this.enter(new Piece("copy", node), [copy.from], [copy.to], this.values.waitsOf(node));
    if (form.kind === "kernel") {
      this.enter(
        new Piece("kernel", node),
        node.inputs.map((input) => this.values.view(input)),
        this.values.results(node),
        node.inputs.flatMap((input) => this.values.waitsOf(input)),
      );
    }
    if (form.kind === "pointwise") this.addScalar(node);
  }

  private enter(piece: Piece, reads: readonly View[], writes: readonly View[], waits: readonly Storage[]): void {
    for (const storage of [...reads.map((view) => view.origin as Storage), ...waits]) {
      const source = this.owner.get(storage);
      if (source !== undefined) piece.deps.add(source.root());
    }
    for (const view of writes) this.owner.set(view.origin as Storage, piece);
  }

  private addScalar(node: Node): void {
    const read = node.inputs.filter((input) => this.values.generator(input) === undefined);
    const piece = new Piece("group", node, node.shape);
    const views = read.map((input) => this.values.view(input));
    const waits = read.flatMap((input) => this.values.waitsOf(input));
    this.enter(piece, views, this.values.results(node), waits);
    // Within one walk, a node cannot wait for another one.
    for (const storage of waits) {
      const source = this.owner.get(storage)?.root();
      if (source !== undefined && source !== piece) piece.apart.add(source);
    }
    const direct = new Set<Piece>();
    for (const view of views) {
      const source = this.owner.get(view.origin as Storage)?.root();
      if (source === undefined) continue;
      if (source.kind === "group" && sameShape(view.shape, node.shape) && isWhole(view)) direct.add(source);
      else piece.apart.add(source);
    }
    const latest = (candidate: Piece): number =>
      candidate.nodes.reduce((last, member) => Math.max(last, this.values.position(member)), 0);
    for (const source of [...direct].sort((left, right) => latest(right) - latest(left)))
      this.join(source.root(), piece.root());
  }

  /** Merges `reader` and the group it reads, if that is allowed. */
  private join(source: Piece, reader: Piece): boolean {
    if (source === reader) return true;
    if (source.shape === undefined || reader.shape === undefined || !sameShape(source.shape, reader.shape))
      return false;
    const isApart = (left: Piece, right: Piece): boolean => [...left.apart].some((dep) => dep.root() === right);
    if (isApart(source, reader) || isApart(reader, source)) return false;
    if (!fitsLimits([...source.nodes, ...reader.nodes], this.values, this.limits)) return false;
    if (reader.reachesThrough(source) || source.reachesThrough(reader)) return false;
    source.absorb(reader);
    return true;
  }
}
