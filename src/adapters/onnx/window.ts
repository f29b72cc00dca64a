/** @module Windows of ONNX's convolutions and poolings: sizes, steps, and padding given or by a rule. */

import { HeddleError } from "../../extend/index.ts";
import type { NodeContext } from "./context.ts";
import { spanOf, type Window } from "./windows.ts";

export function perSpatial(c: NodeContext, name: string, rank: number, otherwise: number): readonly number[] {
  const list = c.ints(name, new Array<number>(rank).fill(otherwise));
  if (list.length === rank) return list;
  throw new HeddleError("format", `${name} has ${list.length} entries for ${rank} spatial dims`);
}

/** The window of a node over the spatial dims of input 0. */
export function autoPadding(c: NodeContext, sizes: readonly number[]): Window {
  const rank = sizes.length;
  if (rank !== c.rank() - 2 || rank === 0)
    throw new HeddleError("shape", `a window of ${rank} spatial dims on an input of ${c.rank()} dims`);
  const strides = perSpatial(c, "strides", rank, 1);
  const dilations = perSpatial(c, "dilations", rank, 1);
  const mode = c.string("auto_pad", "NOTSET");
  const pads = c.ints("pads", new Array<number>(2 * rank).fill(0));
  const spans = sizes.map((_size, dim) => spanOf({ sizes, dilations }, dim));
  const padding = spans.map((span, dim): [number, number] => {
    if (mode === "NOTSET") return [pads[dim] as number, pads[dim + rank] as number];
    if (mode === "VALID") return [0, 0];
    // As many windows as strides begin in the input.
    const [size, stride] = [c.shape()[dim + 2] as number, strides[dim] as number];
    const total = Math.max(0, (Math.ceil(size / stride) - 1) * stride + span - size);
    const half = Math.floor(total / 2);
    return mode === "SAME_LOWER" ? [total - half, half] : [half, total - half];
  });
  return { sizes, strides, dilations, padding };
}
