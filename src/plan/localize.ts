/** @module Making one device's graph: every node on local types, with the collectives that changes of layout need. */

import { inlineGraph, inputSpecs, parameter } from "../ir/graph.ts";
import { elementOp, parameterOp } from "../ir/leaf.ts";
import { type Attrs, type Graph, isAbsent, type Node, type Split } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply, atPositionOf, isGraph, Trace, withTrace } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { call, ownPart } from "../ops/index.ts";
import { isAll } from "../passes/match.ts";
import { HeddleError } from "../util/errors.ts";
import { type BucketSizes, formBuckets } from "./buckets.ts";
import type { OwnedPlan } from "./control.ts";
import {
  formatLayout,
  type Layout,
  localType,
  type Placement,
  replicate,
  sameLayout,
  withPlacement,
} from "./layout.ts";
import type { Machine } from "./machine.ts";
import type { Mesh, MeshAxis } from "./mesh.ts";
import type { Decision } from "./propagate.ts";
import { pathOrThrow, type Transition } from "./redistribute.ts";
import { isCheap, type Strategy, strategiesOf } from "./strategy.ts";

/** What making local graphs depends on besides the decisions. */
export interface LocalTarget {
  readonly mesh: Mesh;
  readonly machine: Machine;
  readonly buckets: BucketSizes;
}

/** The graph of one device that follows from the decisions. */
export function localGraph({ graph, decisions, inputs, outputs }: OwnedPlan, target: LocalTarget): Graph {
  const { mesh } = target;
  const localizer = new Localizer(decisions, target);
  const local = withTrace(new Trace(), (): Graph => {
    const parameters = inputSpecs(graph).map(({ name, type }, index) => {
      const node = parameter(index, { name, type: localType(type, inputs[index] as Layout, mesh) });
      localizer.bind(graph.inputs[index] as Node, inputs[index] as Layout, node);
      return node;
    });
    // In the order of the program; what turns out not to be needed in this layout is dropped below.
    for (const node of topological(graph.outputs))
      if (node.types.length === 1 && node.op !== parameterOp) localizer.obtain(node, localizer.layoutOf(node));
    return {
      kind: "graph",
      name: graph.name,
      inputs: parameters,
      outputs: graph.outputs.map((node, index) => localizer.obtain(node, outputs[index] as Layout)),
    };
  });
  return formBuckets(pruned(local), target.buckets);
}

/** The same graph in a fresh trace: nodes that were tried and not used are dropped. */
function pruned(graph: Graph): Graph {
  return withTrace(new Trace(), (): Graph => {
    const inputs = inputSpecs(graph).map((spec, index) => parameter(index, spec));
    return { kind: "graph", name: graph.name, inputs, outputs: inlineGraph(graph, inputs) };
  });
}

/** Emits local nodes for the nodes of a planned graph, each in any layout that is asked for, at most once. */
class Localizer {
  private readonly made = new Map<Node, Map<string, Node>>();
  /** Parameters that are kept in another layout than they are used in. */
  private readonly kept = new Map<Node, Layout>();
  private readonly decisions: ReadonlyMap<Node, Decision>;
  private readonly mesh: Mesh;
  private readonly machine: Machine;
  private readonly target: LocalTarget;

  constructor(decisions: ReadonlyMap<Node, Decision>, target: LocalTarget) {
    this.decisions = decisions;
    this.target = target;
    this.mesh = target.mesh;
    this.machine = target.machine;
  }

  /** Says which local node a parameter is, and the layout that it is kept in. */
  bind(parameter: Node, layout: Layout, local: Node): void {
    this.store(parameter, layout, local);
    if (!sameLayout(layout, this.layoutOf(parameter))) this.kept.set(parameter, layout);
  }

  layoutOf(node: Node): Layout {
    return (this.decisions.get(node) as Decision).layouts[0] as Layout;
  }

  /** The local node that holds `node` in `layout`. */
  obtain(node: Node, layout: Layout): Node {
    const known = this.made.get(node)?.get(formatLayout(layout));
    if (known !== undefined) return known;
    const local = atPositionOf(node, () => this.make(node, layout));
    this.store(node, layout, local);
    return local;
  }

  private store(node: Node, layout: Layout, local: Node): void {
    const byLayout = this.made.get(node) ?? new Map<string, Node>();
    byLayout.set(formatLayout(layout), local);
    this.made.set(node, byLayout);
  }

  private make(node: Node, layout: Layout): Node {
    const own = this.kept.get(node) ?? this.layoutOf(node);
    if (sameLayout(own, layout)) return this.compute(node, (this.decisions.get(node) as Decision).strategies);
    const started = layout.map((wanted) => (wanted.kind === "partial" ? replicate : wanted));
    // Zeros are their own contributions.
    if (!sameLayout(started, layout) && isAll(node, 0)) return this.obtain(node, started);
    return this.derive(node, layout) ?? this.redistribute(node, own, layout);
  }

  /** The node by the strategies chosen for it. */
  private compute(node: Node, strategies: readonly Strategy[]): Node {
    if (node.op === elementOp) {
      const source = node.inputs[0] as Node;
      const made = this.obtain(source, this.layoutOf(source));
      return apply(elementOp, [made], node.attrs as { index: number });
    }
    const inputs = node.inputs.map((input, index) =>
      this.obtainFor(
        node,
        input,
        strategies.map((strategy) => strategy.inputs[index] as Placement),
      ),
    );
    return this.localOp(node, inputs, strategies);
  }

  /** An input of `user`; a parameter that is kept otherwise than it is used is changed for this one use. */
  private obtainFor(user: Node, input: Node, layout: Layout): Node {
    const kept = this.kept.get(input);
    if (kept === undefined || sameLayout(kept, layout)) return this.obtain(input, layout);
    const path = pathOrThrow(describeNode(input), input.types[0] as TensorType, kept, layout, this.mesh, this.machine);
    // The label keeps the uses apart until every collective gets its own.
    return path.steps.reduce((local, step) => this.transition(local, step, `for ${user.id}`), this.obtain(input, kept));
  }

  private localOp(node: Node, inputs: readonly Node[], strategies: readonly Strategy[]): Node {
    const { localize } = node.op;
    const owned = this.decisions.get(node)?.owned;
    if (owned !== undefined) return apply(node.op, inputs, this.localAttrs(node.attrs, owned));
    if (isAbsent(localize)) return apply(node.op, inputs, node.attrs);
    const splits = strategies.flatMap((strategy, index): Split[] => {
      const { name, size } = this.mesh.axes[index] as MeshAxis;
      const split = {
        axis: name,
        parts: size,
        inputs: strategy.inputs.map(shardDim),
        outputs: strategy.outputs.map(shardDim),
      };
      return [...split.inputs, ...split.outputs].some((dim) => dim !== undefined) ? [split] : [];
    });
    return splits.length === 0 ? apply(node.op, inputs, node.attrs) : localize({ attrs: node.attrs, inputs, splits });
  }

  private localAttrs(attrs: Attrs, owned: ReadonlyMap<Graph, OwnedPlan>): Attrs {
    return Object.fromEntries(
      Object.entries(attrs).map(([key, value]) => [
        key,
        isGraph(value) ? localGraph(owned.get(value) as OwnedPlan, this.target) : value,
      ]),
    );
  }

  /**
   * Splits a cheap value at its source instead of cutting it: asks its inputs for parts, down to constants, random bits
   * and replicated parameters, none of which need communication.
   */
  private derive(node: Node, layout: Layout): Node | undefined {
    const decision = this.decisions.get(node) as Decision;
    const own = this.layoutOf(node);
    if (decision.strategies.length === 0 || !layout.every((wanted, axis) => onlyCuts(own[axis] as Placement, wanted)))
      return undefined;
    if (!isCheap(node) || node.types.length > 1) return undefined;
    const strategies = this.strategiesFor(node, decision, layout);
    if (strategies === undefined) return undefined;
    const wanted = node.inputs.map((_input, index) =>
      strategies.map((strategy) => strategy.inputs[index] as Placement),
    );
    const free = node.inputs.every((input, index) =>
      this.layoutOf(input).every((has, axis) => onlyCuts(has, wanted[index]?.[axis] as Placement)),
    );
    if (!free) return undefined;
    const inputs = node.inputs.map((input, index) => this.obtain(input, wanted[index] as Layout));
    return this.localOp(node, inputs, strategies);
  }

  /** Strategies that give `layout`, changing the chosen ones only where the layout asks for more cutting. */
  private strategiesFor(node: Node, decision: Decision, layout: Layout): Strategy[] | undefined {
    const result: Strategy[] = [];
    let inputTypes = node.inputs.map((input) => input.types[0] as TensorType);
    let outputTypes = node.types;
    for (const [index, axis] of this.mesh.axes.entries()) {
      const chosen = decision.strategies[index] as Strategy;
      const wanted = layout[index] as Placement;
      const keeps = sameLayout([chosen.outputs[0] as Placement], [wanted]);
      const strategy = keeps
        ? chosen
        : strategiesOf(node, inputTypes, outputTypes, axis.size).find((candidate) =>
            sameLayout([candidate.outputs[0] as Placement], [wanted]),
          );
      if (strategy === undefined) return undefined;
      result.push(strategy);
      const alone: Mesh = { axes: [axis] };
      inputTypes = inputTypes.map((type, input) => localType(type, [strategy.inputs[input] as Placement], alone));
      outputTypes = outputTypes.map((type, output) => localType(type, [strategy.outputs[output] as Placement], alone));
    }
    return result;
  }

  private redistribute(node: Node, from: Layout, to: Layout): Node {
    const path = pathOrThrow(describeNode(node), node.types[0] as TensorType, from, to, this.mesh, this.machine);
    let local = this.obtain(node, from);
    let layout = from;
    for (const step of path.steps) {
      layout = withPlacement(layout, step.axis, step.to);
      local = this.made.get(node)?.get(formatLayout(layout)) ?? this.transition(local, step);
      this.store(node, layout, local);
    }
    return local;
  }

  private transition(local: Node, { axis, from, to }: Transition, label = ""): Node {
    const { name, size: parts } = this.mesh.axes[axis] as MeshAxis;
    const common = { axis: name, parts, label };
    if (from.kind === "replicate" && to.kind === "shard") return ownPart(local, to.dim, name, parts);
    if (from.kind === "shard" && to.kind === "replicate")
      return call("allGather", [local], { ...common, dim: from.dim });
    if (from.kind === "shard" && to.kind === "shard")
      return call("allToAll", [local], { ...common, from: from.dim, to: to.dim });
    if (from.kind === "partial" && to.kind === "shard")
      return call("reduceScatter", [local], { ...common, reduction: from.reduction, dim: to.dim });
    if (from.kind === "partial" && to.kind === "replicate")
      return call("allReduce", [local], { ...common, reduction: from.reduction });
    throw new HeddleError("layout", "no value becomes partial by communication");
  }
}

const shardDim = (placement: Placement): number | undefined => (placement.kind === "shard" ? placement.dim : undefined);

/** No communication leads from `has` to `wanted`: they agree, or a whole value is cut. */
const onlyCuts = (has: Placement, wanted: Placement): boolean =>
  sameLayout([has], [wanted]) || (has.kind === "replicate" && wanted.kind === "shard");
