/** @module The reference interpreter: runs a graph node by node by the ops' own reference implementations. */

import { type AnyOpDef, type Graph, type HostTensor, isAbsent, type Node, type ReferenceContext } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import { topological } from "../ir/walk.ts";
import { HeddleError } from "../util/errors.ts";

/** What the surroundings of an evaluation answer; a lone device is at coordinate 0 of every axis. */
export type EvaluationContext = Pick<ReferenceContext, "coordinate">;
const alone: EvaluationContext = { coordinate: () => 0 };

/**
 * Evaluates a graph.
 *
 * @throws HeddleError `argument` when inputs do not have the graph's types; `value` for value errors, naming the op.
 */
export function evaluateGraph(
  graph: Graph,
  inputs: readonly HostTensor[],
  surroundings: EvaluationContext = alone,
): HostTensor[] {
  checkArguments(graph, inputs);
  const values = new Map<Node, readonly HostTensor[]>(
    graph.inputs.map((node, index) => [node, [inputs[index] as HostTensor]]),
  );
  for (const node of topological(graph.outputs)) {
    if (values.has(node)) continue;
    values.set(
      node,
      evaluateNode(
        node,
        node.inputs.flatMap((input) => values.get(input) as readonly HostTensor[]),
        surroundings,
      ),
    );
  }
  return graph.outputs.map((output) => (values.get(output) as readonly HostTensor[])[0] as HostTensor);
}

/** Runs one node on host tensors. */
export function evaluateNode(
  node: Node,
  inputs: readonly HostTensor[],
  surroundings: EvaluationContext = alone,
): HostTensor[] {
  const { reference } = node.op as AnyOpDef;
  if (isAbsent(reference))
    throw new HeddleError("op", `${node.op.name} has no reference implementation: ${reference.absent}`);
  const context: ReferenceContext = {
    coordinate: (axis) => surroundings.coordinate(axis),
    evaluate: (graph, arguments_) => evaluateGraph(graph, arguments_, surroundings),
  };
  const results = reference(inputs, node.attrs, node.types, context);
  return node.types.map((type, index) => ({ ...type, data: results[index] as HostTensor["data"] }));
}

function checkArguments(graph: Graph, inputs: readonly HostTensor[]): void {
  if (inputs.length !== graph.inputs.length) {
    throw new HeddleError(
      "argument",
      `graph '${graph.name}' takes ${graph.inputs.length} inputs, got ${inputs.length}`,
    );
  }
  graph.inputs.forEach((node, index) => {
    const input = inputs[index] as HostTensor;
    if (!sameType(node.types[0] as TensorType, input)) {
      throw new HeddleError("argument", `graph '${graph.name}': ${describeNode(node)} got ${formatType(input)}`);
    }
  });
}
