/** @module Reverse-mode differentiation: gradients are nodes of the same trace, by each op's own rule. */

import { isFloat } from "../ir/dtype.ts";
import { elementOp } from "../ir/leaf.ts";
import { isAbsent, type Node } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { atPositionOf, positionOf } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { call, expandNode, full, sumOfCotangents } from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { describePosition } from "../util/source.ts";

/**
 * Cotangents of `wrt` given those of `outputs`, as nodes of the current trace; undefined where nothing flows.
 *
 * @param options.independent Whether values of `wrt` are independent even if computed from others of `wrt` (the default).
 *
 * @throws HeddleError `gradient` naming the op and its source line when a value on the path has no gradient.
 */
export function pullback(
  outputs: readonly Node[],
  cotangents: readonly (Node | undefined)[],
  wrt: readonly Node[],
  options: { readonly independent?: boolean } = {},
): (Node | undefined)[] {
  const needed = dependents(outputs, wrt);
  const collected = new Map<Node, (Node | undefined)[]>();
  const accumulate = (node: Node, index: number, value: Node | undefined): void => {
    if (value === undefined) return;
    // Cotangents belong to the node with several results, not to the `element` that selects one.
    if (node.op === elementOp) {
      accumulate(node.inputs[0] as Node, node.attrs["index"] as number, value);
      return;
    }
    const slots = collected.get(node) ?? new Array<Node | undefined>(node.types.length).fill(undefined);
    const sum = slots[index];
    slots[index] = sum === undefined ? value : sumOfCotangents(sum, value);
    collected.set(node, slots);
  };
  outputs.forEach((output, index) => {
    accumulate(output, 0, cotangents[index]);
  });
  const ends = new Set(options.independent === false ? [] : wrt);
  const cutResults = resultsToCut(ends);
  for (const node of topological(outputs).reverse()) {
    if (!needed.has(node) || node.inputs.length === 0 || ends.has(node)) continue;
    const slots = collected.get(node)?.map((slot, index) => (cutResults.get(node)?.has(index) ? undefined : slot));
    if (slots === undefined || slots.every((slot) => slot === undefined)) continue;
    const results = atPositionOf(node, () => inputCotangents(node, slots));
    node.inputs.forEach((input, index) => {
      if (needed.has(input) && isFloat(input.dtype)) accumulate(input, 0, results[index]);
    });
  }
  return wrt.map((node) =>
    node.op === elementOp
      ? collected.get(node.inputs[0] as Node)?.[node.attrs["index"] as number]
      : collected.get(node)?.[0],
  );
}

/** The results at which differentiation stops, by their node. */
function resultsToCut(ends: ReadonlySet<Node>): ReadonlyMap<Node, ReadonlySet<number>> {
  const results = new Map<Node, Set<number>>();
  for (const node of ends) {
    if (node.op !== elementOp) continue;
    const source = node.inputs[0] as Node;
    results.set(source, (results.get(source) ?? new Set()).add(node.attrs["index"] as number));
  }
  return results;
}

/** Nodes on a path from a value of `wrt` to an output. */
function dependents(outputs: readonly Node[], wrt: readonly Node[]): Set<Node> {
  const reached = new Set<Node>(wrt);
  for (const node of topological(outputs)) if (node.inputs.some((input) => reached.has(input))) reached.add(node);
  return reached;
}

function inputCotangents(node: Node, cotangents: readonly (Node | undefined)[]): readonly (Node | undefined)[] {
  const { gradient, body } = node.op;
  if (!isAbsent(gradient)) return gradient({ node, cotangents, pullback });
  if (isAbsent(body)) {
    const where = describePosition(positionOf(node));
    throw new HeddleError(
      "gradient",
      `${describeNode(node)} has no gradient: ${gradient.absent}`,
      where === undefined ? {} : { where },
    );
  }
  return pullback(expandNode(node, node.inputs), cotangents, node.inputs);
}

/**
 * Gradients of a scalar by each of `wrt`; zeros where the scalar does not depend on a value.
 *
 * @throws HeddleError `gradient` when the output is not a float scalar, or a value of `wrt` is not float.
 */
export function gradients(output: Node, wrt: readonly Node[]): Node[] {
  if (output.shape.length !== 0 || !isFloat(output.dtype)) {
    throw new HeddleError("gradient", `the gradient needs a float scalar, got ${formatType(output)}`, {
      hint: "reduce it with sum() or mean()",
    });
  }
  for (const node of wrt) {
    if (!isFloat(node.dtype))
      throw new HeddleError("gradient", `cannot differentiate by ${describeNode(node)}: it is not float`);
  }
  const results = pullback([output], [call("constant", [], { dtype: output.dtype, value: 1 })], wrt, {
    independent: false,
  });
  return results.map((result, index) => {
    const type = (wrt[index] as Node).types[0] as TensorType;
    return result ?? full(type.dtype, type.shape, 0);
  });
}
