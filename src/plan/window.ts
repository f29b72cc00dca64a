/** @module Windows: the elements of a split dim that each device needs beyond its own part, and how it gets them. */
import type { Equation, WindowRule } from "../ir/equation.ts";
import type { TensorType } from "../ir/shape.ts";
import type { Hints, Strategy, Windowed } from "./decision.ts";
import { type Placement, partial, replicate, shard } from "./layout.ts";
import type { MeshAxis } from "./mesh.ts";
import { type Interval, intervals, proportional, sizesOn } from "./partition.ts";

/**
 * The window of `[from, to)` inside `[0, length)`, and the padding it needs on each side; undefined when the window is
 * empty and must not be.
 */
function windowOf(
  [from, to]: Interval,
  length: number,
  { stride, low, span, dilation, solid }: WindowRule,
): { readonly window: Interval; readonly padding: readonly [number, number] } | undefined {
  if (from === to) return solid ? undefined : { window: [0, 0], padding: [0, 0] };
  const first = from * stride - low;
  const last = (to - 1) * stride - low + span - 1;
  const begin = Math.min(length, Math.max(0, Math.ceil(first / dilation)));
  const end = Math.max(begin, Math.min(length, Math.floor(last / dilation) + 1));
  if (begin === end) return solid ? undefined : { window: [begin, begin], padding: [last - first + 1, 0] };
  return { window: [begin, end], padding: [begin * dilation - first, last - (end - 1) * dilation] };
}

/** A letter's dim in an operand, where the operand is split there. */
const splitAt = (operand: readonly string[], hint: Placement | undefined, letter: string) =>
  hint?.kind === "shard" && operand[hint.dim] === letter ? hint : undefined;

/** Strategies that split a letter over which other letters are windows, for the splits in the hints. */
export function splitWindows(
  equation: Equation,
  inputs: readonly TensorType[],
  outputs: readonly TensorType[],
  axis: MeshAxis,
  hints: Hints,
): Strategy[] {
  const rules = equation.windows ?? [];
  return [...new Set(rules.map(({ by }) => by))].flatMap((by) => {
    const rulesOfLetter = rules.filter((rule) => rule.by === by);
    const candidates = new Map<string, readonly number[]>();
    const length = lengthOf(equation, inputs, outputs, by);
    equation.inputs.forEach((operand, index) => {
      const { shape } = inputs[index] as TensorType;
      const direct = splitAt(operand, hints.inputs[index], by);
      const widened = rulesOfLetter
        .map(({ of }) => splitAt(operand, hints.inputs[index], of))
        .find((split) => split !== undefined);
      const hint = direct ?? widened;
      if (hint === undefined) return;
      const sizes = sizesOn(hint.sizes, shape[hint.dim] as number, axis.size);
      const partition = direct === undefined ? proportional(length, sizes) : sizes;
      candidates.set(partition.join(), partition);
    });
    return [...candidates.values()].flatMap((partition) => {
      const strategy = windowStrategy(equation, rulesOfLetter, inputs, outputs, partition, hints);
      return strategy === undefined ? [] : [strategy];
    });
  });
}

function lengthOf(
  { inputs: left, outputs: right }: Equation,
  inputs: readonly TensorType[],
  outputs: readonly TensorType[],
  letter: string,
): number {
  const operands = [...left, ...right];
  const types = [...inputs, ...outputs];
  const index = operands.findIndex((operand) => operand.includes(letter));
  return types[index]?.shape[operands[index]?.indexOf(letter) as number] as number;
}

function windowStrategy(
  equation: Equation,
  rules: readonly WindowRule[],
  inputs: readonly TensorType[],
  outputs: readonly TensorType[],
  sizes: readonly number[],
  hints: Hints,
): Strategy | undefined {
  const by = (rules[0] as WindowRule).by;
  const windows: Windowed[] = [];
  let legal = true;
  const placementOf = (side: "input" | "output", operand: readonly string[], index: number): Placement => {
    const direct = operand.indexOf(by);
    if (direct >= 0) return shard(direct, sizes);
    const rule = rules.find(({ of }) => operand.includes(of));
    if (rule === undefined) return side === "input" ? replicate : partial(equation.reduction);
    const dim = operand.indexOf(rule.of);
    const length = (side === "input" ? inputs : outputs)[index]?.shape[dim] as number;
    const parts = intervals(sizes).map((interval) => windowOf(interval, length, rule));
    if (parts.includes(undefined)) legal = false;
    const hint = side === "input" ? splitAt(operand, hints.inputs[index], rule.of) : partitionFor(rule.of);
    const hintSizes = hint === undefined ? undefined : sizesOn(hint.sizes, length, sizes.length);
    const operandSizes = side === "input" ? hintSizes : (hintSizes ?? proportional(length, sizes));
    windows.push({
      side,
      operand: index,
      dim,
      wanted: parts.map((part) => part?.window ?? [0, 0]),
      padding: parts.map((part) => part?.padding ?? [0, 0]),
      sizes: operandSizes,
    });
    return operandSizes === undefined ? replicate : shard(dim, operandSizes);
  };
  // An output is split as an input with the same letter is.
  const partitionFor = (letter: string) =>
    equation.inputs
      .map((operand, index) => splitAt(operand, hints.inputs[index], letter))
      .find((hint) => hint !== undefined);
  const left = equation.inputs.map((operand, index) => placementOf("input", operand, index));
  const right = equation.outputs.map((operand, index) => placementOf("output", operand, index));
  return legal ? { inputs: left, outputs: right, letter: by, sizes, windows } : undefined;
}
