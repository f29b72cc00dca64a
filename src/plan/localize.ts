/** @module One device's graph: every node on local types, with the collectives that change layouts. */

import { type Machine, sendSeconds } from "../cost/index.ts";
import { inlineGraph, inputSpecs, parameter } from "../ir/graph.ts";
import { elementOp, parameterOp } from "../ir/leaf.ts";
import { type Attrs, type Graph, isAbsent, type Node, type Split } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
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
import { AxisWalk, castsContributions, isCheap, waitsOf } from "./strategy.ts";

// How many cheap values the search for the source of a part goes through.
const recomputeDepth = 4;

/** What local graphs depend on besides the decisions. */
export interface LocalTarget {
  readonly mesh: Mesh;
  readonly machine: Machine;
  /** Passes over each local graph, bodies first. */
  readonly finish: (local: Graph) => Graph;
  /** Coordinates of the device, where devices differ; collectives are then numbered, so that all devices' labels agree. */
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
    // In program order; nodes that turn out not to be needed in this layout are dropped below.
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

/** Emits local nodes for the nodes of a planned graph, in any requested layout, once for each. */
class Localizer {
  private readonly emitted = new Map<Node, Map<string, Node>>();
  /** The layouts of parameters that are stored in another layout than the one they are used in. */
  private readonly storedLayouts = new Map<Node, Layout>();
  private readonly decisions: ReadonlyMap<Node, Decision>;
  private readonly mesh: Mesh;
  private readonly machine: Machine;
  private readonly target: LocalTarget;
  private nextLabel = 0;

  constructor(decisions: ReadonlyMap<Node, Decision>, target: LocalTarget) {
    this.decisions = decisions;
    this.target = target;
    this.mesh = target.mesh;
    this.machine = target.machine;
  }

  /** Binds a parameter, stored in `layout`, to a local node. */
  bind(parameter: Node, layout: Layout, local: Node): void {
    this.store(parameter, layout, local);
    if (!sameLayout(layout, this.layoutOf(parameter))) this.storedLayouts.set(parameter, layout);
  }

  layoutOf(node: Node): Layout {
    return (this.decisions.get(node) as Decision).layouts[0] as Layout;
  }

  /** The layout of a value before any use: for a parameter, the one that it is stored in. */
  private initialLayout(node: Node): Layout {
    return this.storedLayouts.get(node) ?? this.layoutOf(node);
  }

  /** The local node that holds `node` in `layout`. */
  obtain(node: Node, layout: Layout): Node {
    const known = this.emitted.get(node)?.get(formatLayout(layout));
    if (known !== undefined) return known;
    const local = atPositionOf(node, () => this.emit(node, layout));
    this.store(node, layout, local);
    return local;
  }

  private store(node: Node, layout: Layout, local: Node): void {
    const byLayout = this.emitted.get(node) ?? new Map<string, Node>();
    byLayout.set(formatLayout(layout), local);
    this.emitted.set(node, byLayout);
  }

  private emit(node: Node, layout: Layout): Node {
    const initial = this.initialLayout(node);
    if (sameLayout(initial, layout)) return this.compute(node, (this.decisions.get(node) as Decision).strategies);
    const withoutPartial = layout.map((wanted) => (wanted.kind === "partial" ? replicate : wanted));
    // Zeros on every device add up to zero.
    if (!sameLayout(withoutPartial, layout) && isAll(node, 0)) return this.obtain(node, withoutPartial);
    return this.derive(node, layout) ?? this.recompute(node, layout) ?? this.redistribute(node, initial, layout);
  }

  /** Emits the node by its strategies. */
  private compute(node: Node, strategies: readonly Strategy[]): Node {
    if (node.op === elementOp) {
      const source = node.inputs[0] as Node;
      const tuple = this.obtain(source, this.layoutOf(source));
      return apply(elementOp, [tuple], node.attrs as { index: number });
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

  /** An input of `user`; a parameter stored in another layout is redistributed for this one use. */
  private obtainFor(user: Node, input: Node, layout: Layout): Node {
    const from = this.storedLayouts.get(input);
    if (from === undefined || sameLayout(from, layout)) return this.obtain(input, layout);
    const path = pathOrThrow(describeNode(input), input.types[0] as TensorType, from, layout, this.mesh, this.machine);
    // The label keeps the uses apart until every collective gets its own.
    return path.steps.reduce(
      (local, step) => this.transition(local, step, this.label(`for ${user.id}`)),
      this.obtain(input, from),
    );
  }

  private localOp(node: Node, operands: readonly Node[], strategies: readonly Strategy[]): Node {
    const inputs = operands.map((input, index) => this.widened(input, "input", index, strategies));
    const { localize } = node.op;
    const owned = this.decisions.get(node)?.owned;
    if (owned !== undefined) return apply(node.op, inputs, this.localAttrs(node.attrs, owned));
    const splits = strategies.flatMap((strategy, axis): Split[] => {
      const split = this.splitOf(strategy, axis);
      return [...split.inputs, ...split.outputs].some((dim) => dim !== undefined) ? [split] : [];
    });
    const result =
      isAbsent(localize) || splits.length === 0
        ? apply(node.op, inputs, node.attrs)
        : localize({ attrs: node.attrs, inputs, splits });
    return this.widened(result, "output", 0, strategies);
  }

  private splitOf({ inputs, outputs, sizes, windows = [] }: Strategy, index: number): Split {
    const { name, size } = this.mesh.axes[index] as MeshAxis;
    const coordinate = this.coordinateOn(index);
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
      ...(sizes === undefined ? {} : { uneven: { sizes, own: sizes[coordinate] as number } }),
      ...(windows.length === 0
        ? {}
        : {
            windows: windows.map(({ side, operand, dim, padding }) => {
              const [low, high] = padding[coordinate] as readonly [number, number];
              return { side, operand, dim, low, high };
            }),
          }),
    };
  }

  private coordinateOn(axis: number): number {
    return this.target.coordinates?.[axis] ?? 0;
  }

  private label(labelWhenAlike = ""): string {
    return this.target.coordinates === undefined ? labelWhenAlike : String(this.nextLabel++);
  }

  /** An input with the rows of its windows, or the sum of an output's windows. */
  private widened(local: Node, side: "input" | "output", operand: number, strategies: readonly Strategy[]): Node {
    let result = local;
    strategies.forEach(({ windows = [] }, index) => {
      const coordinate = this.coordinateOn(index);
      const { name, size } = this.mesh.axes[index] as MeshAxis;
      for (const candidate of windows) {
        if (candidate.side !== side || candidate.operand !== operand) continue;
        const { dim, wanted, sizes } = candidate;
        const held =
          sizes === undefined ? wanted.map(() => [0, result.shape[dim] as number] as const) : intervals(sizes);
        const [from, to] = side === "input" ? [held, wanted] : [wanted, held];
        if (sizes !== undefined && (side === "output" || anyMoves(from, to))) {
          const common = { axis: name, parts: size, label: this.label() };
          const attrs = exchangeAttrs(common, result.shape, dim, { from, to, coordinate, relative: true });
          result = call("exchange", [result], attrs);
        } else result = cutTo(result, dim, held[coordinate] as Interval, wanted[coordinate] as Interval);
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
   * Splits a cheap value at its source instead of splitting the value: asks its inputs for parts, down to constants,
   * random bits and replicated parameters, none of which need communication.
   */
  private derive(node: Node, layout: Layout): Node | undefined {
    const decision = this.decisions.get(node) as Decision;
    const layoutBefore = this.layoutOf(node);
    const cuts = layout.every((wanted, axis) => onlyCuts(layoutBefore[axis] as Placement, wanted));
    if (decision.strategies.length === 0 || !cuts || !isCheap(node) || node.types.length > 1) return undefined;
    const strategies = this.strategiesFor(node, decision, layout);
    if (strategies === undefined) return undefined;
    const wanted = node.inputs.map((_input, index) =>
      strategies.map((strategy) => strategy.inputs[index] as Placement),
    );
    // A parameter that is stored in parts is gathered for the whole value as well as for a part of it.
    const needsNone = node.inputs.every((input, index) =>
      [this.initialLayout(input), this.layoutOf(input)].some((held) =>
        held.every((placement, axis) => onlyCuts(placement, wanted[index]?.[axis] as Placement)),
      ),
    );
    if (!needsNone) return undefined;
    const inputs = node.inputs.map((input, index) => this.obtainFor(node, input, wanted[index] as Layout));
    return this.localOp(node, inputs, strategies);
  }

  /**
   * Computes parts of a value, or the whole sum of looked-up rows, from its inputs with communication there, where that is
   * cheaper than to add up contributions to the whole: a table's gradient from the few rows that were looked up.
   */
  private recompute(node: Node, layout: Layout): Node | undefined {
    const before = this.layoutOf(node);
    const becomes = (kind: Placement["kind"]): boolean =>
      layout.some((wanted, axis) => before[axis]?.kind === "partial" && wanted.kind === kind);
    const scattered = becomes("shard");
    // What a view shows is summed before it, so that the view and other uses share one sum.
    const isSummed = !scattered && isLargeView(node);
    if (!scattered && !(becomes("replicate") && (isSummed || isOfLookups(node, recomputeDepth)))) return undefined;
    // Sums of whole values share buckets with other sums, so leaving them out must save more than a start costs.
    const startSeconds = (axis: string): number => sendSeconds({ axis, rounds: 2, bytes: 0 }, this.machine);
    const summedAxes = this.mesh.axes.filter((_axis, index) => before[index]?.kind === "partial");
    const starts = scattered ? 0 : summedAxes.reduce((total, { name }) => total + startSeconds(name), 0);
    const seconds = this.recomputeSeconds(node, layout, recomputeDepth);
    if (isSummed ? seconds === Infinity : seconds + starts >= this.moveSeconds(node, layout)) return undefined;
    const strategies = this.strategiesFor(node, this.decisions.get(node) as Decision, layout) as Strategy[];
    const inputs = node.inputs.map((input, index) => this.obtainFor(node, input, wantedOf(strategies, index)));
    return this.localOp(node, inputs, strategies);
  }

  private moveSeconds(node: Node, layout: Layout): number {
    const type = node.types[0] as TensorType;
    return cheapestPath(type, this.initialLayout(node), layout, this.mesh, this.machine)?.seconds ?? Infinity;
  }

  /** Seconds of communication to compute a cheap value in a layout from its inputs; infinite when it is not cheap. */
  private recomputeSeconds(node: Node, layout: Layout, depth: number): number {
    const decision = this.decisions.get(node) as Decision;
    if (depth === 0 || decision.strategies.length === 0 || !isCheap(node) || node.types.length > 1) return Infinity;
    const strategies = this.strategiesFor(node, decision, layout);
    if (strategies === undefined || decision.strategies.some((chosen) => castsContributions(node, chosen)))
      return Infinity;
    return node.inputs.reduce((total, input, index) => {
      const wanted = wantedOf(strategies, index);
      return total + Math.min(this.moveSeconds(input, wanted), this.recomputeSeconds(input, wanted, depth - 1));
    }, 0);
  }

  /** Strategies that give `layout`, changing the chosen ones only where the layout splits more. */
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
      // As long as the path only splits, the parts may be computed at their source instead.
      local =
        this.emitted.get(node)?.get(formatLayout(layout)) ?? this.derive(node, layout) ?? this.transition(local, step);
      this.store(node, layout, local);
    }
    return local;
  }

  private transition(local: Node, { axis, from, to }: Transition, label = this.label()): Node {
    const meshAxis = this.mesh.axes[axis] as MeshAxis;
    const coordinate = this.coordinateOn(axis);
    const step = { local: local.types[0] as TensorType, axis: meshAxis, from, to, coordinate };
    const collective = from.kind === "replicate" ? undefined : collectiveFor(step, label);
    if (collective !== undefined) return call(collective.op, [local], collective.attrs);
    const { dim, sizes } = to as Placement & { kind: "shard" };
    return ownPart(local, dim, {
      axis: meshAxis.name,
      parts: meshAxis.size,
      inputs: [dim],
      outputs: [dim],
      ...(sizes === undefined ? {} : { uneven: { sizes, own: sizes[coordinate] as number } }),
    });
  }
}

/** Whether a value is computed from a sum of rows by index, within `depth` ops. */
const isOfLookups = (node: Node, depth: number): boolean =>
  sourceOf(node) !== undefined || (depth > 0 && node.inputs.some((input) => isOfLookups(input, depth - 1)));

/** Whether an op shows all elements of its input in another way. */
const isLargeView = ({ op: { form }, inputs, shape }: Node): boolean =>
  !isAbsent(form) && form.kind === "view" && inputs.length === 1 && sizeOf(shape) >= sizeOf((inputs[0] as Node).shape);

/** The layout that strategies require of an input. */
const wantedOf = (strategies: readonly Strategy[], input: number): Layout =>
  strategies.map((strategy) => strategy.inputs[input] as Placement);

/** The placements of the inputs that are only waited for, which keep their layout; undefined for the other inputs. */
function waitedIn(node: Node, { inputs }: Strategy): (Placement | undefined)[] {
  const waits = waitsOf(node);
  return inputs.map((placement, index) => (waits.includes(index) ? placement : undefined));
}

/** Cuts the interval `[from, to)` from a value that begins at `first`. */
function cutTo(x: Node, dim: number, [first]: Interval, [from, to]: Interval): Node {
  // An empty interval may lie outside the value.
  const [begin, end] = from === to ? [0, 0] : [from - first, to - first];
  const withDim = (list: readonly number[], value: number): number[] =>
    list.map((old, index) => (index === dim ? value : old));
  const origin = x.shape.map(() => 0);
  return slice(x, withDim(origin, begin), withDim(x.shape, end));
}

const shardDim = (placement: Placement): number | undefined => (placement.kind === "shard" ? placement.dim : undefined);

/** Whether `wanted` follows from `current` without communication: they are equal, or a whole value is split. */
const onlyCuts = (current: Placement, wanted: Placement): boolean =>
  sameLayout([current], [wanted]) || (current.kind === "replicate" && wanted.kind === "shard");
