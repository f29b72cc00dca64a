/** @module The reference interpreter: runs a graph node by node by the reference implementations of its ops. */

import { dtypes, isHalf, type TypedArray } from "../ir/dtype.ts";
import { movesElements } from "../ir/kernel.ts";
import { type AnyOpDef, type Graph, type HostTensor, isAbsent, type Node, type ReferenceContext } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import { meaningAt, positionOf } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { HeddleError, refusedBy } from "../util/errors.ts";
import { placeOf } from "../util/source.ts";

/** What an evaluation asks of its surroundings; a single device is at coordinate 0 of every axis. */
export type EvaluationContext = Pick<ReferenceContext, "coordinate">;
const alone: EvaluationContext = { coordinate: () => 0 };

/**
 * Evaluates a graph.
 *
 * @throws HeddleError `argument` if inputs do not have the graph's types; `value` for values that an op refuses, with the op's name.
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
  try {
    if (computesHalf(node)) return inDouble(node, inputs, (wide, types) => reference(wide, node.attrs, types, context));
    const results = reference(inputs, node.attrs, node.types, context);
    return node.types.map((type, index) => ({ ...type, data: results[index] as HostTensor["data"] }));
  } catch (error) {
    const position = positionOf(node);
    if (position === undefined && node.op.says === undefined) throw error;
    const by = position?.by ?? { name: node.op.name };
    throw refusedBy({ ...by, says: meaningAt(node, by) }, error, placeOf(position), position?.mark);
  }
}

/** Whether a node computes with 16-bit floats: not if it only moves elements, or runs graphs whose nodes compute. */
function computesHalf({ op, inputs, types, attrs }: Node): boolean {
  if (!isAbsent(op.control) || !isAbsent(op.body)) return false;
  if (movesElements(op.form, attrs)) return false;
  return [...inputs.flatMap((input) => input.types), ...types].some(({ dtype }) => isHalf(dtype));
}

/** Runs a node with f64 in place of 16-bit floats, and rounds its results once. */
function inDouble(
  node: Node,
  inputs: readonly HostTensor[],
  run: (inputs: readonly HostTensor[], types: readonly TensorType[]) => readonly TypedArray[],
): HostTensor[] {
  const double = <T extends TensorType>(type: T): T => (isHalf(type.dtype) ? { ...type, dtype: "f64" } : type);
  const wide = inputs.map((input) =>
    isHalf(input.dtype) ? { ...double(input), data: Float64Array.from(input.data) } : input,
  );
  const results = run(wide, node.types.map(double));
  return node.types.map((type, index) => {
    const data = results[index] as TypedArray;
    return { ...type, data: isHalf(type.dtype) ? dtypes[type.dtype].create(data) : data };
  });
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
