/**
 * @module Batching rules: how an op runs on a batch of inputs, with the batch as dim 0. Most rules follow from the op's index
 * equation. Where no single node computes the whole batch, the op runs on one element after the other, in a scan.
 */
import { inputSpecs, traceGraph } from "../ir/graph.ts";
import {
  type Attrs,
  type BatchContext,
  type Batched,
  type BatchRule,
  type Graph,
  isAbsent,
  type Node,
} from "../ir/node.ts";
import { otherDims, range, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { invariant } from "../util/errors.ts";
import * as emit from "./emit.ts";
import { resultsOf } from "./results.ts";

export const isBatched = ({ batched }: Batched): boolean => batched;
export const withBatch = (node: Node): Batched => ({ node, batched: true });

/** The value with the batch as dim 0; an unbatched value is repeated. */
export function spreadBatch({ node, batched }: Batched, size: number): Node {
  return batched
    ? node
    : emit.broadcastInDim(
        node,
        [size, ...node.shape],
        range(node.shape.length).map((dim) => dim + 1),
      );
}

/** Dim numbers after a new dim is added in front. */
export const behind = (dims: readonly number[]): number[] => dims.map((dim) => dim + 1);

/** Moves a dim to another position; the others keep their order. */
export function moveDim(node: Node, from: number, to: number): Node {
  const order = otherDims(node.shape.length, [from]);
  order.splice(to, 0, from);
  return emit.transpose(node, order);
}

/**
 * Applies the same op with one more dim in front of all inputs and results. `attrs` gives the op's attributes on the batch,
 * where they name dims. The index equation is checked: the new dim leads every operand and may be split.
 */
export function batchByEquation<A extends Attrs>(attrs: (old: A, size: number) => A = (old) => old): BatchRule<A> {
  return ({ node, inputs, size }) => {
    const { op } = node;
    const batchedAttrs = attrs(node.attrs, size);
    const onBatch = apply(
      op,
      inputs.map((input) => spreadBatch(input, size)),
      batchedAttrs,
    );
    invariant(!isAbsent(op.equation), `${op.name} is batched by its equation and has none`);
    const equation = op.equation(
      onBatch.inputs.flatMap(({ types }) => types),
      batchedAttrs,
    );
    const [letter] = equation.outputs[0] as readonly string[];
    const leads = (operand: readonly string[]): boolean => operand.indexOf(letter as string) === 0;
    invariant(
      [...equation.inputs, ...equation.outputs].every(leads) && !equation.whole.has(letter as string),
      `the equation of ${op.name} has no batch in front`,
    );
    return resultsOf(onBatch).map(withBatch);
  };
}

const index = { name: "index", type: { dtype: "i32", shape: [] } as TensorType };

/** The op on one element of the batch after the other: a scan over the batched inputs. */
export function batchByLoop<A extends Attrs>({ node, inputs, size }: BatchContext<A>): Batched[] {
  const order = [...inputs.keys()].sort((a, b) => Number(inputs[b]?.batched) - Number(inputs[a]?.batched));
  const types = node.inputs.map((input) => input.types[0] as TensorType);
  const specs = order.map((input) => ({ name: `x${input}`, type: types[input] as TensorType }));
  const body: Graph = traceGraph(`${node.op.name}-of-batch`, [index, ...specs], (_index, ...operands) =>
    resultsOf(
      apply(
        node.op,
        types.map((_type, input) => operands[order.indexOf(input)] as Node),
        node.attrs,
      ),
    ),
  );
  const attrs = { body, length: size, carries: 0, slices: inputs.filter(isBatched).length, reverse: false };
  const scanned = emit.call(
    "scan",
    order.map((input) => (inputs[input] as Batched).node),
    attrs,
  );
  return resultsOf(scanned).map(withBatch);
}

/** The graph on a batch: `batched` marks its inputs, and `wanted` chooses which results get the batch from those that have it. */
export function batchedGraph(
  graph: Graph,
  batched: readonly boolean[],
  size: number,
  batch: BatchContext<Attrs>["batch"],
  wanted: (found: readonly boolean[]) => readonly boolean[],
): { graph: Graph; results: readonly boolean[] } {
  let results: readonly boolean[] = [];
  const specs = inputSpecs(graph).map(({ name, type }, input) => ({
    name,
    type: batched[input] ? { dtype: type.dtype, shape: [size, ...type.shape] } : type,
  }));
  const onBatch = traceGraph(graph.name, specs, (...nodes) => {
    const values = batch(
      graph,
      nodes.map((node, input) => ({ node, batched: batched[input] === true })),
    );
    results = wanted(values.map(isBatched));
    return values.map((value, result) => (results[result] ? spreadBatch(value, size) : value.node));
  });
  return { graph: onBatch, results };
}
