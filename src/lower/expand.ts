/** @module Expansion: composites without a kernel are replaced by their bodies. */
import { inputSpecs, traceGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply, atPositionOf } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { bodyGraph } from "../ops/index.ts";

/** Which composites keep their kernels: all that have a kernel, or none (to compare both). */
export type KernelChoice = "all" | "none";

const expands = ({ op: { body, form, lower } }: Node, kernels: KernelChoice): boolean =>
  !isAbsent(body) && (kernels === "none" || isAbsent(form) || (form.kind === "kernel" && isAbsent(lower)));

/** The graph with only ops that can be lowered. */
export function expandGraph(graph: Graph, kernels: KernelChoice): Graph {
  if (!topological(graph.outputs).some((node) => expands(node, kernels))) return graph;
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => expandInto(graph, inputs, kernels));
}

/** Copies the graph into the current trace, with bodies for composites; bodies may contain composites, too. */
function expandInto(graph: Graph, inputs: readonly Node[], kernels: KernelChoice): Node[] {
  const results = new Map<Node, readonly Node[]>(graph.inputs.map((input, index) => [input, [inputs[index] as Node]]));
  const first = (node: Node): Node => (results.get(node) as readonly Node[])[0] as Node;
  for (const node of topological(graph.outputs)) {
    if (results.has(node)) continue;
    if (node.op === elementOp) {
      const elements = results.get(node.inputs[0] as Node) as readonly Node[];
      results.set(node, [elements[node.attrs["index"] as number] as Node]);
      continue;
    }
    const operands = node.inputs.map(first);
    if (expands(node, kernels)) {
      const body = bodyGraph(
        node.op,
        operands.map((operand) => operand.types[0] as TensorType),
        node.attrs,
      );
      results.set(
        node,
        atPositionOf(node, () => expandInto(body, operands, kernels)),
      );
    } else {
      const copied = atPositionOf(node, () => apply(node.op, operands, node.attrs));
      results.set(
        node,
        copied.types.length === 1
          ? [copied]
          : copied.types.map((_type, index) => apply(elementOp, [copied], { index })),
      );
    }
  }
  return graph.outputs.map(first);
}
