/** @module Batching: a graph on a batch of inputs, by each op's own rule. */

import { interpretGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import { type Attrs, type Batched, type Graph, isAbsent, type Node } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply, positionOf } from "../ir/trace.ts";
import { bodyGraph, resultsOf } from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { describePosition } from "../util/source.ts";

/**
 * Outputs of `graph` on a batch of `size`, as nodes of the current trace. A batched input has the batch as dim 0 before
 * the shape of the graph's input, and so has a batched output; values that do not depend on a batched input are computed once.
 *
 * @throws HeddleError `batch` naming the op and its source line when an op on the path has no batching rule.
 */
export function batchGraph(graph: Graph, inputs: readonly Batched[], size: number): Batched[] {
  const results = interpretGraph<readonly Batched[]>(
    graph,
    inputs.map((input) => [input]),
    (node, operands) => {
      if (node.op === elementOp) return [operands[0]?.[node.attrs["index"] as number] as Batched];
      return batchNode(
        node,
        operands.map(([value]) => value as Batched),
        size,
      );
    },
  );
  return results.map(([result]) => result as Batched);
}

function batchNode(node: Node, inputs: readonly Batched[], size: number): readonly Batched[] {
  const { op, attrs } = node;
  if (!inputs.some(({ batched }) => batched)) {
    const unbatched = apply(
      op,
      inputs.map((input) => input.node),
      attrs as Attrs,
    );
    return resultsOf(unbatched).map((result) => ({ node: result, batched: false }));
  }
  if (!isAbsent(op.batch)) {
    return op.batch({ node, inputs, size, batch: (graph, operands) => batchGraph(graph, operands, size) });
  }
  if (isAbsent(op.body)) {
    const where = describePosition(positionOf(node));
    throw new HeddleError(
      "batch",
      `${describeNode(node)} cannot be batched: ${op.batch.absent}`,
      where === undefined ? {} : { where },
    );
  }
  const types = node.inputs.map((input) => input.types[0] as TensorType);
  return batchGraph(bodyGraph(op, types, attrs), inputs, size);
}
