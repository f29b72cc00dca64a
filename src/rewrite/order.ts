/** @module Why rules come to an end: an order of values that has no endless descent, and which every use of a rule lowers. */
import type { Node } from "../ir/node.ts";

/** How high an op stands: what a rule puts in the place of a node is made of lower ops, or of what the node read. */
export type Rank = (node: Node) => number;

/** Whether the first node is above the second. */
export type Order = (above: Node, below: Node) => boolean;

// Left sides of rules are no deeper; a shallower look can only miss that a node is above another.
const deepestPattern = 4;

/**
 * The recursive path order by these ranks: a node is above its inputs; above one of a lower rank if it is above all of that
 * one's inputs; above one of its own rank if its inputs are, as multisets, above those of the other as well.
 *
 * No descent is endless where ranks come from a finite set, and what is above stays so in every place of a graph. So a list
 * of rules of which each lowers the node it matches ends on every graph. Source: N. Dershowitz, Orderings for term-rewriting
 * systems, 1982.
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
      const [own, other] = [rank(s), rank(t)];
      if (own < other || !t.inputs.every((part) => greater(s, part, depth))) return false;
      return own > other || (own === other && greaterInputs(s, t, depth));
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

/** What is left of two lists when equal members have gone in pairs. */
function without(
  first: readonly Node[],
  second: readonly Node[],
  equal: (a: Node, b: Node) => boolean,
): [Node[], Node[]] {
  const rest = [...second];
  const left = first.filter((a) => {
    const at = rest.findIndex((b) => equal(a, b));
    if (at >= 0) rest.splice(at, 1);
    return at < 0;
  });
  return [left, rest];
}
