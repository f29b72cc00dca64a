/** @module Expansion: composites without a kernel are replaced by their bodies. */
import { inputSpecs, traceGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import { range, sizeOf, typeOf } from "../ir/shape.ts";
import { apply, atPositionOf } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { bodyGraph } from "../ops/index.ts";
import { foldOf } from "./fold.ts";
import { longestRow } from "./fold-space.ts";

/** Which composites keep their kernels: all that have a kernel, or none (to compare both). */
export type KernelChoice = "all" | "none";

/** Ends of shorter rows are many beside the elements. */
const shortestRow = 256;

const expands = ({ op: { body, form, lower } }: Node, kernels: KernelChoice): boolean =>
  !isAbsent(body) && (kernels === "none" || isAbsent(form) || (form.kind === "kernel" && isAbsent(lower)));

/** Whether the least or largest of all elements is that of its rows' ends: a walk that makes a row finds them, too. No bits depend on it. */
function isOfRows(node: Node): boolean {
  const [fold, shape] = [foldOf(node), node.inputs[0]?.shape ?? []];
  const isOfAll = (fold?.op === "max" || fold?.op === "min") && fold.dims.length === shape.length;
  const row = shape.at(-1) as number;
  return isOfAll && row >= shortestRow && row <= longestRow && sizeOf(shape) > longestRow;
}

/** The graph with only ops that can be lowered. */
export function expandGraph(graph: Graph, kernels: KernelChoice): Graph {
  if (!topological(graph.outputs).some((node) => expands(node, kernels) || isOfRows(node))) return graph;
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => expandInto(graph, inputs, kernels));
}

/** Copies the graph into the current trace, with bodies for composites; bodies may contain composites, too. */
function expandInto(graph: Graph, inputs: readonly Node[], kernels: KernelChoice): Node[] {
  const results = new Map<Node, readonly Node[]>(graph.inputs.map((input, index) => [input, [inputs[index] as Node]]));
  const first = (node: Node): Node => (results.get(node) as readonly Node[])[0] as Node;
  for (const node of topological(graph.outputs)) {
    if (results.has(node)) continue;
    const elements = results.get(node.inputs[0] as Node) as readonly Node[];
    const copy = (): readonly Node[] => expanded(node, node.inputs.map(first), kernels);
    results.set(
      node,
      node.op === elementOp ? [elements[node.attrs["index"] as number] as Node] : atPositionOf(node, copy),
    );
  }
  return graph.outputs.map(first);
}

/** The results of a node with these operands. */
function expanded(node: Node, operands: readonly Node[], kernels: KernelChoice): readonly Node[] {
  if (expands(node, kernels))
    return expandInto(bodyGraph(node.op, operands.map(typeOf), node.attrs), operands, kernels);
  if (isOfRows(node)) {
    const rows = apply(node.op, operands, { ...node.attrs, dims: [(operands[0]?.shape.length as number) - 1] });
    return [apply(node.op, [rows], { ...node.attrs, dims: range(rows.shape.length) })];
  }
  const copied = apply(node.op, operands, node.attrs);
  return copied.types.length === 1 ? [copied] : copied.types.map((_, index) => apply(elementOp, [copied], { index }));
}
