/**
 * @module Preferences: how values are best split, seen from the outputs. The update of a parameter that is stored in parts is
 * best computed in parts, so its gradient is reduce-scattered rather than all-reduced and then split.
 */
import { controlOf } from "../ir/control.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { topological } from "../ir/walk.ts";
import type { Layout, Placement } from "./layout.ts";
import { isCheap } from "./strategy.ts";

/** For each mesh axis how the value is best split; undefined: no preference. */
export type Preference = readonly (Split | undefined)[];

type Split = Placement & { readonly kind: "shard" };

/**
 * Carries the requested layouts of the outputs back through cheap ops, by their index equations. The first preference wins. With an axis that is
 * time, only as far as the sums over rows: what comes before them is split by rows.
 */
export function preferencesOf(
  graph: Graph,
  outputs: readonly (Layout | undefined)[],
  isOverTime: boolean,
): Map<Node, Preference> {
  const preferences = new Map<Node, (Split | undefined)[]>();
  const prefer = (node: Node, splits: Preference): void => {
    if (splits.every((split) => split === undefined)) return;
    const known = preferences.get(node);
    preferences.set(
      node,
      splits.map((split, axis) => known?.[axis] ?? split),
    );
  };
  graph.outputs.forEach((node, index) => {
    prefer(
      node,
      (outputs[index] ?? []).map((placement) => (placement.kind === "shard" ? placement : undefined)),
    );
  });
  for (const node of topological(graph.outputs).reverse()) {
    const splits = preferences.get(node);
    if (splits === undefined || node.types.length > 1 || controlOf(node) !== undefined) continue;
    passBack(node, splits, prefer, isOverTime);
  }
  return preferences;
}

type Prefer = (input: Node, preferred: Preference) => void;

function passBack(node: Node, splits: Preference, prefer: Prefer, isOverTime: boolean): void {
  const { equation } = node.op;
  const types = node.inputs.map((input) => input.types[0] as TensorType);
  if (isAbsent(equation) || !isCheap(node)) return;
  const { inputs, outputs, whole } = equation(types, node.attrs);
  if (isOverTime && inputs.flat().some((letter) => !outputs[0]?.includes(letter))) return;
  node.inputs.forEach((input, index) => {
    prefer(
      input,
      splits.map((split): Split | undefined => {
        const letter = split === undefined ? undefined : outputs[0]?.[split.dim];
        const dim = letter === undefined || whole.has(letter) ? -1 : (inputs[index] ?? []).indexOf(letter);
        if (dim < 0 || split === undefined) return undefined;
        // Sizes hold for a dim of their length only.
        const sameLength = input.types[0]?.shape[dim] === node.shape[split.dim];
        return split.sizes === undefined || sameLength ? { ...split, dim } : undefined;
      }),
    );
  });
}
