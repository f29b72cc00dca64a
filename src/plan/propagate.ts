/**
 * @module Propagation: from the layouts of the inputs to a layout and a strategy for every node, one mesh axis at a time.
 *
 * Splitting starts at inputs that are split, and at outputs that are requested split, and follows the ops' equations; a
 * replicated value stays replicated unless an op needs a part of it. Among the strategies that fit, the cheapest on the
 * machine is taken.
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
import { type Layout, type Placement, replicate, samePlacement } from "./layout.ts";
import type { Mesh, MeshAxis } from "./mesh.ts";
import { intervals } from "./partition.ts";
import { type Preference, preferencesOf } from "./preferences.ts";
import { axisSeconds, laterAxisSplits, never } from "./redistribute.ts";
import { AxisWalk, castsContributions, linearSets, waitsOf } from "./strategy.ts";

type Target = { readonly mesh: Mesh; readonly machine: Machine };

/** Decides for every node of the graph, from the layouts of its parameters and the requested layouts of its outputs, if any. */
export function propagate(
  graph: Graph,
  inputs: readonly Layout[],
  outputs: readonly (Layout | undefined)[],
  target: Target,
): Map<Node, Decision> {
  const preferred = preferencesOf(graph, outputs, hasTime(target.mesh));
  const decisions = new Map<Node, Decision>();
  graph.inputs.forEach((node, index) => {
    decisions.set(node, { strategies: [], layouts: [inputs[index] as Layout] });
  });
  const order = topological(graph.outputs);
  const whole = new Set(order.flatMap(neededWhole));
  for (const node of order) {
    if (decisions.has(node)) continue;
    if (node.op === parameterOp) throw new TypeError("a parameter that is not an input of its graph");
    decisions.set(
      node,
      node.op === elementOp
        ? pickElement(node, decisions)
        : decide(node, decisions, preferred.get(node), { ...target, whole }),
    );
  }
  return decisions;
}

function pickElement({ inputs: [source], attrs }: Node, decisions: ReadonlyMap<Node, Decision>): Decision {
  const { layouts } = decisions.get(source as Node) as Decision;
  return { strategies: [], layouts: [layouts[attrs["index"] as number] as Layout] };
}

function decide(
  node: Node,
  decisions: ReadonlyMap<Node, Decision>,
  preferred: Preference | undefined,
  target: Target & Pick<Choice, "whole">,
): Decision {
  const { mesh } = target;
  const current = node.inputs.map((input) => (decisions.get(input) as Decision).layouts[0] as Layout);
  if (controlOf(node) !== undefined)
    return decideControl(node, current, mesh, (graph, inputs) => propagate(graph, inputs, [], target));
  const strategies: Strategy[] = [];
  const walk = new AxisWalk(node);
  mesh.axes.forEach((axis, index) => {
    const placements = current.map((layout) => layout[index] as Placement);
    const fixed = placements.map((placement, input) => {
      return (
        hasTime(mesh) && placement.kind === "shard" && laterAxisSplits(current[input] as Layout, index, placement.dim)
      );
    });
    const strategy = cheapest(node, placements, walk, { ...target, axis, fixed, preferred: preferred?.[index] });
    strategies.push(strategy);
    walk.take(strategy, axis);
  });
  const layoutOf = (output: number): Layout => strategies.map(({ outputs }) => outputs[output] as Placement);
  return { strategies, layouts: node.types.map((_type, output) => layoutOf(output)) };
}

const hasTime = ({ axes }: Mesh): boolean => axes.at(-1)?.isTime === true;

/** What the choice of a strategy depends on. */
interface Choice {
  readonly axis: MeshAxis;
  /** For each input whether it stays split as it is: no device has all its rows before the time of the last micro-batch. */
  readonly fixed: readonly boolean[];
  readonly machine: Machine;
  /** Values whose sum is formed in any case. */
  readonly whole: ReadonlySet<Node>;
  /** How the result is best split on the axis. */
  readonly preferred: Placement | undefined;
}

function cheapest(
  node: Node,
  current: readonly Placement[],
  walk: AxisWalk,
  { axis, fixed, machine, whole, preferred }: Choice,
): Strategy {
  const move = (type: TensorType, from: Placement, to: Placement): number => axisSeconds(type, from, to, axis, machine);
  // A preference that the result cannot have is dropped.
  const feasible =
    preferred !== undefined && move(walk.outputs[0] as TensorType, replicate, preferred) < Infinity
      ? preferred
      : undefined;
  const candidates = walk
    .strategies(axis, { inputs: current, outputs: [feasible] })
    .filter(
      (strategy, index) =>
        index === 0 ||
        continuesAnInput(strategy, current, (input) => whole.has(node.inputs[input] as Node)) ||
        (feasible !== undefined && samePlacement(strategy.outputs[0] as Placement, feasible)),
    );
  const through = candidates.find((strategy) => castsContributions(node, strategy));
  if (through !== undefined) return through;
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
      const wanted = strategy.inputs[input] as Placement;
      seconds += move(walk.inputs[input] as TensorType, placement, wanted);
      if (fixed[input] && !samePlacement(placement, wanted)) seconds += never;
    });
    for (const window of strategy.windows ?? [])
      seconds += windowSeconds(
        (window.side === "input" ? walk.inputs : walk.outputs)[window.operand] as TensorType,
        window,
        axis,
        machine,
      );
    if (feasible !== undefined)
      seconds += move(walk.outputs[0] as TensorType, strategy.outputs[0] as Placement, feasible);
    if (best === undefined || seconds < best.seconds) best = { strategy, seconds };
  }
  return (best as { strategy: Strategy }).strategy;
}

/** The largest share of the work that one device has. */
function largestShare({ letter, sizes }: Strategy, axis: MeshAxis): number {
  if (letter === undefined) return 1;
  return sizes === undefined ? 1 / axis.size : Math.max(...sizes) / sum(sizes);
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Bytes of each value on the device that has the largest part of it. */
const heldBytes = (types: readonly TensorType[], placements: readonly Placement[], share: number): number[] =>
  types.map((type, index) => bytesOf(type) * (placements[index]?.kind === "shard" ? share : 1));

/** Seconds to send the missing part of its window to the device that misses most. */
function windowSeconds(type: TensorType, { dim, wanted, sizes }: Windowed, axis: MeshAxis, machine: Machine): number {
  if (sizes === undefined) return 0;
  const parts = intervals(sizes);
  if (!anyMoves(parts, wanted)) return 0;
  const row = bytesOf({ ...type, shape: type.shape.map((size, index) => (index === dim ? 1 : size)) });
  const rows = wanted.map((_window, member) =>
    movesAt(wanted, parts, member, true).sends.reduce((sum, [peer, , count]) => sum + (peer === 0 ? 0 : count), 0),
  );
  return sendSeconds({ axis: axis.name, rounds: 1, bytes: Math.max(...rows) * row }, machine);
}

/** Whether a strategy continues a split, or contributions, that some input already has. */
const continuesAnInput = (
  { inputs }: Strategy,
  current: readonly Placement[],
  isWhole: (input: number) => boolean,
): boolean =>
  inputs.some((wanted, index) => {
    const isContinued = wanted.kind === "shard" || (wanted.kind === "partial" && !isWhole(index));
    return isContinued && samePlacement(current[index] as Placement, wanted);
  });

/** Inputs that an op needs whole, as a square does: their sums are formed in any case, so no other op passes contributions on. */
function neededWhole(user: Node): readonly Node[] {
  const sets = [...linearSets(user, user.inputs), waitsOf(user)];
  const passes = (input: Node): boolean =>
    sets.some((set) => user.inputs.every((other, index) => other !== input || set.includes(index)));
  return user.inputs.filter((input) => !passes(input));
}
