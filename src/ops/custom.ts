/**
 * @module Graphs with a custom derivative: a gradient for reverse mode, or a tangent for forward mode. The other mode follows
 * by transposition, as long as the derivative is linear in the cotangents or tangents.
 */
import { isFloat } from "../ir/dtype.ts";
import { type InputSpec, inlineGraph, inputSpecs, traceGraph } from "../ir/graph.ts";
import {
  type Attrs,
  absent,
  type BatchContext,
  type Batched,
  type Dual,
  type ForwardContext,
  type GradientContext,
  type Graph,
  type Node,
} from "../ir/node.ts";
import { positionOf } from "../ir/trace.ts";
import { HeddleError } from "../util/errors.ts";
import { describePosition } from "../util/source.ts";
import { batchedGraph, isBatched, spreadBatch, withBatch } from "./batch.ts";
import { defineComposite } from "./composite.ts";
import { dependentOutputs } from "./depends.ts";
import * as emit from "./emit.ts";
import { f32 } from "./movement.ts";
import { resultsOf } from "./results.ts";

/**
 * `gradient` takes the results, the cotangents of the float results, and the inputs; it gives the cotangents of the inputs at
 * the positions `by`.
 */
export type CustomGradientAttrs = { body: Graph; gradient: Graph; by: readonly number[] };

/** `tangent` takes the results, tangents of the inputs at the positions `by`, and the inputs; it gives tangents of the float results. */
export type CustomJvpAttrs = { body: Graph; tangent: Graph; by: readonly number[] };

const scalar = (name: string): InputSpec => ({ name, type: { dtype: "f32", shape: [] } });
const twice = traceGraph("twice", [scalar("x")], (x) => [emit.add(x as Node, x as Node)]);
const passed = traceGraph("passed", [scalar("y"), scalar("change"), scalar("x")], (_y, change) => [change as Node]);

export const customGradientOp = defineComposite<CustomGradientAttrs>({
  name: "customGradient",
  doc: "The results of a graph, with a gradient given by another graph.",
  example: { inputs: [f32([], [3])], attrs: { body: twice, gradient: passed, by: [0] }, outputs: [f32([], [6])] },
  body: (inputs, { body }) => inlineGraph(body, inputs),
  equation: absent("the planner sees its body"),
  linear: [],
  gradient: ({ node, cotangents }) => {
    const { gradient, by } = node.attrs as CustomGradientAttrs;
    const results = resultsOf(node);
    const flowing = results.flatMap((result, index) =>
      isFloat(result.dtype) ? [cotangents[index] ?? emit.zerosLike(result)] : [],
    );
    const inputCotangents = inlineGraph(gradient, [...results, ...flowing, ...node.inputs]);
    return node.inputs.map((_input, index) => inputCotangents[by.indexOf(index)]);
  },
  batch: (context) => batchCustom(context, "gradient"),
  form: absent("the passes put its body in its place"),
});

export const customJvpOp = defineComposite<CustomJvpAttrs>({
  name: "customJvp",
  doc: "The results of a graph, with a tangent given by another graph.",
  example: { inputs: [f32([], [3])], attrs: { body: twice, tangent: passed, by: [0] }, outputs: [f32([], [6])] },
  body: (inputs, { body }) => inlineGraph(body, inputs),
  equation: absent("the planner sees its body"),
  linear: [],
  gradient: transposedTangent,
  forward: forwardCustom,
  batch: (context) => batchCustom(context, "tangent"),
  form: absent("the passes put its body in its place"),
});

function forwardCustom({ node, inputs }: ForwardContext<CustomJvpAttrs>): Dual[] {
  const { tangent, by } = node.attrs as CustomJvpAttrs;
  const values = inputs.map((input) => input.node);
  const results = resultsOf(emit.call("customJvp", values, node.attrs));
  const moving = by.map((index) => inputs[index]?.tangent ?? emit.zerosLike(values[index] as Node));
  const tangents = inlineGraph(tangent, [...results, ...moving, ...values]);
  return results.map((result) => ({ node: result, tangent: isFloat(result.dtype) ? tangents.shift() : undefined }));
}

/** The gradient from the tangent: its transpose by the tangents of the inputs. */
function transposedTangent({ node, cotangents, pullback }: GradientContext<CustomJvpAttrs>): (Node | undefined)[] {
  const { tangent, by } = node.attrs as CustomJvpAttrs;
  const results = resultsOf(node);
  const flowing = results.flatMap((result, index) =>
    isFloat(result.dtype) ? [cotangents[index] ?? emit.zerosLike(result)] : [],
  );
  const specs = inputSpecs(tangent);
  const seeds = flowing.map(({ dtype, shape }, index) => ({ name: `cotangent${index}`, type: { dtype, shape } }));
  let flows: boolean[] = [];
  const transposed = traceGraph(`gradient-of-${tangent.name}`, [...specs, ...seeds], (...nodes) => {
    const moving = nodes.slice(results.length, results.length + by.length);
    const outputs = inlineGraph(tangent, nodes.slice(0, specs.length));
    const pulled = pullback(outputs, nodes.slice(specs.length), moving);
    flows = pulled.map((value) => value !== undefined);
    return pulled.filter((value) => value !== undefined);
  });
  const moves = transposed.inputs.map((_input, index) => index >= results.length && index < results.length + by.length);
  if (dependentOutputs(transposed, moves).includes(true)) throw notLinear(node, "tangent", "gradient");
  const zeros = by.map((index) => emit.zerosLike(node.inputs[index] as Node));
  const inputCotangents = inlineGraph(transposed, [...results, ...zeros, ...node.inputs, ...flowing]);
  const pulled = flows.map((flow) => (flow ? inputCotangents.shift() : undefined));
  return node.inputs.map((_input, index) => pulled[by.indexOf(index)]);
}

/** The error of a derivative that is not linear, so that the other mode does not follow from it. */
export function notLinear(node: Node, has: string, wanted: string): HeddleError {
  const body = node.attrs["body"] as Graph | undefined;
  const where = describePosition(positionOf(node));
  return new HeddleError(
    "gradient",
    `${node.op.name}${body === undefined ? "" : ` of '${body.name}'`}: its ${has} is not linear in the ${has === "tangent" ? "tangents" : "cotangents"}, so that no ${wanted} follows from it`,
    where === undefined ? {} : { where },
  );
}

/**
 * Both graphs on a batch. All float inputs are batched: the cotangent of an input that all examples share then adds up in the
 * gradient of its broadcast.
 */
function batchCustom<A extends Attrs>({ node, inputs, size, batch }: BatchContext<A>, rule: string): Batched[] {
  const body = node.attrs["body"] as Graph;
  const flags = inputs.map((input) => isBatched(input) || isFloat(input.node.dtype));
  const all = body.outputs.map(() => true);
  const derivative = node.attrs[rule] as Graph;
  const leading = new Array<boolean>(derivative.inputs.length - inputs.length).fill(true);
  const attrs = {
    ...node.attrs,
    body: batchedGraph(body, flags, size, batch, () => all).graph,
    [rule]: batchedGraph(derivative, [...leading, ...flags], size, batch, (results) => results.map(() => true)).graph,
  };
  const operands = inputs.map((input, index) => (flags[index] ? spreadBatch(input, size) : input.node));
  return resultsOf(emit.call(node.op.name, operands, attrs)).map(withBatch);
}
