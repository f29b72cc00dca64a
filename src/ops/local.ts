/** @module Helpers for the one-device form of ops whose attributes hold sizes. */
import type { Node, Split } from "../ir/node.ts";
import type { Shape } from "../ir/shape.ts";
import { add, call, constant, ge, mul, select } from "./emit.ts";

/** The size of this device's part of `length` elements along a split dim. */
export const partOf = (length: number, { uneven, parts }: Split): number =>
  uneven === undefined ? length / parts : (length / uneven.sizes.reduce((sum, size) => sum + size, 0)) * uneven.own;

/** The shape of the first output (or of input 0) after all splits. */
export function splitShape(shape: Shape, splits: readonly Split[], side: "inputs" | "outputs" = "outputs"): number[] {
  const local = [...shape];
  for (const split of splits) {
    const dim = split[side][0];
    if (dim !== undefined) local[dim] = partOf(local[dim] as number, split);
  }
  return local;
}

/** Where this device's part of `length` elements begins, as an i32 scalar. */
export function partStartOf(length: number, split: Split): Node {
  const here = call("axisIndex", [], { axis: split.axis });
  if (split.uneven === undefined) return mul(here, length / split.parts);
  const scale = length / split.uneven.sizes.reduce((sum, size) => sum + size, 0);
  let start = constant("i32", 0);
  split.uneven.sizes.slice(0, -1).forEach((size, part) => {
    start = add(start, select(ge(here, part + 1), constant("i32", size * scale), 0));
  });
  return start;
}

/** Where this device's block of output dim `dim` (of `size` in all) begins, as an i32 scalar; undefined if the dim is whole. */
export function blockStart(size: number, dim: number, splits: readonly Split[]): Node | undefined {
  let start: Node | undefined;
  let block = size;
  for (const split of splits) {
    if (split.outputs[0] !== dim) continue;
    const here = partStartOf(block, split);
    start = start === undefined ? here : add(start, here);
    block = partOf(block, split);
  }
  return start;
}
