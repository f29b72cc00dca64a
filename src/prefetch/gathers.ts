/**
 * @module Gathers: collectives whose result is larger than their input and that wait for no computation, as the all-gather of a parameter
 * that is stored in parts (Rajbhandari et al., "ZeRO", 2020, stage 3). They are sent shortly before their users, in groups: while
 * a group is used the next one is sent, so that at most two groups are live.
 */
import { communicationOf } from "../ir/communication.ts";
import { mapGraph } from "../ir/graph.ts";
import { elementOp, parameterOp } from "../ir/leaf.ts";
import { type Attrs, type Graph, isAbsent, type Node } from "../ir/node.ts";
import { bytesOf } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { topological, usersOf } from "../ir/walk.ts";

/** Gathers that are sent together. */
export interface GatherGroup {
  readonly nodes: Node[];
  /** What their first user needs: it is computed before the next group is sent. */
  readonly operands: readonly Node[];
}

/** Room for values beside the largest: with an eighth more, a bias travels with its weight. */
export const roomBeside = 1.125;

/** Bytes of all results of a node. */
export const resultBytes = ({ types }: Node): number => types.reduce((sum, type) => sum + bytesOf(type), 0);

/** The longest path to each node. @param order inputs before users */
export function depthsOf(order: readonly Node[]): Map<Node, number> {
  const depths = new Map<Node, number>();
  for (const node of order)
    depths.set(node, 1 + node.inputs.reduce((longest, input) => Math.max(longest, depths.get(input) as number), 0));
  return depths;
}

/** The groups of gathers, in the order of their use. @param order all nodes of a graph, inputs before users */
export function gatherGroups(order: readonly Node[]): GatherGroup[] {
  const gathers = gathersOf(order);
  if (gathers.size === 0) return [];
  const depths = depthsOf(order);
  const depth = (node: Node): number => depths.get(node) as number;
  const uses = firstUsers(order, depth);
  const sorted = [...gathers].sort((left, right) => depth(uses.get(left) as Node) - depth(uses.get(right) as Node));
  // The largest result needs as much in any case.
  const limit = Math.max(...sorted.flatMap(({ types }) => types.map(bytesOf))) * roomBeside;
  const groups: GatherGroup[] = [];
  let room = 0;
  for (const node of sorted) {
    const bytes = resultBytes(node);
    if (groups.length === 0 || bytes > room) {
      groups.push({ nodes: [], operands: (uses.get(node) as Node).inputs });
      room = limit;
    }
    room -= bytes;
    groups.at(-1)?.nodes.push(node);
  }
  return groups;
}

/** Whether a node is a collective whose result is larger than its input on every device. */
export const isGather = (node: Node): boolean =>
  (communicationOf<Attrs>(node)?.received(1, node.attrs["parts"] as number, node.attrs) ?? 0) > 1;

/** Whether an op's result is only another form of one value. */
const passesOn = ({ op, inputs }: Node): boolean =>
  op === elementOp ||
  (!isAbsent(op.form) && (op.form.kind === "view" || (op.form.kind === "pointwise" && inputs.length === 1)));

/** The gathers that need nothing but inputs of the graph. */
function gathersOf(order: readonly Node[]): Set<Node> {
  const gathers = new Set<Node>();
  const given = new Set<Node>();
  for (const node of order) {
    if (
      node.op !== parameterOp &&
      !((isGather(node) || passesOn(node)) && node.inputs.every((input) => given.has(input)))
    )
      continue;
    given.add(node);
    if (isGather(node)) gathers.add(node);
  }
  return gathers;
}

/**
 * For each value the user that needs it first, by `depth`. An op whose result is only another form of the value is no user, and
 * neither is a collective whose result is larger.
 */
export function firstUsers(order: readonly Node[], depth: (node: Node) => number): Map<Node, Node> {
  const users = usersOf(order);
  const first = new Map<Node, Node>();
  for (const node of order.toReversed()) {
    let found = node;
    for (const user of users.get(node) ?? []) {
      const isForm = passesOn(user) || isGather(user);
      const use = isForm ? (first.get(user) as Node) : user;
      if (found === node || depth(use) < depth(found)) found = use;
    }
    first.set(node, found);
  }
  return first;
}

/** Whether two nodes differ in their label alone. */
function isSameGather(one: Node, other: Node): boolean {
  const text = ({ op, inputs, attrs }: Node): string =>
    `${op.name} ${inputs.map(({ id }) => id)} ${JSON.stringify({ ...attrs, label: "" })}`;
  return text(one) === text(other);
}

/** Gathers a value once for uses that follow each other: the last layer's parameters for the way there and the way back. */
export function shareGathers(graph: Graph): Graph {
  const groups = gatherGroups(topological(graph.outputs));
  const shared = new Map<Node, Node>();
  groups.forEach(({ nodes }, index) => {
    const near = [...(groups[index - 1]?.nodes ?? []), ...nodes];
    for (const node of nodes) {
      const first = near.find((other) => isSameGather(other, node)) as Node;
      if (first !== node) shared.set(node, shared.get(first) ?? first);
    }
  });
  if (shared.size === 0) return graph;
  const made = new Map<Node, Node>();
  return mapGraph(graph, (node, inputs) => {
    const first = shared.get(node);
    const local = (first === undefined ? undefined : made.get(first)) ?? apply(node.op, inputs, node.attrs);
    made.set(node, local);
    return local;
  });
}
