/**
 * @module Joins elementwise groups with the folds before and after them, by a list of rules: values computed before a sum
 * or maximum are folded as they are computed, and nodes that need the result walk the same rows again while these are in
 * the cache.
 */

import { isFloat } from "../ir/dtype.ts";
import type { FoldRule } from "../ir/kernel.ts";
import { isAbsent, type Node } from "../ir/node.ts";
import { sameShape, type TensorType } from "../ir/shape.ts";
import { type Cluster, type FusionLimits, fitsLimits } from "./cluster.ts";
import { type FoldSpace, isKeptShape, keptStrides, repeats, sameSpace, spaceOf, walksWell } from "./fold-space.ts";
import { Joinable } from "./joins.ts";
import { isWhole, type Storage } from "./storage.ts";
import { formOf, type RegionValues } from "./values.ts";

/** A rule that joins the reader of a value with the cluster that computes the value. */
interface JoinRule {
  readonly name: string;
  /** The space of the joined cluster, where the rule applies. */
  readonly space: (source: Part, reader: Part) => FoldSpace | undefined;
}

const rules: readonly JoinRule[] = [
  {
    name: "values are computed as they are folded",
    space: (source, reader) => (source.kind === "group" ? reader.space : undefined),
  },
  {
    name: "folds of the same values share their walk",
    space: ({ space }, reader) =>
      space !== undefined && reader.space !== undefined && sameSpace(space, reader.space) ? space : undefined,
  },
  {
    name: "nodes that need the results of rows follow the fold",
    space: ({ space }, reader) => (reader.kind === "group" && space?.form === "rows" ? space : undefined),
  },
];

/** Joins groups and folds; returns the cluster that computes each storage. */
export function foldGroups(
  clusters: Map<Storage, Cluster>,
  values: RegionValues,
  limits: FusionLimits,
): Map<Storage, Cluster> {
  return new Folder(clusters, values, limits).run();
}

/** The fold of a node; undefined if the node is not a fold. */
export function foldOf({ op, attrs }: Node): FoldRule | undefined {
  return isAbsent(op.lower) ? undefined : op.lower.fold?.(attrs);
}

class Part extends Joinable<Part> {
  nodes: readonly Node[];
  kind: Cluster["kind"];
  space: FoldSpace | undefined;
  readonly cluster: Cluster;

  constructor(cluster: Cluster, space: FoldSpace | undefined) {
    super();
    this.cluster = cluster;
    this.nodes = cluster.nodes;
    this.kind = space === undefined ? cluster.kind : "folded";
    this.space = space;
  }

  absorb(other: Part, nodes: readonly Node[], space: FoldSpace): void {
    this.nodes = nodes;
    this.kind = "folded";
    this.space = space;
    this.take(other);
  }
}

class Folder {
  private readonly values: RegionValues;
  private readonly limits: FusionLimits;
  private readonly parts = new Map<Storage, Part>();

  constructor(clusters: ReadonlyMap<Storage, Cluster>, values: RegionValues, limits: FusionLimits) {
    this.values = values;
    this.limits = limits;
    const partOf = new Map<Cluster, Part>();
    for (const [storage, cluster] of clusters) {
      const part = partOf.get(cluster) ?? new Part(cluster, this.spaceOf(cluster));
      partOf.set(cluster, part);
      this.parts.set(storage, part);
    }
    for (const part of partOf.values()) {
      for (const node of part.nodes) {
        for (const storage of this.reads(part, node)) {
          const source = this.parts.get(storage);
          if (source !== undefined && source !== part) part.deps.add(source);
        }
      }
    }
  }

  run(): Map<Storage, Cluster> {
    // One join may make another join possible.
    for (let joined = true; joined; ) {
      joined = false;
      for (const node of this.values.order) if (this.joinSources(node)) joined = true;
    }
    const result = new Map<Storage, Cluster>();
    const clusters = new Map<Part, Cluster>();
    for (const [storage, part] of this.parts) {
      const root = part.root();
      // A fold that has joined nothing stays a kernel.
      const { kind, nodes, space, cluster } = root;
      const rootCluster =
        clusters.get(root) ??
        (kind === "folded" && nodes.length > 1 && space !== undefined ? { kind, nodes, space } : cluster);
      clusters.set(root, rootCluster);
      result.set(storage, rootCluster);
    }
    return result;
  }

  private spaceOf(cluster: Cluster): FoldSpace | undefined {
    const node = cluster.nodes[0] as Node;
    const fold = cluster.kind === "kernel" ? foldOf(node) : undefined;
    const input = node.inputs[0];
    if (fold === undefined || input === undefined) return undefined;
    const space = spaceOf(this.values.view(input), fold.dims);
    // An argmax walks the elements twice, and columns are walked once.
    return fold.op === "argMax" && space?.form === "columns" ? undefined : space;
  }

  /** The storages that a node reads, and those that it waits for. */
  private reads(part: Part, node: Node): Storage[] {
    const copy = part.kind === "copy" ? this.values.copies.get(node) : undefined;
    const views = copy === undefined ? node.inputs.map((input) => this.values.view(input)) : [copy.from];
    const waits = (copy === undefined ? node.inputs : [node]).flatMap((value) => this.values.waitsOf(value));
    return [...views.map(({ origin }) => origin as Storage), ...waits];
  }

  private joinSources(node: Node): boolean {
    const part = this.parts.get(this.values.storage(node));
    if (part === undefined || !part.root().nodes.includes(node)) return false;
    let joined = false;
    for (const input of node.inputs) {
      const source = this.parts.get(this.values.storage(input))?.root();
      if (source !== undefined && this.join(source, part.root())) joined = true;
    }
    return joined;
  }

  private join(source: Part, reader: Part): boolean {
    if (source === reader) return false;
    const space = rules.map((rule) => rule.space(source, reader)).find((candidate) => candidate !== undefined);
    if (space === undefined) return false;
    const nodes = this.values.inOrder(new Set([...source.nodes, ...reader.nodes]));
    if (!fitsLimits(nodes, this.values, this.limits) || !new FoldedGroup(nodes, space, this.values).isComputable())
      return false;
    if (reader.reachesThrough(source) || source.reachesThrough(reader)) return false;
    source.absorb(reader, nodes, space);
    return true;
  }
}

/** A candidate for a folded group: its nodes, and the check whether one call can compute them. */
class FoldedGroup {
  private readonly nodes: readonly Node[];
  private readonly space: FoldSpace;
  private readonly values: RegionValues;
  private readonly makers: ReadonlyMap<Storage, Node>;

  constructor(nodes: readonly Node[], space: FoldSpace, values: RegionValues) {
    this.nodes = nodes;
    this.space = space;
    this.values = values;
    this.makers = new Map(nodes.map((node) => [values.storage(node), node]));
  }

  isComputable(): boolean {
    return this.nodes.every((node) => {
      if (foldOf(node) !== undefined) return this.readsWhole(node.inputs[0] as Node);
      if (!this.computes(node)) return false;
      if (sameShape(node.shape, this.space.shape))
        return walksWell(this.values.view(node), this.space) && node.inputs.every((input) => this.readsWhole(input));
      return (
        this.space.form === "rows" &&
        isKeptShape(node.shape, this.space) &&
        node.inputs.every((input) => this.readsSingle(input))
      );
    });
  }

  /** Integer division checks for zeros, which folded groups do not. */
  private computes(node: Node): boolean {
    const form = formOf(node);
    if (form.kind !== "pointwise") return false;
    const { name, dtype } = form.instruction(
      node.attrs,
      node.inputs.map((input) => input.types[0] as TensorType),
      node.types[0] as TensorType,
    );
    return isFloat(dtype) || (name !== "div" && name !== "rem");
  }

  /** Whether a node of the group has one value per row or column. */
  private isSingle(node: Node): boolean {
    return foldOf(node) !== undefined || !sameShape(node.shape, this.space.shape);
  }

  /** Whether an operand of the whole shape can be read in the walk. */
  private readsWhole(input: Node): boolean {
    const { form, over } = this.space;
    const generator = this.values.generator(input);
    if (generator !== undefined)
      return generator.name !== "iota" || (form === "rows" && over.length === 1 && generator.literal === over[0]);
    const view = this.values.view(input);
    if (!sameShape(view.shape, this.space.shape)) return false;
    const maker = this.makers.get(view.origin as Storage);
    if (maker === undefined) return walksWell(view, this.space);
    if (!this.isSingle(maker)) return isWhole(view);
    return form === "rows" && repeats(view, this.values.view(maker), this.space);
  }

  /** Whether an operand with one value per row can be read in the walk. */
  private readsSingle(input: Node): boolean {
    const generator = this.values.generator(input);
    if (generator !== undefined) return generator.name === "const";
    const view = this.values.view(input);
    const maker = this.makers.get(view.origin as Storage);
    if (maker === undefined) return isKeptShape(view.shape, this.space);
    if (!this.isSingle(maker) || !isKeptShape(view.shape, this.space)) return false;
    const [viewStrides, makerStrides] = [
      keptStrides(view, this.space),
      keptStrides(this.values.view(maker), this.space),
    ];
    return view.offset === 0 && viewStrides.every((stride, index) => stride === makerStrides[index]);
  }
}
