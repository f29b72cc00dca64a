/**
 * @module Loops and branches on a batch. The graphs that they own are batched; where the elements of the batch would go
 * different ways (a predicate or a condition per element), they go one after the other, each its own way: errors of a
 * run and gradients are then those of the branch that is taken.
 */
import type { Attrs, BatchContext, Batched, Graph, Node } from "../ir/node.ts";
import { batchByLoop, batchedGraph, isBatched, moveDim, spreadBatch } from "./batch.ts";
import { withStackedCarries } from "./control-gradient.ts";
import { emitWhile, plainWhile, type WhileAttrs } from "./control-while.ts";
import * as emit from "./emit.ts";
import { resultsOf } from "./results.ts";

type ScanLike = { body: Graph; length: number; carries: number; slices: number; reverse: boolean };
type CondLike = { onTrue: Graph; onFalse: Graph };

/** A body on a batch, with the carries that are batched from the second iteration on at the latest. */
function batchedBody(body: Graph, carries: number, context: Pick<BatchContext<Attrs>, "inputs" | "size" | "batch">) {
  const { size, batch } = context;
  let flags = context.inputs.map(isBatched);
  for (;;) {
    const made = batchedGraph(body, [false, ...flags], size, batch, (results) =>
      results.map((result, place) => result || (place < carries && flags[place] === true)),
    );
    const grown = flags.map((flag, place) => flag || (place < carries && made.results[place] === true));
    if (grown.every((flag, place) => flag === flags[place])) return { ...made, flags };
    flags = grown;
  }
}

/** The batch of a slice comes after the dim that is sliced; that of a stack too. */
export function batchScan(context: BatchContext<ScanLike>): Batched[] {
  const { node, inputs, size } = context;
  const { carries, slices, body } = node.attrs;
  const made = batchedBody(body, carries, context);
  const operands = inputs.map((input, place): Node => {
    if (!made.flags[place]) return input.node;
    const wide = spreadBatch(input, size);
    return place < carries || place >= carries + slices ? wide : moveDim(wide, 0, 1);
  });
  const attrs = { ...node.attrs, body: withStackedCarries(made.graph, carries) };
  const results = resultsOf(emit.call("scan", operands, attrs)).slice(0, body.outputs.length);
  return results.map((result, place): Batched => {
    const batched = made.results[place] === true;
    return { node: batched && place >= carries ? moveDim(result, 1, 0) : result, batched };
  });
}

/** As long as one condition holds for all, the body runs on the batch. */
export function batchWhile(context: BatchContext<WhileAttrs>): Batched[] {
  const { node, size, batch } = context;
  const { attrs, inputs: places } = plainWhile(node);
  const inputs = places.map((place) => context.inputs[place] as Batched);
  const made = batchedBody(attrs.body, attrs.carries, { ...context, inputs });
  const test = batchedGraph(attrs.condition, [false, ...made.flags], size, batch, (results) => results);
  if (test.results[0] === true) return batchByLoop(context);
  const operands = inputs.map((input, place) => (made.flags[place] ? spreadBatch(input, size) : input.node));
  const results = emitWhile(operands, { ...attrs, condition: test.graph, body: made.graph });
  // Of the loop's own carries, then the count, then the stacks, where the batch comes after the iterations.
  return results.map((result, place): Batched => {
    const stack = place > attrs.carries;
    const batched = made.results[stack ? place - attrs.carries - 1 : place] === true;
    return { node: batched && stack ? moveDim(result, 1, 0) : result, batched };
  });
}

/** A result is batched where it is of either branch. */
export function batchBranch(context: BatchContext<CondLike>): Batched[] {
  const { node, inputs, size, batch } = context;
  const [test, ...operands] = inputs as [Batched, ...Batched[]];
  if (test.batched) return batchByLoop(context);
  const flags = operands.map(isBatched);
  const branch = (graph: Graph, wanted: readonly boolean[]) =>
    batchedGraph(graph, flags, size, batch, (results) =>
      results.map((result, place) => result || wanted[place] === true),
    );
  const onFalse = branch(node.attrs.onFalse, branch(node.attrs.onTrue, []).results);
  const onTrue = branch(node.attrs.onTrue, onFalse.results);
  const attrs = { onTrue: onTrue.graph, onFalse: onFalse.graph };
  const made = emit.call("cond", [test.node, ...operands.map((operand) => operand.node)], attrs);
  return resultsOf(made).map((result, place) => ({ node: result, batched: onTrue.results[place] === true }));
}
