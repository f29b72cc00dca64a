/**
 * @module Layouts of loops and branches. A carry has one layout: the planner starts from the layout of its first value, follows
 * the body, and splits the carry wherever the body returns it split, until nothing changes.
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

/** Follows layouts through a graph: the planner's function, passed in so that the two files need not import each other. */
export type Follow = (graph: Graph, inputs: readonly Layout[]) => Map<Node, Decision>;

/** Decides for a node that owns graphs, given the layouts of its inputs. */
export function decideControl(node: Node, operands: readonly Layout[], mesh: Mesh, follow: Follow): Decision {
  const control = controlOf(node) as Control;
  // A partial operand is summed once outside, not in every iteration.
  const summed = operands.map((layout) => layout.map((p) => (p.kind === "partial" ? replicate : p)));
  return control.kind === "loop"
    ? decideLoop(node, control, summed, mesh, follow)
    : decideBranch(control, summed, mesh, follow);
}

const layoutIn = (decisions: ReadonlyMap<Node, Decision>, node: Node): Layout =>
  (decisions.get(node) as Decision).layouts[0] as Layout;

const shiftDims = (layout: Layout, by: number): Layout =>
  layout.map((p) => (p.kind !== "shard" ? p : p.dim + by < 0 ? replicate : shard(p.dim + by, p.sizes)));

function decideLoop(
  node: Node,
  control: LoopControl,
  operands: readonly Layout[],
  mesh: Mesh,
  follow: Follow,
): Decision {
  const { body, condition, carries, slices } = control;
  const wholeLayout = replicated(mesh);
  const sliced = operands.slice(carries, carries + slices).map((layout) => shiftDims(layout, -1));
  const constants = operands.slice(carries + slices);
  const inputsFor = (carry: readonly Layout[]): Layout[] => [wholeLayout, ...carry, ...sliced, ...constants];
  const results = (decisions: ReadonlyMap<Node, Decision>): Layout[] =>
    body.outputs.slice(0, carries).map((output) => layoutIn(decisions, output));
  const split = splitCarries(operands.slice(0, carries), (carry) => results(follow(body, inputsFor(carry))));
  const carry = keepPartial(node, split, inputsFor(split), mesh, (layouts) =>
    results(follow(body, inputsFor(layouts))),
  );
  const decisions = follow(body, inputsFor(carry));
  const stacks = body.outputs.slice(carries).map((output) => layoutIn(decisions, output));
  const owned = [{ graph: body, decisions, inputs: inputsFor(carry), outputs: [...carry, ...stacks] }];
  if (condition !== undefined) {
    const conditionDecisions = follow(condition, inputsFor(carry));
    // All devices must agree on whether to go on.
    owned.push({ graph: condition, decisions: conditionDecisions, inputs: inputsFor(carry), outputs: [wholeLayout] });
  }
  const inputs = [...carry, ...sliced.map((layout) => shiftDims(layout, 1)), ...constants];
  return decision(inputs, [...carry, ...stacks.map((layout) => shiftDims(layout, 1))], owned, mesh);
}

/** Splits carries that are whole where the body returns them split. */
function splitCarries(
  first: readonly Layout[],
  run: (carry: readonly Layout[]) => readonly Layout[],
): readonly Layout[] {
  for (let carry = first; ; ) {
    const results = run(carry);
    const next = carry.map((layout, index) =>
      layout.map((placement, axis) => {
        const fromBody = results[index]?.[axis] as Placement;
        return placement.kind === "replicate" && fromBody.kind === "shard" ? fromBody : placement;
      }),
    );
    if (next.every((layout, index) => formatLayout(layout) === formatLayout(carry[index] as Layout))) return carry;
    carry = next;
  }
}

/**
 * Keeps sums that start from zero as contributions through the whole loop, so that they are reduced once after it instead of in
 * every iteration. Zeros need no reduction first: zeros on every device add up to zero.
 */
function keepPartial(
  node: Node,
  carry: readonly Layout[],
  inputs: readonly Layout[],
  mesh: Mesh,
  run: (carry: readonly Layout[]) => readonly Layout[],
): readonly Layout[] {
  const split = range(mesh.axes.length).filter((axis) => inputs.some((layout) => layout[axis]?.kind === "shard"));
  let tries = carry.flatMap((layout, index) => {
    const start = node.inputs[index] as Node;
    if (!isFloat(start.dtype) || !isAll(start, 0)) return [];
    return split.flatMap((axis) => (layout[axis]?.kind === "replicate" ? [{ index, axis }] : []));
  });
  while (tries.length > 0) {
    const attempt = carry.map((layout, index) =>
      tries.reduce(
        (layouts, at) => (at.index === index ? withPlacement(layouts, at.axis, partial("sum")) : layouts),
        layout,
      ),
    );
    const results = run(attempt);
    const passing = tries.filter(({ index, axis }) =>
      samePlacement(results[index]?.[axis] as Placement, partial("sum")),
    );
    if (passing.length === tries.length) return attempt;
    tries = passing;
  }
  return carry;
}

function decideBranch({ branches }: BranchControl, operands: readonly Layout[], mesh: Mesh, follow: Follow): Decision {
  const [, ...inputs] = operands;
  const followed = branches.map((graph) => follow(graph, inputs));
  const outputs = branches[0].outputs.map((first, index) =>
    mesh.axes.map((_axis, axis): Placement => {
      const second = branches[1].outputs[index] as Node;
      const placement = layoutIn(followed[0] as Map<Node, Decision>, first)[axis] as Placement;
      const otherPlacement = layoutIn(followed[1] as Map<Node, Decision>, second)[axis] as Placement;
      if (samePlacement(placement, otherPlacement)) return placement;
      // To split a whole value costs nothing, and zeros on every device add up to zero.
      if (placement.kind === "replicate" && (otherPlacement.kind === "shard" || isAll(first, 0))) return otherPlacement;
      if (otherPlacement.kind === "replicate" && (placement.kind === "shard" || isAll(second, 0))) return placement;
      return placement.kind === "shard" ? placement : otherPlacement.kind === "shard" ? otherPlacement : replicate;
    }),
  );
  const plans = branches.map((graph, branch) => ({
    graph,
    decisions: followed[branch] as Map<Node, Decision>,
    inputs,
    outputs,
  }));
  // All devices must take the same branch.
  return decision([replicated(mesh), ...inputs], outputs, plans, mesh);
}

function decision(
  inputs: readonly Layout[],
  outputs: readonly Layout[],
  plans: readonly OwnedPlan[],
  mesh: Mesh,
): Decision {
  const strategies = mesh.axes.map(
    (_axis, axis): Strategy => ({
      inputs: inputs.map((layout) => layout[axis] as Placement),
      outputs: outputs.map((layout) => layout[axis] as Placement),
      letter: undefined,
    }),
  );
  return { strategies, layouts: outputs, owned: new Map(plans.map((plan) => [plan.graph, plan])) };
}
