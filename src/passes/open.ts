/** @module Puts the graphs that composites own in their places: what they asked of the transforms is done by now. */
import { inputSpecs, interpretGraph, traceGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import { type Attrs, type Graph, isAbsent, type Node } from "../ir/node.ts";
import { apply, atPositionOf, isGraph } from "../ir/trace.ts";
import { nodesWithin } from "../ir/walk.ts";
import { bodyGraph, resultsOf } from "../ops/index.ts";

/** Whether a node is a composite that is nothing but its graph, with a wish for the transforms. */
const opens = ({ op, attrs }: Node): boolean =>
  !isAbsent(op.body) && isAbsent(op.form) && Object.values(attrs).some(isGraph);

/** The graph with the bodies of such composites in their places, at any depth. */
export function open(graph: Graph): Graph {
  if (!nodesWithin(graph).some(opens)) return graph;
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => openInto(graph, inputs));
}

function openInto(graph: Graph, inputs: readonly Node[]): Node[] {
  const results = interpretGraph<readonly Node[]>(
    graph,
    inputs.map((input) => [input]),
    (node, given) => {
      if (node.op === elementOp) return [given[0]?.[node.attrs["index"] as number] as Node];
      const operands = given.map(([value]) => value as Node);
      // What is within is the user's too: its own lines and names say more than those of the composite.
      return atPositionOf(node, () => {
        if (!opens(node)) return resultsOf(apply(node.op, operands, openAttrs(node.attrs)));
        const types = operands.map(({ dtype, shape }) => ({ dtype, shape }));
        return openInto(bodyGraph(node.op, types, node.attrs), operands);
      });
    },
  );
  return results.map(([result]) => result as Node);
}

const openAttrs = (attrs: Attrs): Attrs =>
  Object.values(attrs).some(isGraph)
    ? Object.fromEntries(Object.entries(attrs).map(([key, value]) => [key, isGraph(value) ? open(value) : value]))
    : attrs;
