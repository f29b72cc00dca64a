/**
 * @module Functions traced apart from the trace around them: the bodies of loops, and what transforms differentiate and
 * batch. What they use from outside is kept apart from their own inputs, also where both are the same value.
 */

import { type Compiled, compileGraph, runCompiled } from "../compile/compile.ts";
import { graphFingerprint, inlineGraph, inputSpecs, traceGraph } from "../ir/graph.ts";
import type { Graph, Node } from "../ir/node.ts";
import { type TensorType, typeOf } from "../ir/shape.ts";
import { formatLayout } from "../plan/layout.ts";
import { HeddleError } from "../util/errors.ts";
import { type FlatTree, flattenTree, unflattenTree } from "../util/tree.ts";
import { checkFunction } from "./arguments.ts";
import { Cache } from "./cache.ts";
import { deviceRuntime } from "./runtime.ts";
import { isTensor, Tensor } from "./tensor.ts";
import { isTracing, type TracedFunction, traceFunction } from "./tracing.ts";

/** A name for a graph: that of the user's function, where it has one. */
export function graphName(fn: (...args: never[]) => unknown, otherwise: string): string {
  checkFunction(otherwise, fn);
  return fn.name === "" ? otherwise : fn.name.replace(/[^\w.$-]+/g, "-");
}

/** Nodes of tensors in the trace in progress. */
export const nodesOf = (tensors: readonly Tensor[]): Node[] => tensors.map((tensor) => tensor.node);

export interface Traced extends TracedFunction<Tensor | Node> {
  readonly output: FlatTree<Tensor>;
}

/** Traces a function over tensors of these types; what it uses from outside, concrete or traced, is captured. */
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
      const result = fn(nodes.map(Tensor.ofNode));
      if (result instanceof Promise)
        throw new HeddleError("trace", `${name}: a function that is traced cannot be async`);
      output = flattenTree(result, isTensor);
      return nodesOf(output.leaves);
    },
    { nested: true },
  );
  return { ...traced, output: output as FlatTree<Tensor> };
}

/** A function that was traced by itself. */
export interface TracedApart<Result> {
  /** What it gave. The tensors in it are of its own trace: ask them for their types alone. */
  readonly output: Result;
  /** Puts what was traced into the trace in progress, on these inputs: gives the tensors of the output there, in their order. */
  place(...inputs: readonly Tensor[]): Tensor[];
}

/**
 * Traces a function by itself, once, to look at what it gives before it becomes part of a graph: what {@link cond}, {@link scan} and
 * {@link whileLoop} ask of their functions can then be made of it. It may use tensors from outside, concrete or traced.
 *
 * @param name for messages
 * @param types of the inputs
 * @throws HeddleError `trace` where the function is async
 */
export function traceApart<Result>(
  name: string,
  types: readonly TensorType[],
  fn: (...inputs: readonly Tensor[]) => Result,
): TracedApart<Result> {
  const specs = types.map((type, place) => ({ name: `x${place}`, type: typeOf(type) }));
  let output: Result | undefined;
  const body = traceBody(name, specs, (inputs) => {
    output = fn(...inputs);
    return output;
  });
  return { output: output as Result, place: (...inputs) => placed(body, inputs) };
}

/** The outputs of what was traced, in the trace in progress. */
const placed = ({ graph, captured }: Traced, inputs: readonly Tensor[]): Tensor[] =>
  inlineGraph(graph, [...nodesOf(inputs), ...capturedNodes(captured)]).map(Tensor.ofNode);

/** What a trace has captured, as nodes of the trace around it. */
export const capturedNodes = (captured: readonly (Tensor | Node)[]): Node[] =>
  captured.map((value) => (isTensor(value) ? value.node : Tensor.ofNode(value).node));

/** The graphs with one list of captured values for all, behind their own inputs. */
export function withSameCaptured(traced: readonly Traced[]): { graphs: Graph[]; captured: (Tensor | Node)[] } {
  const captured = [...new Set(traced.flatMap((one) => one.captured))];
  const graphs = traced.map(({ graph, captured: mine }) => {
    const own = graph.inputs.length - mine.length;
    const specs = inputSpecs(graph).slice(0, own);
    const more = captured.map((value, place) => ({ name: `captured${place}`, type: typeOf(value) }));
    return traceGraph(graph.name, [...specs, ...more], (...inputs) =>
      inlineGraph(graph, [
        ...inputs.slice(0, own),
        ...mine.map((value) => inputs[own + captured.indexOf(value)] as Node),
      ]),
    );
  });
  return { graphs, captured };
}

const eager = new Cache<{ readonly compiled: Compiled }>(64);

/** Runs a function that traces, on its own when no function is being traced: as a program of its own. */
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
  const entry = eager.get(runtime, key) ?? { compiled: compileGraph(graph, runtime, { inputs: layouts }) };
  eager.set(runtime, key, entry);
  const results = runCompiled(entry.compiled, values).map(Tensor.ofValue);
  return unflattenTree((output as FlatTree<Tensor>).shape, results) as Result;
}

/** Names of the leaves for messages: their paths. */
export const named = (flat: FlatTree<Tensor>, what: string, types: readonly TensorType[]) =>
  flat.paths.map((path, place) => ({ name: path === "" ? what : path, type: typeOf(types[place] as TensorType) }));

/**
 * Runs `build` on tensors that stand for `inputs` and for nothing else, and puts what it makes into the trace in progress.
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
