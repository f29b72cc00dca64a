/**
 * @module Forward-mode differentiation: values and tangents of a graph in one pass.
 *
 * The tangent of an op follows from its gradient: the cotangents of the inputs are linear in those of the results, and the
 * gradient of that linear map is the tangent (the map is transposed twice). This is done op by op, so each op adds only a
 * few nodes, and nothing is stored for a backward pass.
 */

import { isFloat } from "../ir/dtype.ts";
import { type InputSpec, inlineGraph, interpretGraph, traceGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import { type Attrs, type Dual, type Graph, isAbsent, type Node } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply, positionOf } from "../ir/trace.ts";
import { bodyGraph, dependentOutputs, full, notLinear, resultsOf } from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { describePosition } from "../util/source.ts";
import { pullback } from "./gradient.ts";

/**
 * Outputs of `graph` and their tangents, given those of its inputs (undefined: zero), as nodes of the current trace.
 *
 * @throws HeddleError `gradient` naming the op and its source line when an op on the path has no gradient.
 */
export function forwardGraph(graph: Graph, inputs: readonly Dual[]): Dual[] {
  const results = interpretGraph<readonly Dual[]>(
    graph,
    inputs.map((input) => [input]),
    (node, operands) => {
      if (node.op === elementOp) return [operands[0]?.[node.attrs["index"] as number] as Dual];
      return forwardNode(
        node,
        operands.map(([value]) => value as Dual),
      );
    },
  );
  return results.map(([result]) => result as Dual);
}

function forwardNode(node: Node, inputs: readonly Dual[]): readonly Dual[] {
  const { op } = node;
  const moving = inputs.some(({ tangent }) => tangent !== undefined);
  if (moving && !isAbsent(op.forward)) return op.forward({ node, inputs, forward: forwardGraph });
  const results = resultsOf(
    apply(
      op,
      inputs.map((input) => input.node),
      node.attrs as Attrs,
    ),
  );
  if (!moving || !node.types.some(({ dtype }) => isFloat(dtype)))
    return results.map((result) => ({ node: result, tangent: undefined }));
  if (!isAbsent(op.gradient)) {
    const tangents = tangentsOf(node, inputs);
    return results.map((result, index) => ({ node: result, tangent: tangents[index] }));
  }
  if (!isAbsent(op.body)) {
    const bodyResults = forwardGraph(bodyGraph(op, typesOf(node.inputs), node.attrs), inputs);
    return results.map((result, index) => ({ node: result, tangent: bodyResults[index]?.tangent }));
  }
  const where = describePosition(positionOf(node));
  throw new HeddleError(
    "gradient",
    `${describeNode(node)} has no derivative: ${op.gradient.absent}`,
    where === undefined ? {} : { where },
  );
}

const typesOf = (nodes: readonly Node[]): TensorType[] => nodes.map((node) => node.types[0] as TensorType);

/** Tangents of an op's results, by transposing its gradient. */
function tangentsOf(node: Node, inputs: readonly Dual[]): (Node | undefined)[] {
  const { op, attrs, types } = node;
  const moving = [...inputs.keys()].filter((position) => inputs[position]?.tangent !== undefined);
  const inputTypes = typesOf(node.inputs);
  const spec = (type: TensorType, index: number): InputSpec => ({ name: `x${index}`, type });
  const specs = [...inputTypes, ...moving.map((index) => inputTypes[index] as TensorType), ...types].map(spec);
  let hasTangent: boolean[] = [];
  // A separate trace, where the cotangents are inputs and the path back is as long as the op.
  const graph = traceGraph(`tangent of ${op.name}`, specs, (...nodes) => {
    const tangents = nodes.slice(inputTypes.length, inputTypes.length + moving.length);
    const cotangents = nodes.slice(inputTypes.length + moving.length);
    const copy = apply(op, nodes.slice(0, inputTypes.length), attrs as Attrs);
    if (isAbsent(op.gradient)) throw new TypeError(`${op.name} has no gradient`);
    const inputCotangents = op.gradient({ node: copy, cotangents, pullback });
    const pairs = moving.flatMap((index, order) => {
      const cotangent = inputCotangents[index];
      return cotangent === undefined ? [] : [{ cotangent, tangent: tangents[order] as Node }];
    });
    const results = pullback(
      pairs.map(({ cotangent }) => cotangent),
      pairs.map(({ tangent }) => tangent),
      cotangents,
    );
    hasTangent = results.map((result) => result !== undefined);
    const outputs = results.filter((result) => result !== undefined);
    return outputs;
  });
  const isCotangent = specs.map((_spec, index) => index >= inputTypes.length + moving.length);
  if (dependentOutputs(graph, isCotangent).includes(true)) throw notLinear(node, "gradient", "forward mode");
  const zeros = types.map(({ dtype, shape }) => full(dtype, shape, 0));
  const tangents = inlineGraph(graph, [
    ...inputs.map((input) => input.node),
    ...moving.map((index) => inputs[index]?.tangent as Node),
    ...zeros,
  ]);
  return hasTangent.map((is) => (is ? tangents.shift() : undefined));
}
