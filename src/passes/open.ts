/** @module Replaces composites that own a graph by that graph: the transforms, which they instruct, have run by now. */
import { inputSpecs, interpretGraph, mapGraphs, traceGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import { type Attrs, type Graph, isAbsent, type Node } from "../ir/node.ts";
import { apply, atPositionOf, isGraph } from "../ir/trace.ts";
import { nodesWithin } from "../ir/walk.ts";
import { bodyGraph, resultsOf } from "../ops/index.ts";

/** Whether a node is a composite of its graph alone, which only instructs the transforms (such as remat). */
const opens = ({ op, attrs }: Node): boolean =>
  !isAbsent(op.body) && isAbsent(op.form) && Object.values(attrs).some(isGraph);

/** The graph with these composites replaced by their bodies, at any depth. */
export function open(graph: Graph): Graph {
  if (!nodesWithin(graph).some(opens)) return graph;
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => openInto(graph, inputs));
}

function openInto(graph: Graph, inputs: readonly Node[]): Node[] {
  const results = interpretGraph<readonly Node[]>(
    graph,
    inputs.map((input) => [input]),
    (node, inputResults) => {
      if (node.op === elementOp) return [inputResults[0]?.[node.attrs["index"] as number] as Node];
      const operands = inputResults.map(([value]) => value as Node);
      // The body is the user's code, too: its lines and names say more than those of the composite.
      return atPositionOf(node, () => {
        if (!opens(node)) return resultsOf(apply(node.op, operands, openAttrs(node.attrs)));
        const types = operands.map(({ dtype, shape }) => ({ dtype, shape }));
        return openInto(bodyGraph(node.op, types, node.attrs), operands);
      });
    },
  );
  return results.map(([result]) => result as Node);
}

const openAttrs = (attrs: Attrs): Attrs => (Object.values(attrs).some(isGraph) ? mapGraphs(attrs, open) : attrs);
