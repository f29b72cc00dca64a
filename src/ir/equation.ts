/**
 * @module Index equations: which dims of an op's inputs and outputs correspond.
 *
 * `"m k, k n -> m n"` says all about the sharding of a matrix product: a letter on both sides may be split on both; a
 * letter only on the left is contracted, and splitting it leaves partial results; a letter only on the right is made by
 * the op; `!` marks a letter that must stay whole. The idea is that of einsum and of DTensor's single-axis strategies.
 */
import { HeddleError } from "../util/errors.ts";
import type { Shape, TensorType } from "./shape.ts";

/** How contributions of several devices combine to the value. */
export type Reduction = "sum" | "max" | "min";

/**
 * Splitting letter `by` asks for a window of letter `of`: position `i` of `by` goes with positions
 * `i * stride - low … + span - 1` of `of`, counted after `dilation - 1` gaps are put between its elements. Inputs with `of`
 * are needed with their neighbours' elements; of an output with `of` the windows add up.
 */
export interface WindowRule {
  readonly by: string;
  readonly of: string;
  readonly stride: number;
  readonly low: number;
  readonly span: number;
  readonly dilation: number;
  /** Whether a window must hold at least one element. */
  readonly solid: boolean;
}

export interface Equation {
  /** One letter per dim of each input. */
  readonly inputs: readonly (readonly string[])[];
  readonly outputs: readonly (readonly string[])[];
  /** Letters that may not be split. */
  readonly whole: ReadonlySet<string>;
  /** How a split contracted letter's results combine. */
  readonly reduction: Reduction;
  /** Splits of letters that are else whole; both letters of a rule are in {@link whole}. */
  readonly windows?: readonly WindowRule[];
  /** Inputs that are only waited for: their contents, and so their layouts, do not matter. */
  readonly waits?: readonly number[];
  /** A letter, else whole, of an output: split on the axis, it counts the contributions that the inputs are there. */
  readonly counts?: { readonly letter: string; readonly axis: string };
  /** By mesh axis the letter that is split over it, in any case; undefined: none, the value is whole. */
  readonly fixed?: ReadonlyMap<string, string | undefined>;
}

/** Parses `"m k, k n -> m n"`; `c!` marks a letter as whole; a scalar is an empty list. */
export function parseEquation(text: string, reduction: Reduction = "sum"): Equation {
  const whole = new Set<string>();
  const side = (part: string): string[][] =>
    part.split(",").map((operand) =>
      operand
        .trim()
        .split(/\s+/)
        .filter((letter) => letter !== "")
        .map((letter) => {
          if (!letter.endsWith("!")) return letter;
          whole.add(letter.slice(0, -1));
          return letter.slice(0, -1);
        }),
    );
  const [left, right] = text.split("->");
  if (left === undefined || right === undefined) throw new HeddleError("equation", `equation '${text}' has no '->'`);
  return { inputs: left.trim() === "" ? [] : side(left), outputs: side(right), whole, reduction };
}

/** Builds an equation from letters per operand. */
export const equationOf = (
  inputs: readonly (readonly string[])[],
  outputs: readonly (readonly string[])[],
  { whole, ...more }: Partial<Omit<Equation, "inputs" | "outputs" | "whole">> & { whole?: Iterable<string> } = {},
): Equation => ({ inputs, outputs, whole: new Set(whole), reduction: "sum", ...more });

/** Letters `d0 d1 …` for the dims of an operand. */
export function letters(rank: number, prefix = "d"): string[] {
  return Array.from({ length: rank }, (_unused, dim) => `${prefix}${dim}`);
}

/** Output shapes that an equation implies; throws naming the letter when two inputs disagree on its size. */
export function shapesByEquation(what: string, equation: Equation, inputs: readonly TensorType[]): Shape[] {
  const sizes = sizesByLetter(what, equation, inputs);
  return equation.outputs.map((operand) =>
    operand.map((letter) => {
      const size = sizes.get(letter);
      if (size === undefined) throw new HeddleError("equation", `${what}: no input gives the size of '${letter}'`);
      return size;
    }),
  );
}

/** Size of each letter that inputs carry. */
export function sizesByLetter(what: string, equation: Equation, inputs: readonly TensorType[]): Map<string, number> {
  const sizes = new Map<string, number>();
  equation.inputs.forEach((operand, index) => {
    const shape = inputs[index]?.shape ?? [];
    if (shape.length !== operand.length) {
      throw new HeddleError("shape", `${what}: input ${index} has ${shape.length} dims, expected ${operand.length}`);
    }
    operand.forEach((letter, dim) => {
      const size = shape[dim] as number;
      const known = sizes.get(letter);
      if (known !== undefined && known !== size) {
        throw new HeddleError("shape", `${what}: sizes ${known} and ${size} of corresponding dims differ`);
      }
      sizes.set(letter, size);
    });
  });
  return sizes;
}

/** Number of points of the iteration space: the product of the sizes of all letters. */
export function pointsOf(equation: Equation, inputs: readonly TensorType[], outputs: readonly TensorType[]): number {
  const sizes = new Map<string, number>();
  const add = (operands: readonly (readonly string[])[], types: readonly TensorType[]): void =>
    operands.forEach((operand, index) => {
      operand.forEach((letter, dim) => {
        sizes.set(letter, Math.max(sizes.get(letter) ?? 0, types[index]?.shape[dim] ?? 0));
      });
    });
  add(equation.inputs, inputs);
  add(equation.outputs, outputs);
  let points = 1;
  for (const size of sizes.values()) points *= size;
  return points;
}
