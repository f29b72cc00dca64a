/** @module Making one device's graph: every node on local types, with the collectives that changes of layout need. */

import { type Machine, sendSeconds } from "../cost/index.ts";
import { inlineGraph, inputSpecs, parameter } from "../ir/graph.ts";
import { elementOp, parameterOp } from "../ir/leaf.ts";
import { type Attrs, type Graph, isAbsent, type Node, type Split } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply, atPositionOf, isGraph, Trace, withTrace } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { call, ownPart, slice } from "../ops/index.ts";
import { isAll } from "../passes/match.ts";
import { sourceOf } from "../passes/row-facts.ts";
import type { Decision, OwnedPlan, Strategy } from "./decision.ts";
import { anyMoves, exchangeAttrs } from "./exchange.ts";
import {
  formatLayout,
  type Layout,
  localType,
  type Placement,
  replicate,
  sameLayout,
  withPlacement,
} from "./layout.ts";
import type { Mesh, MeshAxis } from "./mesh.ts";
import { type Interval, intervals } from "./partition.ts";
import { cheapestPath, collectiveFor, pathOrThrow, type Transition } from "./redistribute.ts";
import { AxisWalk, isCheap, waitsOf } from "./strategy.ts";

// Through how many cheap values the source of a part is looked for.
const remakeDepth = 4;

/** What making local graphs depends on besides the decisions. */
export interface LocalTarget {
  readonly mesh: Mesh;
  readonly machine: Machine;
  /** What each graph goes through when it is made, those of bodies first. */
  readonly finish: (local: Graph) => Graph;
  /** The device's, where devices are not alike; then collectives are numbered, so that all devices' are the same. */
  readonly coordinates?: readonly number[];
}

/** The graph of one device that follows from the decisions. */
export function localGraph({ graph, decisions, inputs, outputs }: OwnedPlan, target: LocalTarget): Graph {
  const { mesh } = target;
  const localizer = new Localizer(decisions, target);
  const local = withTrace(new Trace(), (): Graph => {
    const parameters = inputSpecs(graph).map(({ name, type }, index) => {
      const node = parameter(index, { name, type: localType(type, inputs[index] as Layout, mesh, target.coordinates) });
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
  return target.finish(pruned(local));
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
  private numbered = 0;

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

  /** In which a value is there before any use of it: a parameter as it is kept. */
  private heldLayout(node: Node): Layout {
    return this.kept.get(node) ?? this.layoutOf(node);
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
    const own = this.heldLayout(node);
    if (sameLayout(own, layout)) return this.compute(node, (this.decisions.get(node) as Decision).strategies);
    const started = layout.map((wanted) => (wanted.kind === "partial" ? replicate : wanted));
    // Zeros are their own contributions.
    if (!sameLayout(started, layout) && isAll(node, 0)) return this.obtain(node, started);
    return this.derive(node, layout) ?? this.remake(node, layout) ?? this.redistribute(node, own, layout);
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
    return path.steps.reduce(
      (local, step) => this.transition(local, step, this.label(`for ${user.id}`)),
      this.obtain(input, kept),
    );
  }

  private localOp(node: Node, given: readonly Node[], strategies: readonly Strategy[]): Node {
    const inputs = given.map((input, index) => this.widened(input, "input", index, strategies));
    const { localize } = node.op;
    const owned = this.decisions.get(node)?.owned;
    if (owned !== undefined) return apply(node.op, inputs, this.localAttrs(node.attrs, owned));
    const splits = strategies.flatMap((strategy, axis): Split[] => {
      const split = this.splitOf(strategy, axis);
      return [...split.inputs, ...split.outputs].some((dim) => dim !== undefined) ? [split] : [];
    });
    const made =
      isAbsent(localize) || splits.length === 0
        ? apply(node.op, inputs, node.attrs)
        : localize({ attrs: node.attrs, inputs, splits });
    return this.widened(made, "output", 0, strategies);
  }

  private splitOf({ inputs, outputs, sizes, windows = [] }: Strategy, index: number): Split {
    const { name, size } = this.mesh.axes[index] as MeshAxis;
    const place = this.place(index);
    // A window's length follows from the op's attributes, not from the split.
    const dims = (side: "input" | "output", list: readonly Placement[]) =>
      list.map((placement, operand) =>
        windows.some((window) => window.side === side && window.operand === operand) ? undefined : shardDim(placement),
      );
    return {
      axis: name,
      parts: size,
      inputs: dims("input", inputs),
      outputs: dims("output", outputs),
      ...(sizes === undefined ? {} : { uneven: { sizes, own: sizes[place] as number } }),
      ...(windows.length === 0
        ? {}
        : {
            windows: windows.map(({ side, operand, dim, padding }) => {
              const [low, high] = padding[place] as readonly [number, number];
              return { side, operand, dim, low, high };
            }),
          }),
    };
  }

  private place(axis: number): number {
    return this.target.coordinates?.[axis] ?? 0;
  }

  private label(alike = ""): string {
    return this.target.coordinates === undefined ? alike : String(this.numbered++);
  }

  /** An input with the rows of its windows, or the sum of an output's windows. */
  private widened(local: Node, side: "input" | "output", operand: number, strategies: readonly Strategy[]): Node {
    let result = local;
    strategies.forEach(({ windows = [] }, index) => {
      const place = this.place(index);
      const { name, size } = this.mesh.axes[index] as MeshAxis;
      for (const window of windows) {
        if (window.side !== side || window.operand !== operand) continue;
        const { dim, wanted, sizes } = window;
        const held =
          sizes === undefined ? wanted.map(() => [0, result.shape[dim] as number] as const) : intervals(sizes);
        const [from, to] = side === "input" ? [held, wanted] : [wanted, held];
        if (sizes !== undefined && (side === "output" || anyMoves(from, to))) {
          const common = { axis: name, parts: size, label: this.label() };
          const attrs = exchangeAttrs(common, result.shape, dim, { from, to, place, relative: true });
          result = call("exchange", [result], attrs);
        } else result = cutTo(result, dim, held[place] as Interval, wanted[place] as Interval);
      }
    });
    return result;
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
      this.heldLayout(input).every((has, axis) => onlyCuts(has, wanted[index]?.[axis] as Placement)),
    );
    if (!free) return undefined;
    const inputs = node.inputs.map((input, index) => this.obtain(input, wanted[index] as Layout));
    return this.localOp(node, inputs, strategies);
  }

  /**
   * Makes parts, or the whole of what lookups give, at their source, with communication there, where that is cheaper than to
   * add up contributions to the whole: a table's gradient from the few rows that were looked up.
   */
  private remake(node: Node, layout: Layout): Node | undefined {
    const own = this.layoutOf(node);
    const becomes = (kind: Placement["kind"]): boolean =>
      layout.some((wanted, axis) => own[axis]?.kind === "partial" && wanted.kind === kind);
    const scattered = becomes("shard");
    if (!scattered && !(becomes("replicate") && isOfLookups(node, remakeDepth))) return undefined;
    // Sums of whole values go together with others', so that to leave them must save more than the way to begin.
    const begin = (axis: string): number => sendSeconds({ axis, rounds: 2, bytes: 0 }, this.machine);
    const summed = this.mesh.axes.filter((_axis, index) => own[index]?.kind === "partial");
    const beginning = scattered ? 0 : summed.reduce((total, { name }) => total + begin(name), 0);
    if (this.remakeSeconds(node, layout, remakeDepth) + beginning >= this.moveSeconds(node, layout)) return undefined;
    const strategies = this.strategiesFor(node, this.decisions.get(node) as Decision, layout) as Strategy[];
    const inputs = node.inputs.map((input, index) => this.obtainFor(node, input, wantedOf(strategies, index)));
    return this.localOp(node, inputs, strategies);
  }

  private moveSeconds(node: Node, layout: Layout): number {
    const type = node.types[0] as TensorType;
    return cheapestPath(type, this.heldLayout(node), layout, this.mesh, this.machine)?.seconds ?? Infinity;
  }

  /** Seconds of communication to make a cheap value in a layout from its inputs; infinite where it is not cheap. */
  private remakeSeconds(node: Node, layout: Layout, depth: number): number {
    const decision = this.decisions.get(node) as Decision;
    if (depth === 0 || decision.strategies.length === 0 || !isCheap(node) || node.types.length > 1) return Infinity;
    const strategies = this.strategiesFor(node, decision, layout);
    if (strategies === undefined) return Infinity;
    return node.inputs.reduce((total, input, index) => {
      const wanted = wantedOf(strategies, index);
      return total + Math.min(this.moveSeconds(input, wanted), this.remakeSeconds(input, wanted, depth - 1));
    }, 0);
  }

  /** Strategies that give `layout`, changing the chosen ones only where the layout asks for more cutting. */
  private strategiesFor(node: Node, decision: Decision, layout: Layout): Strategy[] | undefined {
    const result: Strategy[] = [];
    const walk = new AxisWalk(node);
    for (const [index, axis] of this.mesh.axes.entries()) {
      const chosen = decision.strategies[index] as Strategy;
      const wanted = layout[index] as Placement;
      const keeps = sameLayout([chosen.outputs[0] as Placement], [wanted]);
      const strategy = keeps
        ? chosen
        : walk
            .strategies(axis, { inputs: waitedIn(node, chosen), outputs: [wanted] })
            .find((candidate) => sameLayout([candidate.outputs[0] as Placement], [wanted]));
      if (strategy === undefined) return undefined;
      result.push(strategy);
      walk.take(strategy, axis);
    }
    return result;
  }

  private redistribute(node: Node, from: Layout, to: Layout): Node {
    const path = pathOrThrow(describeNode(node), node.types[0] as TensorType, from, to, this.mesh, this.machine);
    let local = this.obtain(node, from);
    let layout = from;
    for (const step of path.steps) {
      layout = withPlacement(layout, step.axis, step.to);
      // As long as the way only cuts, the parts may be made at their source instead.
      local =
        this.made.get(node)?.get(formatLayout(layout)) ?? this.derive(node, layout) ?? this.transition(local, step);
      this.store(node, layout, local);
    }
    return local;
  }

  private transition(local: Node, { axis, from, to }: Transition, label = this.label()): Node {
    const meshAxis = this.mesh.axes[axis] as MeshAxis;
    const place = this.place(axis);
    const step = { local: local.types[0] as TensorType, axis: meshAxis, from, to, place };
    const collective = from.kind === "replicate" ? undefined : collectiveFor(step, label);
    if (collective !== undefined) return call(collective.op, [local], collective.attrs);
    const { dim, sizes } = to as Placement & { kind: "shard" };
    return ownPart(local, dim, {
      axis: meshAxis.name,
      parts: meshAxis.size,
      inputs: [dim],
      outputs: [dim],
      ...(sizes === undefined ? {} : { uneven: { sizes, own: sizes[place] as number } }),
    });
  }
}

/** Whether a value is made from a sum of rows by index, a few functions ago. */
const isOfLookups = (node: Node, depth: number): boolean =>
  sourceOf(node) !== undefined || (depth > 0 && node.inputs.some((one) => isOfLookups(one, depth - 1)));

/** The layout in which strategies want an input. */
const wantedOf = (strategies: readonly Strategy[], input: number): Layout =>
  strategies.map((strategy) => strategy.inputs[input] as Placement);

/** What a strategy takes of the inputs that are only waited for: they stay where they are. */
function waitedIn(node: Node, { inputs }: Strategy): (Placement | undefined)[] {
  const waits = waitsOf(
    node,
    node.inputs.map((input) => input.types[0] as TensorType),
  );
  return inputs.map((placement, index) => (waits.includes(index) ? placement : undefined));
}

/** `wanted` of a value of which this device holds `held`. */
function cutTo(x: Node, dim: number, [first]: Interval, [from, to]: Interval): Node {
  // Nothing may lie anywhere.
  const [begin, end] = from === to ? [0, 0] : [from - first, to - first];
  const at = (list: readonly number[], value: number): number[] =>
    list.map((old, index) => (index === dim ? value : old));
  const origin = x.shape.map(() => 0);
  return slice(x, at(origin, begin), at(x.shape, end));
}

const shardDim = (placement: Placement): number | undefined => (placement.kind === "shard" ? placement.dim : undefined);

/** No communication leads from `has` to `wanted`: they agree, or a whole value is cut. */
const onlyCuts = (has: Placement, wanted: Placement): boolean =>
  sameLayout([has], [wanted]) || (has.kind === "replicate" && wanted.kind === "shard");
