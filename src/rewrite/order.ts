/** @module Termination of rules: an order of values without endless descent, which every use of a rule lowers. */
import type { Node } from "../ir/node.ts";

/** The rank of an op: a rule replaces a node by lower ops, or by inputs of the node. */
export type Rank = (node: Node) => number;

/** Whether the first node is above the second. */
export type Order = (above: Node, below: Node) => boolean;

// The left sides of rules are not deeper; a shallower comparison can only miss that a node is above another.
const deepestPattern = 4;

/**
 * The recursive path order by these ranks: a node is above its inputs; above a node of lower rank if it is above all
 * inputs of that node; above a node of equal rank if, in addition, its inputs are above those of that node as multisets.
 *
 * No descent is endless where ranks come from a finite set, and the order holds in every context of a graph. So a list of
 * rules each of which lowers the node that it matches terminates on every graph. Source: N. Dershowitz, Orderings for
 * term-rewriting systems, 1982.
 */
export function pathOrder(rank: Rank): Order {
  return (above, below) => {
    const known = new Map<string, boolean>();
    const numbers = new Map<Node, number>();
    const numberOf = (node: Node): number => {
      if (!numbers.has(node)) numbers.set(node, numbers.size);
      return numbers.get(node) as number;
    };
    const greater = (s: Node, t: Node, depth: number): boolean => {
      if (s === t || depth > deepestPattern) return false;
      const key = `${numberOf(s)} ${numberOf(t)} ${depth}`;
      const answer = known.get(key) ?? compare(s, t, depth);
      known.set(key, answer);
      return answer;
    };
    const compare = (s: Node, t: Node, depth: number): boolean => {
      if (s.inputs.some((part) => equal(part, t) || greater(part, t, depth + 1))) return true;
      const [rankS, rankT] = [rank(s), rank(t)];
      if (rankS < rankT || !t.inputs.every((part) => greater(s, part, depth))) return false;
      return rankS > rankT || (rankS === rankT && greaterInputs(s, t, depth));
    };
    const greaterInputs = (s: Node, t: Node, depth: number): boolean => {
      const [more, fewer] = without(s.inputs, t.inputs, equal);
      return more.length > 0 && fewer.every((part) => more.some((from) => greater(from, part, depth + 1)));
    };
    const equal = (s: Node, t: Node): boolean =>
      s === t ||
      (s.inputs.length > 0 &&
        s.inputs.length === t.inputs.length &&
        rank(s) === rank(t) &&
        without(s.inputs, t.inputs, (a, b) => a === b)[0].length === 0);
    return greater(above, below, 0);
  };
}

/** The members of two lists that remain when pairs of equal members are removed. */
function without(
  first: readonly Node[],
  second: readonly Node[],
  equal: (a: Node, b: Node) => boolean,
): [Node[], Node[]] {
  const secondLeft = [...second];
  const firstLeft = first.filter((a) => {
    const match = secondLeft.findIndex((b) => equal(a, b));
    if (match >= 0) secondLeft.splice(match, 1);
    return match < 0;
  });
  return [firstLeft, secondLeft];
}
