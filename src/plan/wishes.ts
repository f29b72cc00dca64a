/**
 * @module Wishes: how values had best come out, seen from where they end. The update of a parameter that is kept in
 * parts is best computed in parts, so its gradient is reduce-scattered rather than all-reduced and cut.
 */
import { controlOf } from "../ir/control.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { topological } from "../ir/walk.ts";
import type { Layout } from "./layout.ts";
import { isCheap } from "./strategy.ts";

/** For each mesh axis the dim that had best be split on it; undefined: no wish. */
export type Wish = readonly (number | undefined)[];

/** Carries the layouts wanted of the outputs back through cheap ops, by their index equations. The first wish stands. */
export function wishesOf(graph: Graph, outputs: readonly (Layout | undefined)[]): Map<Node, Wish> {
  const wishes = new Map<Node, (number | undefined)[]>();
  const wish = (node: Node, dims: Wish): void => {
    if (dims.every((dim) => dim === undefined)) return;
    const known = wishes.get(node);
    wishes.set(
      node,
      dims.map((dim, axis) => known?.[axis] ?? dim),
    );
  };
  graph.outputs.forEach((node, index) => {
    wish(
      node,
      (outputs[index] ?? []).map((placement) => (placement.kind === "shard" ? placement.dim : undefined)),
    );
  });
  for (const node of topological(graph.outputs).reverse()) {
    const wanted = wishes.get(node);
    if (wanted === undefined || node.types.length > 1 || controlOf(node) !== undefined) continue;
    passBack(node, wanted, wish);
  }
  return wishes;
}

function passBack(node: Node, wanted: Wish, wish: (input: Node, dims: Wish) => void): void {
  const { equation } = node.op;
  const types = node.inputs.map((input) => input.types[0] as TensorType);
  if (isAbsent(equation) || !isCheap(node)) return;
  const { inputs, outputs, whole } = equation(types, node.attrs);
  const letters = wanted.map((dim) => (dim === undefined ? undefined : outputs[0]?.[dim]));
  node.inputs.forEach((input, index) => {
    wish(
      input,
      letters.map((letter) => {
        const dim = letter === undefined || whole.has(letter) ? -1 : (inputs[index] ?? []).indexOf(letter);
        return dim < 0 ? undefined : dim;
      }),
    );
  });
}
