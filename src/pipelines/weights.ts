/**
 * @module The backward pass of a stage in two parts: by inputs (`B`), for which the stage before waits, and by weights (`W`), for which nothing waits
 * but the update.
 */
import { elementOp } from "../ir/leaf.ts";
import type { Node } from "../ir/node.ts";
import { topological, usersOf } from "../ir/walk.ts";
import { isAccumulation, type StagePlace, type Stages } from "../plan/pipeline/index.ts";

/**
 * Moves the nodes of each `B` that contribute to one gradient of a weight alone to the action `W` of their stage. What another stage needs stays, and
 * what contributes to several gradients (of a layer's weight and bias, and of the layers before it).
 */
export function splitBackward(stages: Stages): Stages {
  const { graph, places } = stages;
  const order = topological(graph.outputs);
  const users = usersOf(order);
  const split = new Map<Node, StagePlace>(places);
  /** The only gradient that a node contributes to; undefined where there are several, or another stage needs the value. */
  const only = new Map<Node, Node | undefined>();
  for (const node of order.toReversed()) {
    const place = places.get(node);
    if (place?.phase !== "B" || place.stage === undefined) continue;
    const targets = (users.get(node) as readonly Node[]).map((user) =>
      isAccumulation(user) ? user : places.get(user)?.stage === place.stage ? only.get(user) : undefined,
    );
    const target = targets.every((other) => other === targets[0]) ? targets[0] : undefined;
    only.set(node, target);
    if (target !== undefined) split.set(node, { ...place, phase: "W" });
  }
  // A part of a tuple is computed with its tuple.
  for (const node of order) {
    const source = node.op === elementOp ? split.get(node.inputs[0] as Node) : undefined;
    if (source !== undefined) split.set(node, source);
  }
  return { ...stages, places: split };
}
