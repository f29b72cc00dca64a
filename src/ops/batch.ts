/**
 * @module Batching rules: an op on a batch of inputs, the batch being dim 0. Most follow from the index equation; what one
 * node cannot say is done one element of the batch after the other, in a scan.
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

/** The value with the batch as dim 0, repeated where it is alike for all. */
export function spreadBatch({ node, batched }: Batched, size: number): Node {
  return batched
    ? node
    : emit.broadcastInDim(
        node,
        [size, ...node.shape],
        range(node.shape.length).map((dim) => dim + 1),
      );
}

/** Dims by number, behind one more in front. */
export const behind = (dims: readonly number[]): number[] => dims.map((dim) => dim + 1);

/** Moves a dim to another place; the others keep their order. */
export function moveDim(node: Node, from: number, to: number): Node {
  const order = otherDims(node.shape.length, [from]);
  order.splice(to, 0, from);
  return emit.transpose(node, order);
}

/**
 * The same op with one more dim in front of all inputs and results. `attrs` says the attributes of it, where they name
 * dims; that they are right follows from the equation: the new dim corresponds in all operands, and may be split.
 */
export function batchByEquation<A extends Attrs>(
  attrs: (given: A, size: number) => A = (given) => given,
): BatchRule<A> {
  return ({ node, inputs, size }) => {
    const { op } = node;
    const own = attrs(node.attrs, size);
    const made = apply(
      op,
      inputs.map((input) => spreadBatch(input, size)),
      own,
    );
    invariant(!isAbsent(op.equation), `${op.name} is batched by its equation and has none`);
    const equation = op.equation(
      made.inputs.flatMap(({ types }) => types),
      own,
    );
    const [letter] = equation.outputs[0] as readonly string[];
    const leads = (operand: readonly string[]): boolean => operand.indexOf(letter as string) === 0;
    invariant(
      [...equation.inputs, ...equation.outputs].every(leads) && !equation.whole.has(letter as string),
      `the equation of ${op.name} has no batch in front`,
    );
    return resultsOf(made).map(withBatch);
  };
}

const index = { name: "index", type: { dtype: "i32", shape: [] } as TensorType };

/** The op on one element of the batch after the other: a scan over the batched inputs. */
export function batchByLoop<A extends Attrs>({ node, inputs, size }: BatchContext<A>): Batched[] {
  const order = [...inputs.keys()].sort((a, b) => Number(inputs[b]?.batched) - Number(inputs[a]?.batched));
  const types = node.inputs.map((input) => input.types[0] as TensorType);
  const specs = order.map((place) => ({ name: `x${place}`, type: types[place] as TensorType }));
  const body: Graph = traceGraph(`${node.op.name}-of-batch`, [index, ...specs], (_index, ...given) =>
    resultsOf(
      apply(
        node.op,
        types.map((_type, place) => given[order.indexOf(place)] as Node),
        node.attrs,
      ),
    ),
  );
  const attrs = { body, length: size, carries: 0, slices: inputs.filter(isBatched).length, reverse: false };
  const made = emit.call(
    "scan",
    order.map((place) => (inputs[place] as Batched).node),
    attrs,
  );
  return resultsOf(made).map(withBatch);
}

/** A graph on a batch: which of its inputs are batched, and which of its results must be. */
export function batchedGraph(
  graph: Graph,
  batched: readonly boolean[],
  size: number,
  batch: BatchContext<Attrs>["batch"],
  wanted: (made: readonly boolean[]) => readonly boolean[],
): { graph: Graph; results: readonly boolean[] } {
  let results: readonly boolean[] = [];
  const specs = inputSpecs(graph).map(({ name, type }, place) => ({
    name,
    type: batched[place] ? { dtype: type.dtype, shape: [size, ...type.shape] } : type,
  }));
  const made = traceGraph(graph.name, specs, (...nodes) => {
    const values = batch(
      graph,
      nodes.map((node, place) => ({ node, batched: batched[place] === true })),
    );
    results = wanted(values.map(isBatched));
    return values.map((value, place) => (results[place] ? spreadBatch(value, size) : value.node));
  });
  return { graph: made, results };
}
