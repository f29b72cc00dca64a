/** @module The order of the steps of a program that are not compute. */
import { elementOp } from "../ir/leaf.ts";
import type { Node } from "../ir/node.ts";
import { topological } from "../ir/walk.ts";
import { depthsOf, firstUsers, gatherGroups, isGather, resultBytes } from "./gathers.ts";

/** A step, and what is computed before it besides its inputs. */
export interface Ordered {
  readonly node: Node;
  readonly needs: readonly Node[];
}

/**
 * Steps by the length of the longest path to them, so that gradients of the last layers are sent first; gathers by their users.
 *
 * @param order all nodes of a graph, inputs before users
 * @param steps those that are steps of their own, in the same order
 */
export function orderSteps(order: readonly Node[], steps: readonly Node[]): Ordered[] {
  const depths = depthsOf(order);
  const depth = (node: Node): number => depths.get(node) as number;
  const groups = gatherGroups(order);
  const groupOf = new Map(groups.flatMap(({ nodes }, index) => nodes.map((node) => [node, index] as const)));
  const before = (node: Node): readonly Node[] => groups[(groupOf.get(node) ?? 0) - 1]?.operands ?? [];
  const firstUser = firstUsers(order, depth);
  // A group is sent when the group before it is about to be used.
  const position = (node: Node): number => {
    if (groupOf.has(node)) return Math.max(0, ...before(node).map(depth)) + 0.5;
    return isGather(node) ? Math.max(depth(node), depth(firstUser.get(node) as Node) - 0.5) : depth(node);
  };
  const prompt = promptNodes(order, steps).sort((left, right) => depth(right) - depth(left));
  return steps
    .toSorted((left, right) => position(left) - position(right))
    .map((node) => {
      const made: Node[] = [];
      while (prompt.length > 0 && depth(prompt.at(-1) as Node) < position(node)) made.push(prompt.pop() as Node);
      return { node, needs: [...made, ...before(node)] };
    });
}

/** What no step needs would be computed at the end: these nodes come early, since larger gathered values live until then. */
function promptNodes(order: readonly Node[], steps: readonly Node[]): Node[] {
  const apart = new Set(steps);
  const awaited = new Set(topological(steps.flatMap(({ inputs }) => inputs)));
  const gathered = (input: Node): number =>
    isGather(input.op === elementOp ? (input.inputs[0] as Node) : input) ? resultBytes(input) : 0;
  const frees = (node: Node): boolean =>
    node.inputs.reduce((sum, input) => sum + gathered(input), 0) > resultBytes(node);
  return order.filter((node) => !awaited.has(node) && !apart.has(node) && frees(node));
}
