/**
 * @module Layouts of loops and branches. A carry has one layout: the planner starts from the first value's, follows the
 * body, and cuts further what comes out cut, until nothing changes.
 */
import type { BranchControl, Control, LoopControl } from "../ir/control.ts";
import { controlOf } from "../ir/control.ts";
import { isFloat } from "../ir/dtype.ts";
import type { Graph, Node } from "../ir/node.ts";
import { range } from "../ir/shape.ts";
import { isAll } from "../passes/match.ts";
import type { Decision, OwnedPlan, Strategy } from "./decision.ts";
import {
  formatLayout,
  type Layout,
  type Placement,
  partial,
  replicate,
  replicated,
  samePlacement,
  shard,
  withPlacement,
} from "./layout.ts";
import type { Mesh } from "./mesh.ts";

/** Follows layouts through a graph: the planner's own function, given so that the two files need not import each other. */
export type Follow = (graph: Graph, inputs: readonly Layout[]) => Map<Node, Decision>;

/** Decides for a node that owns graphs, given the layouts of its inputs. */
export function decideControl(node: Node, given: readonly Layout[], mesh: Mesh, follow: Follow): Decision {
  const control = controlOf(node) as Control;
  // What is still partial is summed once outside, not in every iteration.
  const whole = given.map((layout) => layout.map((one) => (one.kind === "partial" ? replicate : one)));
  return control.kind === "loop"
    ? decideLoop(node, control, whole, mesh, follow)
    : decideBranch(control, whole, mesh, follow);
}

const layoutIn = (decisions: ReadonlyMap<Node, Decision>, node: Node): Layout =>
  (decisions.get(node) as Decision).layouts[0] as Layout;

const moved = (layout: Layout, by: number): Layout =>
  layout.map((one) => (one.kind !== "shard" ? one : one.dim + by < 0 ? replicate : shard(one.dim + by, one.sizes)));

function decideLoop(node: Node, control: LoopControl, given: readonly Layout[], mesh: Mesh, follow: Follow): Decision {
  const { body, condition, carries, slices } = control;
  const whole = replicated(mesh);
  const sliced = given.slice(carries, carries + slices).map((layout) => moved(layout, -1));
  const constants = given.slice(carries + slices);
  const inputsFor = (carry: readonly Layout[]): Layout[] => [whole, ...carry, ...sliced, ...constants];
  const results = (decisions: ReadonlyMap<Node, Decision>): Layout[] =>
    body.outputs.slice(0, carries).map((output) => layoutIn(decisions, output));
  const cut = settle(given.slice(0, carries), (carry) => results(follow(body, inputsFor(carry))));
  const carry = keepPartial(node, cut, inputsFor(cut), mesh, (layouts) => results(follow(body, inputsFor(layouts))));
  const decisions = follow(body, inputsFor(carry));
  const stacks = body.outputs.slice(carries).map((output) => layoutIn(decisions, output));
  const owned = [{ graph: body, decisions, inputs: inputsFor(carry), outputs: [...carry, ...stacks] }];
  if (condition !== undefined) {
    const tested = follow(condition, inputsFor(carry));
    // All devices must agree on whether to go on.
    owned.push({ graph: condition, decisions: tested, inputs: inputsFor(carry), outputs: [whole] });
  }
  const inputs = [...carry, ...sliced.map((layout) => moved(layout, 1)), ...constants];
  return decision(inputs, [...carry, ...stacks.map((layout) => moved(layout, 1))], owned, mesh);
}

/** Cuts carries that are whole where the body gives them cut. */
function settle(first: readonly Layout[], run: (carry: readonly Layout[]) => readonly Layout[]): readonly Layout[] {
  for (let carry = first; ; ) {
    const made = run(carry);
    const next = carry.map((layout, place) =>
      layout.map((one, axis) => {
        const other = made[place]?.[axis] as Placement;
        return one.kind === "replicate" && other.kind === "shard" ? other : one;
      }),
    );
    if (next.every((layout, place) => formatLayout(layout) === formatLayout(carry[place] as Layout))) return carry;
    carry = next;
  }
}

/**
 * Sums that start from zero may stay contributions through the whole loop, and are then reduced once behind it instead of
 * in every iteration: zeros are their own contributions.
 */
function keepPartial(
  node: Node,
  carry: readonly Layout[],
  inputs: readonly Layout[],
  mesh: Mesh,
  run: (carry: readonly Layout[]) => readonly Layout[],
): readonly Layout[] {
  const split = range(mesh.axes.length).filter((axis) => inputs.some((layout) => layout[axis]?.kind === "shard"));
  let tries = carry.flatMap((layout, place) => {
    const start = node.inputs[place] as Node;
    if (!isFloat(start.dtype) || !isAll(start, 0)) return [];
    return split.flatMap((axis) => (layout[axis]?.kind === "replicate" ? [{ place, axis }] : []));
  });
  while (tries.length > 0) {
    const tried = carry.map((layout, place) =>
      tries.reduce((made, one) => (one.place === place ? withPlacement(made, one.axis, partial("sum")) : made), layout),
    );
    const made = run(tried);
    const kept = tries.filter(({ place, axis }) => samePlacement(made[place]?.[axis] as Placement, partial("sum")));
    if (kept.length === tries.length) return tried;
    tries = kept;
  }
  return carry;
}

function decideBranch({ branches }: BranchControl, given: readonly Layout[], mesh: Mesh, follow: Follow): Decision {
  const [, ...operands] = given;
  const followed = branches.map((graph) => follow(graph, operands));
  const outputs = branches[0].outputs.map((left, place) =>
    mesh.axes.map((_axis, axis): Placement => {
      const right = branches[1].outputs[place] as Node;
      const one = layoutIn(followed[0] as Map<Node, Decision>, left)[axis] as Placement;
      const other = layoutIn(followed[1] as Map<Node, Decision>, right)[axis] as Placement;
      if (samePlacement(one, other)) return one;
      // Whole values are cut for nothing, and zeros are their own contributions.
      if (one.kind === "replicate" && (other.kind === "shard" || isAll(left, 0))) return other;
      if (other.kind === "replicate" && (one.kind === "shard" || isAll(right, 0))) return one;
      return one.kind === "shard" ? one : other.kind === "shard" ? other : replicate;
    }),
  );
  const owned = branches.map((graph, branch) => ({
    graph,
    decisions: followed[branch] as Map<Node, Decision>,
    inputs: operands,
    outputs,
  }));
  // All devices must take the same branch.
  return decision([replicated(mesh), ...operands], outputs, owned, mesh);
}

function decision(
  inputs: readonly Layout[],
  outputs: readonly Layout[],
  owned: readonly OwnedPlan[],
  mesh: Mesh,
): Decision {
  const strategies = mesh.axes.map(
    (_axis, axis): Strategy => ({
      inputs: inputs.map((layout) => layout[axis] as Placement),
      outputs: outputs.map((layout) => layout[axis] as Placement),
      letter: undefined,
    }),
  );
  return { strategies, layouts: outputs, owned: new Map(owned.map((plan) => [plan.graph, plan])) };
}
