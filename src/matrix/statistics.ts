/** @module Estimates of how many elements of a result are not 0, from those of the operands (the average case of independent places). */

import { cells, type Expression, type Size } from "./expression.ts";

const sparsityOf = ({ nonzeros, size }: Expression): number => (cells(size) === 0 ? 0 : nonzeros / cells(size));

/** Functions that take 0 to 0, so that no element of the result is nonzero where that of the operand is 0. */
export const keepZero: ReadonlySet<string> = new Set([
  ..."neg sqrt abs sign floor ceil round roundHalfUp sin tan asin atan sinh tanh square erf isnan isinf".split(" "),
  ..."transpose reshape reverse diag cumsum".split(" "),
]);

const both = (x: number, y: number): number => x * y;
const either = (x: number, y: number): number => x + y - x * y;
const ofPairs: Readonly<Record<string, (x: number, y: number) => number>> = {
  mul: both,
  and: both,
  add: either,
  sub: either,
  or: either,
  xor: either,
  ne: either,
  div: (x) => x,
  intdiv: (x) => x,
};

/** The estimate for a result. */
export function estimateNonzeros(operator: string, inputs: readonly Expression[], size: Size): number {
  const [x, y] = inputs;
  const all = cells(size);
  if (x === undefined) return all;
  if (keepZero.has(operator)) return Math.min(x.nonzeros, all);
  const pair = ofPairs[operator];
  if (pair !== undefined && y !== undefined) return Math.ceil(all * Math.min(1, pair(sparsityOf(x), sparsityOf(y))));
  if (operator === "matmul" && y !== undefined)
    return Math.ceil(all * (1 - (1 - sparsityOf(x) * sparsityOf(y)) ** x.size[1]));
  if (operator === "concat") return inputs.reduce((sum, { nonzeros }) => sum + nonzeros, 0);
  if (operator === "slice" || operator === "take" || operator === "triangle") return Math.ceil(all * sparsityOf(x));
  if (operator === "update" && y !== undefined) return Math.min(all, x.nonzeros + y.nonzeros);
  if (operator === "entries") return Math.min(all, x.nonzeros);
  if (operator === "fill") return x.stored?.host?.data[0] === 0 ? 0 : all;
  return all;
}
