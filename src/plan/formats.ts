/**
 * @module The format of matrices that are given by entries: dense, or the entries alone, whichever costs less.
 *
 * The planner decides the format of a pattern, the rows and columns of entries: a matrix, its transpose and the gradient by its
 * values share one pattern, and so one format. It compares the costs of the whole graph with the pattern in either format,
 * by the machine's roofline. Costs use the declared capacity, since only shapes are known; a mesh divides both alike.
 */
import { costOfTasks, type Machine, tasksOf } from "../cost/index.ts";
import { mapGraph, mapGraphs } from "../ir/graph.ts";
import type { Attrs, Graph, Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { nodesWithin, topological } from "../ir/walk.ts";
import { expandNode } from "../ops/index.ts";
import { formatRules, isByEntries, simplify } from "../passes/index.ts";
import { rewriteGraph } from "../rewrite/index.ts";

/** The format of a matrix that is given by entries. */
export interface ValueFormat {
  /** Type of the matrix. */
  readonly type: TensorType;
  /** How many entries the matrix has room for. */
  readonly capacity: number;
  readonly format: "dense" | "entries";
}

/** A graph in which every format is decided, and the decisions. */
export interface Formatted {
  readonly graph: Graph;
  readonly formats: readonly ValueFormat[];
}

/** Decides the formats of a graph and of the graphs that its ops own, each for itself. */
export function decideFormats(source: Graph, machine: Machine): Formatted {
  if (!nodesWithin(source).some(isByEntries)) return { graph: source, formats: [] };
  const formats: ValueFormat[] = [];
  const graph = mapGraph(source, (node, inputs) => apply(node.op, inputs, decidedWithin(node.attrs, machine, formats)));
  const patterns = patternsOf(graph);
  const dense = secondsOf(
    inFormat(graph, () => false),
    machine,
  );
  const chosen = new Set<string>();
  for (const [pattern, { types, capacity }] of patterns) {
    const byEntries = secondsOf(
      inFormat(graph, (candidate) => candidate === pattern),
      machine,
    );
    if (byEntries < dense) chosen.add(pattern);
    for (const type of types) formats.push({ type, capacity, format: byEntries < dense ? "entries" : "dense" });
  }
  return { graph: simplify(inFormat(graph, (pattern) => chosen.has(pattern))), formats };
}

function decidedWithin(attrs: Attrs, machine: Machine, formats: ValueFormat[]): Attrs {
  const decided = (body: Graph): Graph => {
    const formatted = decideFormats(body, machine);
    formats.push(...formatted.formats);
    return formatted.graph;
  };
  return mapGraphs(attrs, decided);
}

/** The ids of the rows and columns of entries, sorted, so that their order does not matter. */
function patternOf({ op, inputs }: Node): string {
  const indices = op.name === "sparse" || op.name === "sampled" ? inputs.slice(1) : [];
  return indices
    .map(({ id }) => id)
    .sort((left, right) => left - right)
    .join(" ");
}

function patternsOf(graph: Graph): Map<string, { readonly types: TensorType[]; readonly capacity: number }> {
  const patterns = new Map<string, { readonly types: TensorType[]; readonly capacity: number }>();
  for (const node of topological(graph.outputs)) {
    if (!isByEntries(node)) continue;
    const pattern = patternOf(node);
    const known = patterns.get(pattern) ?? { types: [], capacity: node.inputs[1]?.shape[0] as number };
    if (node.op.name === "sparse") known.types.push(node.types[0] as TensorType);
    patterns.set(pattern, known);
  }
  return patterns;
}

/** The graph with some patterns by entries, where ops have a rule for it, and everything else dense. */
function inFormat(graph: Graph, byEntries: (pattern: string) => boolean): Graph {
  const expanded = (node: Node, inputs: readonly Node[]): Node =>
    isByEntries(node) ? (expandNode(node, inputs)[0] as Node) : apply(node.op, inputs, node.attrs);
  const chosen = mapGraph(graph, (node, inputs) =>
    isByEntries(node) && byEntries(patternOf(node)) ? apply(node.op, inputs, node.attrs) : expanded(node, inputs),
  );
  return mapGraph(rewriteGraph(chosen, formatRules), expanded);
}

/** Without the cost of calls, so that small matrices get the same format as large ones. */
const secondsOf = (graph: Graph, machine: Machine): number =>
  costOfTasks(tasksOf(graph), { ...machine, call: 0 }).seconds;
