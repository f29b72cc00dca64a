/** @module Helpers for the one-device form of ops whose attributes hold sizes. */
import type { Node, Split } from "../ir/node.ts";
import type { Shape } from "../ir/shape.ts";
import { add, call, mul } from "./emit.ts";

/** The shape of the first output (or of input 0) after all splits. */
export function splitShape(shape: Shape, splits: readonly Split[], side: "inputs" | "outputs" = "outputs"): number[] {
  const local = [...shape];
  for (const split of splits) {
    const dim = split[side][0];
    if (dim !== undefined) local[dim] = (local[dim] as number) / split.parts;
  }
  return local;
}

/** Where this device's block of output dim `dim` (of `size` in all) begins, as an i32 scalar; undefined when it is whole. */
export function blockStart(size: number, dim: number, splits: readonly Split[]): Node | undefined {
  let start: Node | undefined;
  let block = size;
  for (const { outputs, parts, axis } of splits) {
    if (outputs[0] !== dim) continue;
    block /= parts;
    const here = mul(call("axisIndex", [], { axis }), block);
    start = start === undefined ? here : add(start, here);
  }
  return start;
}
