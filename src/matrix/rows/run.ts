/** @module Stages of a matrix program, as functions of tensors: a pass is a loop over blocks of rows. */

import * as t from "../../functions/index.ts";
import { scan, type Tensor, vmap } from "../../functions/index.ts";
import type { Size } from "../expression.ts";
import type { Pass, Stage, Step } from "./plan.ts";

/** Blocks that each step of the loop has, so that threads share it: a fixed number, since the order of sums follows from it. */
const together = 8;
/** Elements of a block's rows: with what is computed of them they fit the L2 cache of one core. */
const blockElements = 2 ** 14;
const leastBlock = 64;
const mostBlock = 4096;

/** The rows of a block of stacks with so many elements a row. */
export const blockRows = (elements: number): number =>
  Math.min(mostBlock, Math.max(leastBlock, Math.floor(blockElements / elements)));

/** The results of a program's stages. */
export function runStages(
  stages: readonly Stage[],
  steps: readonly Step[],
  outputs: readonly number[],
  inputs: readonly Tensor[],
): Tensor[] {
  const values = new Map(inputs.entries());
  const valueOf = (value: number): Tensor => values.get(value) as Tensor;
  const compute = (value: number): void => {
    const { operator, attrs, size, operands } = steps[value - inputs.length] as Step;
    values.set(value, operator.build(operands.map(valueOf), attrs, size));
  };
  for (const { values: whole, pass } of stages) {
    whole.forEach(compute);
    if (pass === undefined) continue;
    const block = blockFunction(pass, steps, inputs.length, valueOf);
    const sizes = pass.sums.map((value) => (steps[value - inputs.length] as Step).size);
    sumsOf(pass.length, pass.stacks.map(valueOf), block, sizes).forEach((sum, index) => {
      values.set(pass.sums[index] as number, sum);
    });
  }
  return outputs.map(valueOf);
}

type BlockFunction = (blocks: readonly Tensor[]) => Tensor[];

/** What a block of rows adds to each sum. */
function blockFunction(
  { length, stacks, values, sums }: Pass,
  steps: readonly Step[],
  first: number,
  valueOf: (value: number) => Tensor,
): BlockFunction {
  return (blocks) => {
    const rows = (blocks[0] as Tensor).shape[0] as number;
    const local = new Map(stacks.map((value, index) => [value, blocks[index] as Tensor]));
    for (const value of values) {
      const { operator, attrs, size, operands } = steps[value - first] as Step;
      const inBlock = size.map((side) => (side === length ? rows : side)) as unknown as Size;
      const inputs = operands.map((operand) => local.get(operand) ?? valueOf(operand));
      local.set(value, operator.build(inputs, attrs, inBlock));
    }
    return sums.map((value) => local.get(value) as Tensor);
  };
}

/** The sums over all blocks, and over the rows that fill no block. */
function sumsOf(
  length: number,
  stacks: readonly Tensor[],
  block: BlockFunction,
  sizes: readonly Size[],
): readonly Tensor[] {
  const rows = blockRows(stacks.reduce((sum, { shape }) => sum + (shape[1] as number), 0));
  const times = Math.floor(length / (together * rows));
  const whole = times * together * rows;
  const part = (from: number, to: number): Tensor[] =>
    stacks.map((stack) => (to - from === length ? stack : t.slice(stack, [from, 0], [to, stack.shape[1] as number])));
  const rest = whole === length ? undefined : block(part(whole, length));
  if (times === 0 && rest !== undefined) return rest;
  const blocks = part(0, whole).map((stack) => t.reshape(stack, [times, together, rows, stack.shape[1] as number]));
  const start = sizes.map((size) => t.zeros([together, ...size], { dtype: "f64" }));
  const added = vmap((taken: readonly Tensor[]) => block(taken));
  const [totals] = scan(
    (carry: readonly Tensor[], taken: readonly Tensor[]): readonly [Tensor[], Tensor[]] => [
      added(taken).map((sum, index) => t.add(carry[index] as Tensor, sum)),
      [],
    ],
    start as readonly Tensor[],
    blocks as readonly Tensor[],
  );
  return totals.map((total, index) => {
    const sum = t.sum(total, [0]);
    return rest === undefined ? sum : t.add(sum, rest[index] as Tensor);
  });
}
