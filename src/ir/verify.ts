/** @module Checks that a graph is whole: what every pass may rely on. */
import { HeddleError } from "../util/errors.ts";
import { elementOp, parameterOp } from "./leaf.ts";
import type { Graph, Node } from "./node.ts";
import { describeNode } from "./print.ts";
import { sameType, type TensorType } from "./shape.ts";
import { isGraph } from "./trace.ts";
import { topological } from "./walk.ts";

/**
 * Verifies a graph and the graphs it owns.
 *
 * @throws HeddleError `verify` naming the graph, the node and what is wrong.
 */
export function verifyGraph(graph: Graph): void {
  const fail = (message: string): never => {
    throw new HeddleError("verify", `graph '${graph.name}': ${message}`);
  };
  graph.inputs.forEach((input, index) => {
    if (input.op !== parameterOp) fail(`input ${index} is not a parameter`);
    if (input.attrs["index"] !== index) fail(`input ${index} is parameter ${String(input.attrs["index"])}`);
  });
  const inputs = new Set(graph.inputs);
  for (const node of topological(graph.outputs)) {
    if (node.op === parameterOp && !inputs.has(node)) fail(`${describeNode(node)} is not an input`);
    verifyNode(node, fail);
  }
  for (const output of graph.outputs)
    if (output.types.length !== 1) fail(`output ${describeNode(output)} has several results`);
}

function verifyNode(node: Node, fail: (message: string) => never): void {
  const picks = node.op === elementOp;
  for (const input of node.inputs) {
    if (input.id >= node.id) fail(`${describeNode(node)} is older than its input`);
    if (input.types.length !== 1 && !picks) fail(`${describeNode(node)} uses several results at once`);
  }
  const derived = node.op.infer(
    node.inputs.flatMap((input) => input.types),
    node.attrs,
  );
  const types = (Array.isArray(derived) ? derived : [derived]) as readonly TensorType[];
  if (
    types.length !== node.types.length ||
    !types.every((type, index) => sameType(type, node.types[index] as TensorType))
  ) {
    fail(`${describeNode(node)} has types that its op does not give`);
  }
  for (const value of Object.values(node.attrs)) if (isGraph(value)) verifyGraph(value);
}
