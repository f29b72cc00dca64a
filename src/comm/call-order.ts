/**
 * @module The order of collectives where the devices run different graphs: that of the calls, which all devices make alike. Otherwise it
 * follows from a graph, and devices would wait for each other in different collectives.
 */
import { isCollective } from "../ir/communication.ts";
import { inputSpecs, traceGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import type { Graph, Node } from "../ir/node.ts";
import { apply, atPositionOf, isGraph } from "../ir/trace.ts";
import { nodesWithin, topological } from "../ir/walk.ts";
import { barrier } from "../ops/emit.ts";

/** The collectives of a node: itself, or those of a loop or a branch. */
function collectivesOf(node: Node): Node[] {
  if (isCollective(node)) return [node];
  return Object.values(node.attrs)
    .filter(isGraph)
    .flatMap((graph) => nodesWithin(graph).filter(isCollective));
}

/** A number that is smaller for what comes first: calls as they were made, then their gradients the other way round. */
function rank(node: Node): number {
  const label = String(collectivesOf(node)[0]?.attrs["label"]);
  const call = Number(/\d+/.exec(label)?.[0] ?? 0);
  return label.endsWith("gradient") ? 2 ** 40 - call : call;
}

/** The collectives in the order of calls, as far as they do not need one another. */
function ordered(steps: readonly Node[]): Node[] {
  const needs = new Map(
    steps.map((step) => [step, new Set(topological(step.inputs).filter((node) => steps.includes(node)))]),
  );
  const done = new Set<Node>();
  const waiting = steps.toSorted((left, right) => rank(left) - rank(right));
  while (waiting.length > 0) {
    const index = waiting.findIndex((step) => [...(needs.get(step) as Set<Node>)].every((node) => done.has(node)));
    done.add(waiting.splice(index, 1)[0] as Node);
  }
  return [...done];
}

/** The graph in which each collective waits for the one that was called before it. */
export function inCallOrder(graph: Graph): Graph {
  const steps = topological(graph.outputs).filter((node) => collectivesOf(node).length > 0);
  if (steps.length < 2) return graph;
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => {
    const made = new Map(graph.inputs.map((node, index) => [node, inputs[index] as Node]));
    let last: Node | undefined;
    const make = (node: Node): void => {
      if (made.has(node)) return;
      const operands = node.inputs.map((input) => made.get(input) as Node);
      const isStep = steps.includes(node);
      if (isStep && last !== undefined) operands[0] = barrier(operands[0] as Node, [last]);
      const copy = atPositionOf(node, () => apply(node.op, operands, node.attrs));
      if (isStep) last = copy.types.length === 1 ? copy : apply(elementOp, [copy], { index: 0 });
      made.set(node, copy);
    };
    for (const step of ordered(steps)) topological([step]).forEach(make);
    topological(graph.outputs).forEach(make);
    return graph.outputs.map((node) => made.get(node) as Node);
  });
}
