/**
 * @module What a scan stacks: its carries, for a gradient; and values whose products it would add up. Behind the loop, the sum of
 * the products is one product of the stacks: so the gradient of a weight is one product over the sequence.
 */

import { isFloat } from "../ir/dtype.ts";
import { narrowGraph } from "../ir/graph.ts";
import type { Graph, Node } from "../ir/node.ts";
import { bytesOf, range } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import * as emit from "./emit.ts";
import type { DotAttrs } from "./product.ts";
import { resultsOf } from "./results.ts";

export type ScanAttrs = { body: Graph; length: number; carries: number; slices: number; reverse: boolean };

/** The most bytes that a loop may stack to save another loop work, on all devices together; above it, work is done again. */
export const stackLimit = 2 ** 30;

/** A scan body that also stacks its carries before each iteration, for the gradient. */
export function withStackedCarries(body: Graph, carries: number): Graph {
  if (!body.outputs.some(({ dtype }) => isFloat(dtype))) return body;
  const missing = body.inputs.slice(1, carries + 1).filter((input) => body.outputs.indexOf(input, carries) < 0);
  return { ...body, outputs: [...body.outputs, ...missing] };
}

/** A value of an iteration, summed over all iterations behind the loop. */
interface Lifted {
  /** The values of an iteration that it needs stacked. */
  readonly needs: readonly Node[];
  /** Whether a product is part of it. */
  readonly product: boolean;
  readonly sum: (stackOf: (value: Node) => Node) => Node;
}

/**
 * The results of a scan, whose carries from place `from` on only add up values, from zeros, and are read by nothing else.
 * A sum with products is lifted if its stacks take at most four times the bytes of the sum in each iteration; another sum if it needs no
 * further stacks.
 */
export function scanWithSums(inputs: readonly Node[], attrs: ScanAttrs, from: number): Node[] {
  const { body, carries, slices, length } = attrs;
  const sliced = body.inputs.slice(1 + carries, 1 + carries + slices);
  const stacks = [...sliced, ...body.outputs.slice(carries)];
  const given = stacks.length;
  // The other outputs may be dropped, if nothing reads them: they count as stacks for the sums, too.
  const paid = new Set(sliced);
  const lifted = new Map<number, Lifted>();
  const varying = varyingIn(attrs);
  let total = 0;
  // What a sum adds up, such as the cotangent of a bias, may be stacked for a product: products come first.
  for (const products of [true, false])
    for (const place of range(carries).slice(from)) {
      const { op, inputs: terms } = body.outputs[place] as Node;
      if (lifted.has(place) || op.name !== "add" || terms[0] !== body.inputs[1 + place]) continue;
      const value = liftedValue(terms[1] as Node, varying);
      if (value === undefined || value.product !== products) continue;
      const needs = [...new Set(value.needs)].filter((node) => !paid.has(node));
      const bytes = needs.reduce((sum, node) => sum + bytesOf(node), 0);
      if (bytes > (products ? 4 * bytesOf(terms[1] as Node) : 0) || length * (total + bytes) > stackLimit) continue;
      total += bytes;
      for (const node of needs) paid.add(node);
      stacks.push(...needs.filter((node) => !stacks.includes(node)));
      lifted.set(place, value);
    }
  const kept = range(carries).filter((place) => !lifted.has(place));
  const outputs = [...body.outputs, ...stacks.slice(given)];
  const [takes, gives] = [inputs, outputs].map((list) => [...kept, ...range(list.length).slice(carries)]) as [
    number[],
    number[],
  ];
  const smaller = narrowGraph({ ...body, outputs }, [0, ...takes.map((place) => place + 1)], gives);
  const operands = takes.map((place) => inputs[place] as Node);
  const node = emit.call("scan", operands, {
    ...attrs,
    body: withStackedCarries(smaller, kept.length),
    carries: kept.length,
  });
  const results = resultsOf(node);
  const stackOf = (value: Node): Node => {
    const place = stacks.indexOf(value);
    return place < slices ? (inputs[carries + place] as Node) : (results[kept.length + place - slices] as Node);
  };
  return body.outputs.map((_output, place) =>
    place < carries
      ? (lifted.get(place)?.sum(stackOf) ?? (results[kept.indexOf(place)] as Node))
      : (results[kept.length + place - carries] as Node),
  );
}

/** Values in the body that are not the same in every iteration. */
function varyingIn({ body, carries, slices }: ScanAttrs): ReadonlySet<Node> {
  const varying = new Set(body.inputs.slice(0, 1 + carries + slices));
  for (const node of topological(body.outputs)) if (node.inputs.some((input) => varying.has(input))) varying.add(node);
  return varying;
}

const behind = (dims: readonly number[]): number[] => dims.map((dim) => dim + 1);

function liftedValue(value: Node, varying: ReadonlySet<Node>): Lifted | undefined {
  const { op, inputs, attrs } = value;
  if (op.name === "dot") {
    const [x, y] = inputs as [Node, Node];
    const { xBatch, yBatch, xContract, yContract } = attrs as DotAttrs;
    const over = { xContract: [0, ...behind(xContract)], yContract: [0, ...behind(yContract)] };
    const dims = { xBatch: behind(xBatch), yBatch: behind(yBatch), ...over };
    if (!varying.has(x) || !varying.has(y)) return undefined;
    return { needs: inputs, product: true, sum: (stackOf) => emit.dotGeneral(stackOf(x), stackOf(y), dims) };
  }
  if (op.name === "reduce" && attrs["op"] === "sum") {
    const [x] = inputs as [Node];
    const dims = [0, ...behind(attrs["dims"] as readonly number[])];
    return varying.has(x) ? { needs: inputs, product: false, sum: (stackOf) => emit.sum(stackOf(x), dims) } : undefined;
  }
  if (!["add", "transpose", "reshape", "cast"].includes(op.name)) return undefined;
  const parts = inputs.map((input) => liftedValue(input, varying));
  if (parts.includes(undefined)) return undefined;
  const whole = parts as Lifted[];
  return {
    needs: whole.flatMap(({ needs }) => needs),
    product: whole.some(({ product }) => product),
    sum: (stackOf) =>
      apply(
        op,
        whole.map(({ sum }) => sum(stackOf)),
        attrs,
      ),
  };
}
