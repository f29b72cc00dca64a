/**
 * @module Loops and branches on a batch. Their graphs are batched. Where elements of the batch may go different ways (a
 * predicate or a condition per element), the loop or branch runs on one element after the other: errors of a run and
 * gradients are then those of the branch that is taken.
 */

import type { Attrs, BatchContext, Batched, Graph, Node } from "../ir/node.ts";
import { batchByLoop, batchedGraph, isBatched, moveDim, spreadBatch } from "./batch.ts";
import type { CondAttrs } from "./control-gradient.ts";
import { type ScanAttrs, withStackedCarries } from "./control-stacks.ts";
import { emitWhile, plainWhile, type WhileAttrs } from "./control-while.ts";
import * as emit from "./emit.ts";
import { resultsOf } from "./results.ts";

/** A body on a batch. `flags` marks the batched inputs; a carry that becomes batched in one iteration is batched in all. */
function batchedBody(body: Graph, carries: number, context: Pick<BatchContext<Attrs>, "inputs" | "size" | "batch">) {
  const { size, batch } = context;
  let flags = context.inputs.map(isBatched);
  for (;;) {
    const onBatch = batchedGraph(body, [false, ...flags], size, batch, (results) =>
      results.map((result, index) => result || (index < carries && flags[index] === true)),
    );
    const grown = flags.map((flag, index) => flag || (index < carries && onBatch.results[index] === true));
    if (grown.every((flag, index) => flag === flags[index])) return { ...onBatch, flags };
    flags = grown;
  }
}

/** In slices and stacks, the batch dim comes after the dim that the scan runs over. */
export function batchScan(context: BatchContext<ScanAttrs>): Batched[] {
  const { node, inputs, size } = context;
  const { carries, slices, body } = node.attrs;
  const onBatch = batchedBody(body, carries, context);
  const operands = inputs.map((input, index): Node => {
    if (!onBatch.flags[index]) return input.node;
    const wide = spreadBatch(input, size);
    return index < carries || index >= carries + slices ? wide : moveDim(wide, 0, 1);
  });
  const attrs = { ...node.attrs, body: withStackedCarries(onBatch.graph, carries) };
  const results = resultsOf(emit.call("scan", operands, attrs)).slice(0, body.outputs.length);
  return results.map((result, index): Batched => {
    const batched = onBatch.results[index] === true;
    return { node: batched && index >= carries ? moveDim(result, 1, 0) : result, batched };
  });
}

/** The body runs on the batch if one condition holds for all elements; else the loop runs on one element after the other. */
export function batchWhile(context: BatchContext<WhileAttrs>): Batched[] {
  const { node, size, batch } = context;
  const { attrs, inputs: indices } = plainWhile(node);
  const inputs = indices.map((index) => context.inputs[index] as Batched);
  const onBatch = batchedBody(attrs.body, attrs.carries, { ...context, inputs });
  const test = batchedGraph(attrs.condition, [false, ...onBatch.flags], size, batch, (results) => results);
  if (test.results[0] === true) return batchByLoop(context);
  const operands = inputs.map((input, index) => (onBatch.flags[index] ? spreadBatch(input, size) : input.node));
  const results = emitWhile(operands, { ...attrs, condition: test.graph, body: onBatch.graph });
  // Results are the loop's carries, the count, and the stacks, in which the batch dim comes after that of the iterations.
  return results.map((result, index): Batched => {
    const stack = index > attrs.carries;
    const batched = onBatch.results[stack ? index - attrs.carries - 1 : index] === true;
    return { node: batched && stack ? moveDim(result, 1, 0) : result, batched };
  });
}

/** A result is batched if either branch gives a batched result. */
export function batchBranch(context: BatchContext<CondAttrs>): Batched[] {
  const { node, inputs, size, batch } = context;
  const [test, ...operands] = inputs as [Batched, ...Batched[]];
  if (test.batched) return batchByLoop(context);
  const flags = operands.map(isBatched);
  const branch = (graph: Graph, wanted: readonly boolean[]) =>
    batchedGraph(graph, flags, size, batch, (results) =>
      results.map((result, index) => result || wanted[index] === true),
    );
  const onFalse = branch(node.attrs.onFalse, branch(node.attrs.onTrue, []).results);
  const onTrue = branch(node.attrs.onTrue, onFalse.results);
  const attrs = { onTrue: onTrue.graph, onFalse: onFalse.graph };
  const results = emit.call("cond", [test.node, ...operands.map((operand) => operand.node)], attrs);
  return resultsOf(results).map((result, index) => ({ node: result, batched: onTrue.results[index] === true }));
}
