/** @module Orders over the nodes of a graph. */
import type { Graph, Node } from "./node.ts";
import { isGraph } from "./trace.ts";

/**
 * All nodes that `outputs` need, in the order in which they were made. Inputs are always older than their users, so this
 * is a topological order, and it is the order of the user's program: forward before backward before update.
 */
export function topological(outputs: readonly Node[]): Node[] {
  const seen = new Set<Node>(outputs);
  const open = [...seen];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    for (const input of node.inputs) {
      if (seen.has(input)) continue;
      seen.add(input);
      open.push(input);
    }
  }
  return [...seen].sort((left, right) => left.id - right.id);
}

/** For each node, the nodes that use it, in the order of `nodes`. */
export function usersOf(nodes: readonly Node[]): Map<Node, Node[]> {
  const users = new Map<Node, Node[]>(nodes.map((node) => [node, []]));
  for (const node of nodes) for (const input of new Set(node.inputs)) users.get(input)?.push(node);
  return users;
}

/** All nodes of a graph and of the graphs that its ops own. */
export function nodesWithin(graph: Graph): Node[] {
  return topological(graph.outputs).flatMap((node) => [
    node,
    ...Object.values(node.attrs).flatMap((value) => (isGraph(value) ? nodesWithin(value) : [])),
  ]);
}

/** Arithmetic of a node, as its op says. */
export const flopsOf = ({ op, inputs, types, attrs }: Pick<Node, "op" | "inputs" | "types" | "attrs">): number =>
  op.cost(
    inputs.flatMap((input) => input.types),
    types,
    attrs,
  );

/** Arithmetic of the nodes that make these. */
export const flopsTo = (outputs: readonly Node[]): number =>
  topological(outputs).reduce((total, node) => total + flopsOf(node), 0);
