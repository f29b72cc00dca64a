/**
 * @module Wishes: how values had best come out, seen from where they end. The update of a parameter that is kept in
 * parts is best computed in parts, so its gradient is reduce-scattered rather than all-reduced and cut.
 */
import { controlOf } from "../ir/control.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { topological } from "../ir/walk.ts";
import type { Layout, Placement } from "./layout.ts";
import { isCheap } from "./strategy.ts";

/** For each mesh axis how it had best split the value; undefined: no wish. */
export type Wish = readonly (Split | undefined)[];

type Split = Placement & { readonly kind: "shard" };

/** Carries the layouts wanted of the outputs back through cheap ops, by their index equations. The first wish stands. */
export function wishesOf(graph: Graph, outputs: readonly (Layout | undefined)[]): Map<Node, Wish> {
  const wishes = new Map<Node, (Split | undefined)[]>();
  const wish = (node: Node, splits: Wish): void => {
    if (splits.every((split) => split === undefined)) return;
    const known = wishes.get(node);
    wishes.set(
      node,
      splits.map((split, axis) => known?.[axis] ?? split),
    );
  };
  graph.outputs.forEach((node, index) => {
    wish(
      node,
      (outputs[index] ?? []).map((placement) => (placement.kind === "shard" ? placement : undefined)),
    );
  });
  for (const node of topological(graph.outputs).reverse()) {
    const wanted = wishes.get(node);
    if (wanted === undefined || node.types.length > 1 || controlOf(node) !== undefined) continue;
    passBack(node, wanted, wish);
  }
  return wishes;
}

function passBack(node: Node, wanted: Wish, wish: (input: Node, splits: Wish) => void): void {
  const { equation } = node.op;
  const types = node.inputs.map((input) => input.types[0] as TensorType);
  if (isAbsent(equation) || !isCheap(node)) return;
  const { inputs, outputs, whole } = equation(types, node.attrs);
  node.inputs.forEach((input, index) => {
    wish(
      input,
      wanted.map((split): Split | undefined => {
        const letter = split === undefined ? undefined : outputs[0]?.[split.dim];
        const dim = letter === undefined || whole.has(letter) ? -1 : (inputs[index] ?? []).indexOf(letter);
        if (dim < 0 || split === undefined) return undefined;
        // Sizes hold for a dim of their length only.
        const same = input.types[0]?.shape[dim] === node.shape[split.dim];
        return split.sizes === undefined || same ? { ...split, dim } : undefined;
      }),
    );
  });
}
