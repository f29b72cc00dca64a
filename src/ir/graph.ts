/** @module Working with graphs: order, copying into another trace, tracing functions over nodes. */
import { HeddleError } from "../util/errors.ts";
import { fingerprint } from "../util/hash.ts";
import { parameterOp } from "./leaf.ts";
import type { Attrs, Graph, Node } from "./node.ts";
import { printGraph } from "./print.ts";
import type { TensorType } from "./shape.ts";
import { apply, atPositionOf, currentTrace, isGraph, Trace, withTrace } from "./trace.ts";
import { topological } from "./walk.ts";

/** Names and types of a graph's inputs. */
export interface InputSpec {
  readonly name: string;
  readonly type: TensorType;
}

/** Traces `body` over fresh parameters into a graph, in a trace of its own. */
export function traceGraph(
  name: string,
  inputs: readonly InputSpec[],
  body: (...inputs: Node[]) => readonly Node[],
  trace = new Trace(),
): Graph {
  return withTrace(trace, () => {
    const nodes = inputs.map((input, index) => parameter(index, input));
    return { kind: "graph", name, inputs: nodes, outputs: body(...nodes) };
  });
}

/** A graph input in the current trace. */
export function parameter(index: number, input: InputSpec): Node {
  return apply(parameterOp, [], { index, name: input.name, dtype: input.type.dtype, shape: input.type.shape });
}

/** Name and type of each input of a graph. */
export function inputSpecs(graph: Graph): InputSpec[] {
  return graph.inputs.map((node) => ({ name: String(node.attrs["name"]), type: node.types[0] as TensorType }));
}

/** What happens to each node of a graph when it is copied: given the new inputs, the new node. */
export type NodeMapper = (node: Node, inputs: readonly Node[]) => Node;

const sameOp: NodeMapper = (node, inputs) => apply(node.op, inputs, node.attrs as Attrs);

/**
 * Copies the nodes of `graph` into the current trace, with `inputs` for its parameters; returns the outputs. Copies keep
 * their source positions, unless the caller has set one for all (a body takes that of its composite).
 */
export function inlineGraph(graph: Graph, inputs: readonly Node[], map: NodeMapper = sameOp): Node[] {
  if (inputs.length !== graph.inputs.length) {
    throw new HeddleError("graph", `graph '${graph.name}' takes ${graph.inputs.length} inputs, got ${inputs.length}`);
  }
  return interpretGraph(graph, inputs, map);
}

/**
 * Goes through a graph in topological order with a value of any kind for each node, given those of its inputs; returns
 * those of the outputs. What is made on the way has the source position of the node.
 */
export function interpretGraph<Value>(
  graph: Graph,
  inputs: readonly Value[],
  visit: (node: Node, inputs: readonly Value[]) => Value,
): Value[] {
  const values = new Map<Node, Value>(graph.inputs.map((input, index) => [input, inputs[index] as Value]));
  const positioned = currentTrace()?.positionOf !== undefined;
  for (const node of topological(graph.outputs)) {
    if (values.has(node)) continue;
    const own = node.inputs.map((input) => values.get(input) as Value);
    values.set(node, positioned ? visit(node, own) : atPositionOf(node, () => visit(node, own)));
  }
  return graph.outputs.map((output) => values.get(output) as Value);
}

/** A graph with every node sent through `map` (in topological order). */
export function mapGraph(graph: Graph, map: NodeMapper): Graph {
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => inlineGraph(graph, inputs, map));
}

/** Attributes with other graphs. */
export const mapGraphs = (attrs: Attrs, change: (graph: Graph) => Graph): Attrs =>
  Object.fromEntries(Object.entries(attrs).map(([key, value]) => [key, isGraph(value) ? change(value) : value]));

/** A text that two graphs share only if they are the same function, whatever trace made them. */
export function graphFingerprint(graph: Graph): string {
  return fingerprint(printGraph(graph));
}

/** The graph with some of its inputs, among them all that the outputs wanted depend on, and some of its outputs. */
export function narrowGraph(graph: Graph, inputs: readonly number[], outputs: readonly number[]): Graph {
  const specs = inputSpecs(graph);
  const wanted = { ...graph, outputs: outputs.map((index) => graph.outputs[index] as Node) };
  return traceGraph(
    graph.name,
    inputs.map((index) => specs[index] as (typeof specs)[number]),
    (...given) => {
      // An input that nothing reads is never copied, so any node may stand in its place.
      const all = specs.map((_spec, index) => given[inputs.indexOf(index)] ?? (given[0] as Node));
      return inlineGraph(wanted, all);
    },
  );
}
