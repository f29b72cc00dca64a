/** @module Traces of user functions: their inputs, and the concrete tensors that they capture. */

import { parameter } from "../ir/graph.ts";
import type { Graph, Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { currentTrace, Trace, withTrace } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";

/** The result of a trace: the graph, whose last inputs are the captured values. */
export interface TracedFunction<Captured> {
  readonly graph: Graph;
  readonly captured: readonly Captured[];
}

interface OpenTrace {
  readonly trace: Trace;
  /** The trace around this one, whose values it may use. */
  readonly around: OpenTrace | undefined;
  readonly captured: Map<object, Node>;
  readonly inputs: Node[];
}

const openTraces = new WeakMap<Trace, OpenTrace>();

const currentSession = (): OpenTrace | undefined => {
  const trace = currentTrace();
  return trace === undefined ? undefined : openTraces.get(trace);
};

/**
 * Runs `body` on nodes of the given types. Values from outside become further inputs: concrete tensors, and, with `nested`, nodes
 * of the traces around it (the body of a loop). Nodes remember where they were written, unless `placed` is false.
 */
export function traceFunction<Captured extends object>(
  name: string,
  inputs: readonly { name: string; type: TensorType }[],
  body: (nodes: readonly Node[]) => readonly Node[],
  options: { readonly nested?: boolean; readonly placed?: boolean } = {},
): TracedFunction<Captured> {
  const trace = new Trace(options.placed ?? true);
  const around = options.nested === true ? currentSession() : undefined;
  const open: OpenTrace = { trace, around, captured: new Map(), inputs: [] };
  openTraces.set(trace, open);
  return withTrace(trace, () => {
    open.inputs.push(...inputs.map((input, index) => parameter(index, input)));
    const outputs = body([...open.inputs]);
    const graph: Graph = { kind: "graph", name, inputs: open.inputs, outputs };
    return { graph, captured: [...open.captured.keys()] as Captured[] };
  });
}

/** The node that stands for a concrete tensor, or for a node of a trace around this one, in the trace in progress. */
export function captureNode(value: object, type: TensorType): Node {
  const open = currentSession();
  if (open === undefined)
    throw new HeddleError("trace", "a tensor's value cannot be used here: no function is being traced");
  const known = open.captured.get(value);
  if (known !== undefined) return known;
  const index = open.inputs.length;
  const node = parameter(index, { name: `captured${open.captured.size}`, type });
  open.inputs.push(node);
  open.captured.set(value, node);
  return node;
}

/** The node itself, or, if a trace around the trace in progress made it, the input that stands for it there. */
export function nodeHere(node: Node): Node {
  const open = currentSession();
  if (open === undefined || open.trace.owns(node)) return node;
  for (let outer = open.around; outer !== undefined; outer = outer.around)
    if (outer.trace.owns(node)) return captureNode(node, { dtype: node.dtype, shape: node.shape });
  // The trace itself reports a node of another trace.
  return node;
}

/** Whether a user function is being traced now. */
export const isTracing = (): boolean => currentSession() !== undefined;
