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

/** Ops that a sum over the iterations passes through. */
const passing = ["add", "transpose", "reshape"];

/** What a value adds up: nodes of other ops. */
const termsOf = (value: Node): Node[] => (passing.includes(value.op.name) ? value.inputs.flatMap(termsOf) : [value]);

/** A product or a sum over all iterations, of the stacks of its operands. */
function overAll({ op, attrs }: Node, stacks: readonly Node[]): Node {
  const shifted = Object.entries(attrs).map(([key, dims]) => {
    if (typeof dims === "string") return [key, dims];
    const behind = (dims as readonly number[]).map((dim) => dim + 1);
    return [key, key.endsWith("Batch") ? behind : [0, ...behind]];
  });
  return emit.call(op.name, stacks, Object.fromEntries(shifted));
}

/**
 * The results of a scan, whose carries from position `from` on only add up values, from zeros, and are read by nothing else.
 * A sum with products is lifted if its stacks take at most four times the bytes of the sum in each iteration; another sum if it
 * needs no further stacks.
 */
export function scanWithSums(inputs: readonly Node[], attrs: ScanAttrs, from: number): Node[] {
  const { body, carries, slices, length } = attrs;
  const stacks = [...body.inputs.slice(1 + carries, 1 + carries + slices), ...body.outputs.slice(carries)];
  // The other outputs may be dropped, if nothing reads them: they count as stacks for the sums, too.
  const paid = new Set(stacks.slice(0, slices));
  const varying = new Set(body.inputs.slice(0, 1 + carries + slices));
  for (const node of topological(body.outputs)) if (node.inputs.some((input) => varying.has(input))) varying.add(node);
  const lifted = new Map<number, Node>();
  let total = 0;
  const tryLifting = (index: number, products: boolean): void => {
    const { op, inputs: added } = body.outputs[index] as Node;
    if (lifted.has(index) || op.name !== "add" || added[0] !== body.inputs[1 + index]) return;
    const value = added[1] as Node;
    const terms = termsOf(value);
    if (terms.some(({ op: { name }, attrs: { op } }) => name !== "dot" && !(name === "reduce" && op === "sum"))) return;
    const needs = [...new Set(terms.flatMap((term) => term.inputs))].filter((node) => !paid.has(node));
    const bytes = needs.reduce((sum, node) => sum + bytesOf(node), 0);
    const most = products && terms.some((term) => term.op.name === "dot") ? 4 * bytesOf(value) : 0;
    if (bytes > most || length * (total + bytes) > stackLimit || needs.some((node) => !varying.has(node))) return;
    total += bytes;
    for (const node of needs) paid.add(node);
    stacks.push(...needs.filter((node) => !stacks.includes(node)));
    lifted.set(index, value);
  };
  // What another sum adds up, such as the cotangent of a bias, may be stacked for a product.
  for (const products of [true, false]) for (let index = from; index < carries; index++) tryLifting(index, products);
  const left = range(carries).filter((index) => !lifted.has(index));
  const outputs = [...body.outputs.slice(0, carries), ...stacks.slice(slices)];
  const leftOf = (count: number): number[] => [...left, ...range(count).slice(carries)];
  const taken = leftOf(inputs.length);
  const smaller = narrowGraph({ ...body, outputs }, [0, ...taken.map((index) => index + 1)], leftOf(outputs.length));
  const operands = taken.map((index) => inputs[index] as Node);
  const loop = { ...attrs, body: withStackedCarries(smaller, left.length), carries: left.length };
  const results = resultsOf(emit.call("scan", operands, loop));
  const ofStacks = [...inputs.slice(carries, carries + slices), ...results.slice(left.length)];
  const behindLoop = (value: Node): Node =>
    passing.includes(value.op.name)
      ? apply(value.op, value.inputs.map(behindLoop), value.attrs)
      : overAll(
          value,
          value.inputs.map((input) => ofStacks[stacks.indexOf(input)] as Node),
        );
  const sums = range(carries).map((index) => {
    const value = lifted.get(index);
    return value === undefined ? (results[left.indexOf(index)] as Node) : behindLoop(value);
  });
  return [...sums, ...results.slice(left.length)];
}
