/**
 * @module Functions traced apart from the trace around them: bodies of loops, and functions that transforms differentiate or
 * batch. Captured values stay separate from the function's inputs, even if both are the same value.
 */

import { type Compiled, compileGraph, runCompiled } from "../compile/compile.ts";
import { graphFingerprint, inlineGraph, inputSpecs, traceGraph } from "../ir/graph.ts";
import type { Graph, Node } from "../ir/node.ts";
import { type TensorType, typeOf } from "../ir/shape.ts";
import { formatLayout } from "../plan/layout.ts";
import { type FlatTree, flattenTree, unflattenTree } from "../util/tree.ts";
import { checkFunction, returned } from "./arguments.ts";
import { Cache } from "./cache.ts";
import { deviceRuntime } from "./runtime.ts";
import { isTensor, Tensor } from "./tensor.ts";
import { isTracing, type TracedFunction, traceFunction } from "./tracing.ts";

/** A name for a graph: the name of the user's function, if it has one. */
export function graphName(fn: (...args: never[]) => unknown, otherwise: string): string {
  checkFunction(otherwise, fn);
  return fn.name === "" ? otherwise : fn.name.replace(/[^\w.$-]+/g, "-");
}

/** Nodes of tensors in the trace in progress. */
export const nodesOf = (tensors: readonly Tensor[]): Node[] => tensors.map((tensor) => tensor.node);

export interface Traced extends TracedFunction<Tensor | Node> {
  readonly output: FlatTree<Tensor>;
}

/** Traces a function over tensors of these types; values from outside, concrete or traced, are captured. */
export function traceBody(
  name: string,
  specs: readonly { name: string; type: TensorType }[],
  fn: (leaves: readonly Tensor[]) => unknown,
): Traced {
  let output: FlatTree<Tensor> | undefined;
  const traced = traceFunction<Tensor | Node>(
    name,
    specs,
    (nodes) => {
      output = flattenTree(returned(name, fn(nodes.map(Tensor.ofNode))), isTensor);
      return nodesOf(output.leaves);
    },
    { nested: true },
  );
  return { ...traced, output: output as FlatTree<Tensor> };
}

/** A function that was traced by itself. */
export interface TracedApart<Result> {
  /** The function's result. Its tensors belong to its own trace: only their types may be used. */
  readonly output: Result;
  /** Inlines the traced graph into the trace in progress, on these inputs; gives the output's tensors there, in order. */
  place(...inputs: readonly Tensor[]): Tensor[];
}

/**
 * Traces a function by itself, once, to inspect its result before it becomes part of a graph: the functions that {@link cond},
 * {@link scan} and {@link whileLoop} take can then be built from it. It may use tensors from outside, concrete or traced.
 *
 * @param name for messages
 * @param types of the inputs
 * @throws HeddleError `trace` if the function is async
 */
export function traceApart<Result>(
  name: string,
  types: readonly TensorType[],
  fn: (...inputs: readonly Tensor[]) => Result,
): TracedApart<Result> {
  const specs = types.map((type, index) => ({ name: `x${index}`, type: typeOf(type) }));
  let output: Result | undefined;
  const body = traceBody(name, specs, (inputs) => {
    output = fn(...inputs);
    return output;
  });
  return { output: output as Result, place: (...inputs) => placed(body, inputs) };
}

/** The outputs of a traced function, inlined into the trace in progress. */
const placed = ({ graph, captured }: Traced, inputs: readonly Tensor[]): Tensor[] =>
  inlineGraph(graph, [...nodesOf(inputs), ...capturedNodes(captured)]).map(Tensor.ofNode);

/** The captured values of a trace as nodes of the trace around it. */
export const capturedNodes = (captured: readonly (Tensor | Node)[]): Node[] =>
  captured.map((value) => (isTensor(value) ? value.node : Tensor.ofNode(value).node));

/** The graphs with one common list of captured values after the inputs of each. */
export function withSameCaptured(traced: readonly Traced[]): { graphs: Graph[]; captured: (Tensor | Node)[] } {
  const captured = [...new Set(traced.flatMap((body) => body.captured))];
  const graphs = traced.map(({ graph, captured: ownCaptured }) => {
    const inputCount = graph.inputs.length - ownCaptured.length;
    const specs = inputSpecs(graph).slice(0, inputCount);
    const more = captured.map((value, index) => ({ name: `captured${index}`, type: typeOf(value) }));
    return traceGraph(graph.name, [...specs, ...more], (...inputs) =>
      inlineGraph(graph, [
        ...inputs.slice(0, inputCount),
        ...ownCaptured.map((value) => inputs[inputCount + captured.indexOf(value)] as Node),
      ]),
    );
  });
  return { graphs, captured };
}

const eager = new Cache<Compiled>(64);

/** Runs a function that traces: in the trace in progress, or as a separate program if there is none. */
export function traced<Result>(name: string, build: () => Result): Result {
  return isTracing() ? build() : runOnce(name, build);
}

function runOnce<Result>(name: string, build: () => Result): Result {
  let output: FlatTree<Tensor> | undefined;
  const { graph, captured } = traceFunction<Tensor>(name, [], () => {
    output = flattenTree(build(), isTensor);
    return nodesOf(output.leaves);
  });
  const values = captured.map((tensor) => tensor.value);
  const runtime =
    values.find(({ runtime: { axes } }) => axes.length > 0)?.runtime ?? values[0]?.runtime ?? deviceRuntime();
  const layouts = values.map((value) => (value.runtime === runtime ? value.layout : undefined));
  const key = `${graphFingerprint(graph)} ${layouts.map((layout) => formatLayout(layout ?? [])).join(";")}`;
  const compiled = eager.of(runtime, key, () => compileGraph(graph, runtime, { inputs: layouts }));
  const results = runCompiled(compiled, values).map(Tensor.ofValue);
  return unflattenTree((output as FlatTree<Tensor>).shape, results) as Result;
}

/** Names of the leaves for messages: their paths. */
export const named = (flat: FlatTree<Tensor>, what: string, types: readonly TensorType[]) =>
  flat.paths.map((path, index) => ({ name: path === "" ? what : path, type: typeOf(types[index] as TensorType) }));

/**
 * Runs `build` on tensors that stand for `inputs` only, and inlines its result into the trace in progress.
 * So a derivative by an input does not follow other uses of the same value.
 */
export function apart<Result>(
  name: string,
  inputs: FlatTree<Tensor>,
  build: (leaves: readonly Tensor[]) => Result,
): Result {
  const body = traceBody(name, named(inputs, "x", inputs.leaves), build);
  return unflattenTree(body.output.shape, placed(body, inputs.leaves)) as Result;
}
