/** @module Traces of user functions: their inputs, and the concrete tensors that they capture. */

import { parameter } from "../ir/graph.ts";
import type { Graph, Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { currentTrace, Trace, withTrace } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";

/** What a finished trace yields: the graph, whose last inputs are the captured values. */
export interface TracedFunction<Captured> {
  readonly graph: Graph;
  readonly captured: readonly Captured[];
}

interface Session {
  readonly captured: Map<object, Node>;
  readonly inputs: Node[];
}

const sessions = new WeakMap<Trace, Session>();

/** Runs `body` on nodes of the given types; concrete tensors that it uses become further inputs. */
export function traceFunction<Captured extends object>(
  name: string,
  inputs: readonly { name: string; type: TensorType }[],
  body: (nodes: readonly Node[]) => readonly Node[],
): TracedFunction<Captured> {
  const trace = new Trace();
  const session: Session = { captured: new Map(), inputs: [] };
  sessions.set(trace, session);
  return withTrace(trace, () => {
    session.inputs.push(...inputs.map((input, index) => parameter(index, input)));
    const outputs = body([...session.inputs]);
    const graph: Graph = { kind: "graph", name, inputs: session.inputs, outputs };
    return { graph, captured: [...session.captured.keys()] as Captured[] };
  });
}

/** The node that stands for a concrete tensor in the trace in progress. */
export function captureNode(tensor: object, type: TensorType): Node {
  const trace = currentTrace();
  const session = trace === undefined ? undefined : sessions.get(trace);
  if (session === undefined)
    throw new HeddleError("trace", "a tensor's value cannot be used here: no function is being traced");
  const known = session.captured.get(tensor);
  if (known !== undefined) return known;
  const index = session.inputs.length;
  const node = parameter(index, { name: `captured${session.captured.size}`, type });
  session.inputs.push(node);
  session.captured.set(tensor, node);
  return node;
}

/** Whether a user function is being traced now. */
export const isTracing = (): boolean => {
  const trace = currentTrace();
  return trace !== undefined && sessions.has(trace);
};
