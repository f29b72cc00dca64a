/**
 * @module What an op says of the graphs that it owns, as data: when they run and what their inputs and outputs are. The
 * planner, the program and the executors read it and never ask which op it is.
 */
import type { Graph, Node } from "./node.ts";

/**
 * A loop. The body takes an i32 scalar that counts the iterations, then what the node takes: carries, slices (index i of
 * dim 0 of an input), and the rest whole, alike in every iteration. It gives the next carries, then what is stacked along
 * a new dim 0 as the node's further results.
 */
export interface LoopControl {
  readonly kind: "loop";
  readonly body: Graph;
  /** Runs before each iteration, on what the body takes; the loop ends when its bool is false. */
  readonly condition: Graph | undefined;
  /** Number of iterations; undefined where the condition decides. */
  readonly length: number | undefined;
  /** Whether the count goes down from `length - 1`. */
  readonly reverse: boolean;
  readonly carries: number;
  readonly slices: number;
}

/** One of two graphs: the first where the node's first input, a bool scalar, is true. Both take the further inputs. */
export interface BranchControl {
  readonly kind: "branch";
  readonly branches: readonly [onTrue: Graph, onFalse: Graph];
}

export type Control = LoopControl | BranchControl;

/** The loop or branch that a node is, if it is one. */
export function controlOf(node: Pick<Node, "op" | "attrs">): Control | undefined {
  const { control } = node.op;
  return "absent" in control ? undefined : control(node.attrs);
}
