/** @module Which ways of splitting an op over one mesh axis are legal: derived from its index equation and linearity. */
import type { Equation } from "../ir/equation.ts";
import { isAbsent, type Node } from "../ir/node.ts";
import { sizeOf, type TensorType } from "../ir/shape.ts";
import { formatPlacement, type Placement, partial, replicate, shard } from "./layout.ts";

/** One legal way: what each input must be, what each output then is. */
export interface Strategy {
  readonly inputs: readonly Placement[];
  readonly outputs: readonly Placement[];
  /** The letter that is split, when one is. */
  readonly letter: string | undefined;
}

/** `S(0), R -> S(0)`. */
export const formatStrategy = (strategy: Strategy): string =>
  `${strategy.inputs.map(formatPlacement).join(", ")} -> ${strategy.outputs.map(formatPlacement).join(", ")}`;

/**
 * The legal strategies of a node over an axis of `parts` devices, given its types on one device so far. The first one
 * replicates everything.
 */
export function strategiesOf(
  node: Pick<Node, "op" | "attrs">,
  inputs: readonly TensorType[],
  outputs: readonly TensorType[],
  parts: number,
): Strategy[] {
  const all: Strategy[] = [
    { inputs: inputs.map(() => replicate), outputs: outputs.map(() => replicate), letter: undefined },
  ];
  const { equation } = node.op;
  if (!isAbsent(equation)) all.push(...splitLetters(equation(inputs, node.attrs), inputs, outputs, parts));
  all.push(...passPartials(node, inputs, outputs));
  return all;
}

function splitLetters(
  equation: Equation,
  inputs: readonly TensorType[],
  outputs: readonly TensorType[],
  parts: number,
): Strategy[] {
  const letters = new Set([...equation.inputs.flat(), ...equation.outputs.flat()]);
  const result: Strategy[] = [];
  for (const letter of letters) {
    if (equation.whole.has(letter)) continue;
    const divides = (operands: readonly (readonly string[])[], types: readonly TensorType[]): boolean =>
      operands.every((operand, index) =>
        operand.every((other, dim) => other !== letter || (types[index]?.shape[dim] as number) % parts === 0),
      );
    if (!divides(equation.inputs, inputs) || !divides(equation.outputs, outputs)) continue;
    const place = (operand: readonly string[], otherwise: Placement): Placement => {
      const dim = operand.indexOf(letter);
      return dim < 0 ? otherwise : shard(dim);
    };
    result.push({
      inputs: equation.inputs.map((operand) => place(operand, replicate)),
      outputs: equation.outputs.map((operand) => place(operand, partial(equation.reduction))),
      letter,
    });
  }
  return result;
}

/** Sums may pass through a linear op: contributions in, contributions out. */
function passPartials(
  node: Pick<Node, "op" | "attrs">,
  inputs: readonly TensorType[],
  outputs: readonly TensorType[],
): Strategy[] {
  const { linear } = node.op;
  const sets = typeof linear === "function" ? linear(node.attrs) : linear;
  return sets.map((set) => ({
    inputs: inputs.map((_type, index) => (set.includes(index) ? partial("sum") : replicate)),
    outputs: outputs.map(() => partial("sum")),
    letter: undefined,
  }));
}

// A cheap op is one that does at most this much work per element of its result.
const cheapPerElement = 32;

/**
 * Whether an op is cheap: its parts are then made anew rather than cut from the whole or sent, and it follows the layout that is
 * wanted of its result.
 */
export function isCheap(node: Pick<Node, "op" | "attrs" | "inputs" | "types" | "shape">): boolean {
  const inputs = node.inputs.flatMap((input) => input.types);
  return node.op.cost(inputs, node.types, node.attrs) <= cheapPerElement * sizeOf(node.shape);
}
