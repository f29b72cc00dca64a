/**
 * @module What an op says of the graphs that it owns, as data: when they run and what their inputs and outputs are. The
 * planner, the program and the executors read it and never ask which op it is.
 */
import type { Control, Node } from "./node.ts";

export type { BranchControl, Control, LoopControl } from "./node.ts";

/** The loop or branch that a node is, if it is one. */
export function controlOf(node: Pick<Node, "op" | "attrs">): Control | undefined {
  const { control } = node.op;
  return "absent" in control ? undefined : control(node.attrs);
}
