/**
 * @module Propagation: from the layouts of the inputs to a layout and a strategy for every node, one mesh axis at a time.
 *
 * Splitting starts at inputs that are split, and at outputs that are wanted so, and follows the ops' equations; what is
 * replicated stays so unless an op needs a part of it. Among the strategies that fit, the cheapest by the machine's
 * rates is taken.
 */
import { type Machine, sendSeconds, workSeconds } from "../cost/index.ts";
import { bytesTouched } from "../cost/tasks.ts";
import { controlOf } from "../ir/control.ts";
import { elementOp, parameterOp } from "../ir/leaf.ts";
import type { Graph, Node } from "../ir/node.ts";
import { bytesOf, type TensorType } from "../ir/shape.ts";
import { topological } from "../ir/walk.ts";
import { decideControl } from "./control.ts";
import type { Decision, Strategy, Windowed } from "./decision.ts";
import { anyMoves, movesAt } from "./exchange.ts";
import { type Layout, type Placement, replicate, replicated, samePlacement } from "./layout.ts";
import type { Mesh, MeshAxis } from "./mesh.ts";
import { intervals } from "./partition.ts";
import { axisSeconds } from "./redistribute.ts";
import { AxisWalk } from "./strategy.ts";
import { type Wish, wishesOf } from "./wishes.ts";

/** Decides for every node of the graph, given the layouts of its parameters and those wanted of its outputs, if any. */
export function propagate(
  graph: Graph,
  inputs: readonly Layout[],
  outputs: readonly (Layout | undefined)[],
  { mesh, machine }: { readonly mesh: Mesh; readonly machine: Machine },
): Map<Node, Decision> {
  const wishes = wishesOf(graph, outputs);
  const decisions = new Map<Node, Decision>();
  graph.inputs.forEach((node, index) => {
    decisions.set(node, { strategies: [], layouts: [inputs[index] as Layout] });
  });
  for (const node of topological(graph.outputs)) {
    if (decisions.has(node)) continue;
    if (node.op === parameterOp) throw new TypeError("a parameter that is not an input of its graph");
    decisions.set(
      node,
      node.op === elementOp ? pick(node, decisions) : decide(node, decisions, wishes.get(node), mesh, machine),
    );
  }
  return decisions;
}

function pick(node: Node, decisions: ReadonlyMap<Node, Decision>): Decision {
  const source = decisions.get(node.inputs[0] as Node) as Decision;
  return { strategies: [], layouts: [source.layouts[node.attrs["index"] as number] as Layout] };
}

function decide(
  node: Node,
  decisions: ReadonlyMap<Node, Decision>,
  wish: Wish | undefined,
  mesh: Mesh,
  machine: Machine,
): Decision {
  const current = node.inputs.map((input) => (decisions.get(input) as Decision).layouts[0] as Layout);
  if (controlOf(node) !== undefined)
    return decideControl(node, current, mesh, (graph, inputs) => propagate(graph, inputs, [], { mesh, machine }));
  const strategies: Strategy[] = [];
  const walk = new AxisWalk(node);
  mesh.axes.forEach((axis, index) => {
    const placements = current.map((layout) => layout[index] as Placement);
    const strategy = cheapest(node, placements, walk, { axis, machine, wish: wish?.[index] });
    strategies.push(strategy);
    walk.take(strategy, axis);
  });
  const layouts = node.types.map((_type, output) =>
    strategies.map((strategy) => strategy.outputs[output] as Placement),
  );
  return { strategies, layouts: strategies.length === 0 ? node.types.map(() => replicated(mesh)) : layouts };
}

/** What a strategy is chosen for. */
interface Choice {
  readonly axis: MeshAxis;
  readonly machine: Machine;
  /** Where the result had best be split on the axis. */
  readonly wish: Placement | undefined;
}

function cheapest(
  node: Node,
  current: readonly Placement[],
  walk: AxisWalk,
  { axis, machine, wish }: Choice,
): Strategy {
  const move = (type: TensorType, from: Placement, to: Placement): number => axisSeconds(type, from, to, axis, machine);
  // A wish that the result cannot have is none.
  const wished =
    wish !== undefined && move(walk.outputs[0] as TensorType, replicate, wish) < Infinity ? wish : undefined;
  const candidates = walk
    .strategies(axis, { inputs: current, outputs: [wished] })
    .filter(
      (strategy, index) =>
        index === 0 ||
        (seeded(strategy, current) && !holdsTwice(node, strategy)) ||
        (wished !== undefined && samePlacement(strategy.outputs[0] as Placement, wished)),
    );
  let best: { strategy: Strategy; seconds: number } | undefined;
  const flops = node.op.cost(walk.inputs, walk.outputs, node.attrs);
  for (const strategy of candidates) {
    const share = largestShare(strategy, axis);
    const bytes = bytesTouched(
      node,
      heldBytes(walk.inputs, strategy.inputs, share),
      sum(heldBytes(walk.outputs, strategy.outputs, share)),
    );
    let seconds = workSeconds({ flops: flops * share, bytes }, machine);
    current.forEach((placement, input) => {
      seconds += move(walk.inputs[input] as TensorType, placement, strategy.inputs[input] as Placement);
    });
    for (const window of strategy.windows ?? [])
      seconds += windowSeconds(
        (window.side === "input" ? walk.inputs : walk.outputs)[window.operand] as TensorType,
        window,
        axis,
        machine,
      );
    if (wished !== undefined) seconds += move(walk.outputs[0] as TensorType, strategy.outputs[0] as Placement, wished);
    if (best === undefined || seconds < best.seconds) best = { strategy, seconds };
  }
  return (best as { strategy: Strategy }).strategy;
}

/** The part of the work that the device with most of it does. */
function largestShare({ letter, sizes }: Strategy, axis: MeshAxis): number {
  if (letter === undefined) return 1;
  if (sizes === undefined) return 1 / axis.size;
  return Math.max(...sizes) / sum(sizes);
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Bytes of each value on the device that has most of it. */
const heldBytes = (types: readonly TensorType[], placements: readonly Placement[], share: number): number[] =>
  types.map((type, index) => bytesOf(type) * (placements[index]?.kind === "shard" ? share : 1));

/** Seconds to send the device that lacks most what it lacks of its window. */
function windowSeconds(type: TensorType, { dim, wanted, sizes }: Windowed, axis: MeshAxis, machine: Machine): number {
  if (sizes === undefined) return 0;
  const parts = intervals(sizes);
  if (!anyMoves(parts, wanted)) return 0;
  const row = bytesOf({ ...type, shape: type.shape.map((size, index) => (index === dim ? 1 : size)) });
  const rows = wanted.map((_window, place) =>
    movesAt(wanted, parts, place, true).sends.reduce((sum, [peer, , count]) => sum + (peer === 0 ? 0 : count), 0),
  );
  return sendSeconds({ axis: axis.name, rounds: 1, bytes: Math.max(...rows) * row }, machine);
}

/** Whether a strategy goes on with a split, or with contributions, that some input has already. */
function seeded(strategy: Strategy, current: readonly Placement[]): boolean {
  return strategy.inputs.some((wanted, index) => {
    const has = current[index] as Placement;
    if (wanted.kind === "shard") return samePlacement(has, wanted);
    return wanted.kind === "partial" && has.kind === "partial" && has.reduction === wanted.reduction;
  });
}

/** A square wants no sum both as contributions and whole: once it is whole, the product can be. */
function holdsTwice(node: Node, { inputs }: Strategy): boolean {
  return node.inputs.some((input, index) =>
    node.inputs.some(
      (other, place) => other === input && inputs[index]?.kind === "partial" && inputs[place]?.kind === "replicate",
    ),
  );
}
