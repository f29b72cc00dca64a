/**
 * @module Removes unused computation from loops and branches: stacks and results that nothing reads, carries that only feed
 * themselves, inputs that nothing uses. Scans stack their carries for a gradient that may never be requested.
 */
import { controlOf, type LoopControl } from "../ir/control.ts";
import { inputSpecs, narrowGraph, traceGraph } from "../ir/graph.ts";
import { elementOp } from "../ir/leaf.ts";
import type { Attrs, Graph, Node } from "../ir/node.ts";
import { range } from "../ir/shape.ts";
import { apply, atPositionOf, isGraph } from "../ir/trace.ts";
import { nodesWithin, topological } from "../ir/walk.ts";
import { resultsOf } from "../ops/index.ts";

/** The parts of a node that owns graphs that are used, by position. */
interface Used {
  readonly inputs: readonly number[];
  readonly results: readonly number[];
  /** The attributes that remain: smaller graphs, smaller counts. */
  readonly attrs: Attrs;
}

/** The graph without unused parts of its loops and branches, at any depth. */
export function prune(graph: Graph): Graph {
  if (!nodesWithin(graph).some((node) => controlOf(node) !== undefined)) return graph;
  const needs = needsOf(graph);
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => rebuild(graph, inputs, needs));
}

/** The nodes and results that the outputs need. */
interface Needs {
  readonly used: ReadonlyMap<Node, Used>;
  /** Results by node; nodes that are missing are not needed. */
  readonly results: ReadonlyMap<Node, ReadonlySet<number>>;
}

/** Decides from the outputs backwards: an input that a node does not need is not computed. */
function needsOf(graph: Graph): Needs {
  const results = new Map<Node, Set<number>>();
  const need = (node: Node): void => {
    const source = node.op === elementOp ? (node.inputs[0] as Node) : node;
    const indices = results.get(source) ?? new Set<number>();
    indices.add(node.op === elementOp ? (node.attrs["index"] as number) : 0);
    results.set(source, indices);
  };
  for (const output of graph.outputs) need(output);
  const used = new Map<Node, Used>();
  for (const node of topological(graph.outputs).reverse()) {
    const indices = results.get(node);
    if (indices === undefined || node.op === elementOp) continue;
    const control = controlOf(node);
    if (control === undefined) {
      for (const input of node.inputs) need(input);
      continue;
    }
    const usedPart = control.kind === "loop" ? usedOfLoop(node, control, indices) : usedOfBranch(node, indices);
    used.set(node, usedPart);
    for (const index of usedPart.inputs) need(node.inputs[index] as Node);
  }
  return { used, results };
}

/** Positions of the inputs on which the outputs depend. */
function reached(outputs: readonly Node[], inputs: readonly Node[]): Set<number> {
  const ancestors = new Set(topological(outputs));
  return new Set(range(inputs.length).filter((index) => ancestors.has(inputs[index] as Node)));
}

function usedOfLoop(
  node: Node,
  { body, condition, carries, slices }: LoopControl,
  wantedResults: ReadonlySet<number>,
): Used {
  const live = new Set(wantedResults);
  for (let before = -1; before !== live.size; ) {
    before = live.size;
    const outputs = [...live].map((index) => body.outputs[index] as Node);
    for (const needed of [reached(outputs, body.inputs), reached(condition?.outputs ?? [], condition?.inputs ?? [])])
      for (const index of needed) if (index >= 1 && index <= carries) live.add(index - 1);
  }
  const results = range(body.outputs.length).filter((index) => live.has(index));
  const needed = reached(
    results.map((index) => body.outputs[index] as Node),
    body.inputs,
  );
  for (const index of reached(condition?.outputs ?? [], condition?.inputs ?? [])) needed.add(index);
  const inputs = range(node.inputs.length).filter((index) =>
    index < carries ? live.has(index) : needed.has(index + 1),
  );
  const bodyInputs = [0, ...inputs.map((index) => index + 1)];
  const attrs: { [key: string]: Attrs[string] } = { ...node.attrs, carries: inputs.filter((p) => p < carries).length };
  if (slices > 0) attrs["slices"] = inputs.filter((index) => index >= carries && index < carries + slices).length;
  for (const [key, value] of Object.entries(node.attrs))
    if (isGraph(value))
      attrs[key] = prune(narrowGraph(value, bodyInputs, value === body ? results : range(value.outputs.length)));
  return { inputs, results, attrs };
}

function usedOfBranch(node: Node, wantedResults: ReadonlySet<number>): Used {
  const results = range(node.types.length).filter((index) => wantedResults.has(index));
  const graphs = Object.entries(node.attrs).filter((entry): entry is [string, Graph] => isGraph(entry[1]));
  const needed = new Set<number>();
  for (const [, { inputs, outputs }] of graphs)
    for (const index of reached(
      results.map((result) => outputs[result] as Node),
      inputs,
    ))
      needed.add(index);
  const inputs = range(node.inputs.length - 1).filter((index) => needed.has(index));
  const attrs = Object.fromEntries(graphs.map(([key, graph]) => [key, prune(narrowGraph(graph, inputs, results))]));
  return { inputs: [0, ...inputs.map((index) => index + 1)], results, attrs };
}

function rebuild(graph: Graph, inputs: readonly Node[], { used, results }: Needs): Node[] {
  const copies = new Map<Node, readonly (Node | undefined)[]>();
  graph.inputs.forEach((input, index) => {
    copies.set(input, [inputs[index]]);
  });
  const copyOf = (node: Node): Node =>
    node.op === elementOp
      ? (copies.get(node.inputs[0] as Node)?.[node.attrs["index"] as number] as Node)
      : (copies.get(node)?.[0] as Node);
  const visit = (node: Node): void => {
    const part = used.get(node);
    if (part === undefined) {
      copies.set(node, resultsOf(apply(node.op, node.inputs.map(copyOf), node.attrs)));
      return;
    }
    const operands = part.inputs.map((index) => copyOf(node.inputs[index] as Node));
    const values = resultsOf(apply(node.op, operands, part.attrs));
    const results = new Array<Node | undefined>(node.types.length).fill(undefined);
    part.results.forEach((position, index) => {
      results[position] = values[index];
    });
    copies.set(node, results);
  };
  for (const node of topological(graph.outputs))
    if (results.has(node) && !copies.has(node)) atPositionOf(node, () => visit(node));
  return graph.outputs.map(copyOf);
}
